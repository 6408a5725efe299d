"""From lane to files: nothing lost, nothing twice, whatever fails in between."""

import os

import pytest

from mpbroker.trace import lane, manifest, record, segment, segment_writer, statistics
from mpbroker.trace.lane_drain import recover_directory
from mpbroker.trace.record import TraceRecord
from tests.unit.trace.traces import drain_of, full_request, requests_in

SECOND_NS = 1_000_000_000


@pytest.fixture
def both_ends():
    name = f"/mpbroker-test-{os.getpid()}-drain"
    made = lane.create(name, processor=2, boot_id=0x1234567890, capacity_records=16)
    yield made, lane.attach(name)
    lane.unlink(name)


def _finish(writer, first, count):
    for number in range(first, first + count):
        writer.native.put(full_request(number).pack())


def _kinds(directory):
    return [record.unpack(chunk, at).kind for info in manifest.segments(directory) for chunk in segment.read_chunks(info)
            for at in range(0, len(chunk), 128)]


def test_records_go_into_one_segment(tmp_path, both_ends):
    writer, reader = both_ends
    drain = drain_of(reader, tmp_path)
    assert drain.step(0) == 0 and drain.active == {}  # nothing finished: no file
    _finish(writer, 0, 3)
    assert drain.step(0) == 3
    _finish(writer, 3, 14)  # round the end of the lane
    assert drain.step(0) == 14
    drain.close()
    assert requests_in(tmp_path) == list(range(17))
    (row,) = manifest.read(tmp_path)
    assert (row.finished, row.records, row.dropped) == (17, 18, 0)  # 17 requests and a clock sample


def test_drops_are_counted_and_noticed(tmp_path, both_ends):
    writer, reader = both_ends
    drain = drain_of(reader, tmp_path)
    _finish(writer, 0, 21)
    drain.step(0)
    drain.step(0)
    assert _kinds(tmp_path) == [record.CLOCK, *[record.REQUEST] * 16, record.DROP_NOTICE]
    result = statistics.collect(manifest.segments(tmp_path))
    assert (result.finished, result.records, result.dropped) == (21, 16, 5)


def test_segments_end_by_size_and_by_age(tmp_path, both_ends):
    writer, reader = both_ends
    drain = drain_of(reader, tmp_path, segment_bytes=4096 + 5 * 128, segment_ms=1000)
    _finish(writer, 0, 9)
    drain.step(0)
    assert [row.records for row in manifest.read(tmp_path)] == [5, 5]
    _finish(writer, 9, 1)
    drain.step(SECOND_NS - 1)
    assert len(manifest.read(tmp_path)) == 2
    drain.step(SECOND_NS)
    rows = manifest.read(tmp_path)
    assert [(row.first_seq, row.finished) for row in rows] == [(0, 4), (4, 4), (8, 2)]
    assert drain.active == {} and requests_in(tmp_path) == list(range(10))


def test_clock_samples_come_every_ten_seconds(tmp_path, both_ends):
    writer, reader = both_ends
    drain = drain_of(reader, tmp_path)
    _finish(writer, 0, 1)
    for second in (0, 9, 10, 19, 20):
        drain.step(second * SECOND_NS)
    assert _kinds(tmp_path).count(record.CLOCK) == 3


def test_events_wait_for_a_segment(tmp_path, both_ends):
    writer, reader = both_ends
    drain = drain_of(reader, tmp_path)
    drain.note_event(TraceRecord(t0_ns=1, kind=record.PROCESS_EVENT, aux=77))
    drain.step(0)
    assert _kinds(tmp_path) == []
    _finish(writer, 0, 1)
    drain.step(0)
    assert _kinds(tmp_path) == [record.CLOCK, record.PROCESS_EVENT, record.REQUEST]


@pytest.mark.parametrize("step", ["append", "release", "note", "close", "manifest"])
def test_a_tracer_that_dies_at_any_step_is_continued(tmp_path, both_ends, monkeypatch, step):
    writer, reader = both_ends

    class Death(BaseException):
        """Stands for SIGKILL."""

    def die(*_arguments):
        raise Death

    drain = drain_of(reader, tmp_path)
    _finish(writer, 0, 20)  # 4 are dropped
    with monkeypatch.context() as patch:
        target, name = {"append": (segment_writer.Tally, "add"), "release": (lane.Lane, "release"),
                        "note": (segment_writer.SegmentWriter, "note"), "close": (segment, "pack_closed"),
                        "manifest": (manifest, "append")}[step]
        patch.setattr(target, name, die)
        with pytest.raises(Death):
            drain.step(0)
            drain.close()
    _finish(writer, 20, 2)
    recover_directory(tmp_path, broker_id=4)
    successor = drain_of(reader, tmp_path)
    successor.step(SECOND_NS)
    _finish(writer, 22, 3)
    successor.step(SECOND_NS)
    successor.close()
    counters = writer.counters()
    found = requests_in(tmp_path)
    assert len(found) == len(set(found)) == counters.written
    assert found[-3:] == [22, 23, 24]
    result = statistics.collect(manifest.segments(tmp_path))
    assert (result.finished, result.records, result.dropped) == (25, counters.written, counters.dropped)
    assert len(manifest.read(tmp_path)) == len(list(tmp_path.glob("*.mpt")))


def test_a_full_disk_keeps_records_in_the_lane(tmp_path, both_ends, monkeypatch):
    writer, reader = both_ends
    drain = drain_of(reader, tmp_path)
    _finish(writer, 0, 2)
    drain.step(0)

    def full(file, data, position):
        raise OSError(28, "No space left on device")

    _finish(writer, 2, 18)
    with monkeypatch.context() as patch:
        patch.setattr(segment_writer.os, "pwrite", full)
        for _ in range(3):
            with pytest.raises(OSError, match="No space"):
                drain.step(0)
    drain.step(0)
    drain.close()
    assert requests_in(tmp_path) == list(range(18))
    result = statistics.collect(manifest.segments(tmp_path))
    assert (result.finished, result.records, result.dropped) == (20, 18, 2)


def test_other_brokers_segments_are_left_alone(tmp_path, both_ends):
    writer, reader = both_ends
    drain = drain_of(reader, tmp_path)
    _finish(writer, 0, 2)
    drain.step(0)
    assert recover_directory(tmp_path, broker_id=5) == 0
    assert manifest.segments(tmp_path)[0].closed is None
    assert recover_directory(tmp_path, broker_id=4) == 1
