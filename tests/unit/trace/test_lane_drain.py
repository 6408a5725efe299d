"""From lane to files: nothing lost, nothing twice, whatever fails in between."""

import os

import pytest

from mpbroker import _native
from mpbroker.trace import lane, lane_drain, manifest, record, segment, segment_writer, statistics
from mpbroker.trace.lane_drain import EVENTS_AT_ONCE, recover_directory
from mpbroker.trace.record import TraceRecord
from tests.unit.trace.traces import drain_of, finish, records_in, requests_in

SECOND_NS = 1_000_000_000


def _follow(drain):
    """What the tracer does when a lane becomes half full: the number of records moved; None when it needs a step."""
    before, bell = drain.lane.counters().drained, os.eventfd(1, os.EFD_NONBLOCK)
    try:
        ended = _native.trace_wait((drain.tail(),), -1, bell, -1, 1)
    finally:
        os.close(bell)
    assert ended in (0, 2)
    moved = drain.lane.counters().drained - before
    assert ended == 0 or moved == 0
    return moved if ended == 0 else None


def _kinds(directory):
    return [one.kind for one in records_in(directory)]


def test_records_go_into_one_segment(tmp_path, both_ends):
    writer, reader = both_ends
    drain = drain_of(reader, tmp_path)
    assert drain.step(0) == 0 and drain.active == {}  # nothing finished: no file
    finish(writer, *range(3))
    assert drain.step(0) == 3
    finish(writer, *range(3, 17))  # round the end of the lane
    assert drain.step(0) == 14
    drain.close()
    assert requests_in(tmp_path) == list(range(17))
    (row,) = manifest.read(tmp_path)
    assert (row.finished, row.records, row.dropped) == (17, 18, 0)  # 17 requests and a clock sample


def test_between_two_steps_records_alone_are_written(tmp_path, both_ends):
    """The counters in the header follow with the next step, or with the end of the segment."""
    writer, reader = both_ends
    drain = drain_of(reader, tmp_path)
    assert _follow(drain) == 0, "nothing finished"
    finish(writer, *range(3))
    assert _follow(drain) is None and drain.active == {}, "there is no segment yet"
    assert drain.step(0) == 3
    finish(writer, *range(3, 17))  # round the end of the lane
    assert _follow(drain) == 14 and _follow(drain) == 0
    assert reader.counters().drained == 17
    (info,) = manifest.segments(tmp_path)
    assert (info.progress.written, requests_in(tmp_path)) == (3, list(range(17)))
    assert drain.step(0) == 0
    (info,) = manifest.segments(tmp_path)
    assert (info.progress.written, info.progress.finished) == (17, 17)
    finish(writer, 17, 18)
    assert _follow(drain) == 2
    drain.close()
    (row,) = manifest.read(tmp_path)
    assert (row.finished, row.records, row.dropped) == (19, 20, 0)
    assert requests_in(tmp_path) == list(range(19))


def test_what_does_not_fit_or_is_watched_needs_a_step(tmp_path, both_ends):
    writer, reader = both_ends
    drain = drain_of(reader, tmp_path, segment_bytes=4096 + 6 * 128)  # with the sample of the clock: five requests
    finish(writer, 0, 1)
    drain.step(0)
    finish(writer, *range(2, 6))
    assert _follow(drain) is None and reader.counters().drained == 2
    drain.step(0)  # one segment is full, the next holds one
    finish(writer, *range(6, 10))
    assert _follow(drain) == 4 and len(manifest.read(tmp_path)) == 1
    seen = []
    drain.watch = lambda records, now_ns: seen.append(len(records))
    finish(writer, 10)
    assert _follow(drain) is None
    assert drain.step(0) == 1 and seen == [128]
    assert requests_in(tmp_path) == list(range(11))


@pytest.fixture
def followed(tmp_path, both_ends):
    """The writer, and a drain of five requests, three of which have followed its step."""
    writer, reader = both_ends
    drain = drain_of(reader, tmp_path)
    finish(writer, 0, 1)
    drain.step(0)
    finish(writer, *range(2, 5))
    assert _follow(drain) == 3
    return writer, drain


def test_a_tracer_that_dies_after_it_followed_is_followed(tmp_path, followed):
    """What is in the file and beyond its counters is not written again, and none of it is lost."""
    writer, drain = followed
    reader = drain.lane
    finish(writer, 5, 6)
    drain._writer.append(reader.peek(2))  # it is killed before they are released
    recover_directory(tmp_path, 4)
    after = drain_of(reader, tmp_path)
    assert after.step(0) == 0
    finish(writer, 7)
    assert after.step(0) == 1
    after.close()
    assert requests_in(tmp_path) == list(range(8))
    assert statistics.collect(manifest.segments(tmp_path)).finished == 8


def test_what_followed_is_noted_before_its_segment_ends(tmp_path, followed, monkeypatch):
    """Else the next one would begin with numbers that are in this one already."""
    writer, drain = followed
    with monkeypatch.context() as patch:
        patch.setattr(segment_writer, "_write_all", full_disk)
        with pytest.raises(OSError, match="No space"):
            drain.close()
    assert len(drain.active) == 1, "it goes on with it"
    drain.close()
    finish(writer, 5, 6)
    drain.step(0)
    drain.close()
    first, second = manifest.segments(tmp_path)
    assert (first.progress.written, first.progress.finished, second.opened.first_seq) == (5, 5, 5)
    assert requests_in(tmp_path) == list(range(7)) and statistics.collect([first, second]).gaps() == []


def test_after_a_change_of_origin_nothing_more_is_written_into_the_old_segment(tmp_path, followed, monkeypatch):
    """Also where the disk is full at first."""
    writer, drain = followed
    new = drain._origin._replace(extra={"listeners": ["new"]})
    with monkeypatch.context() as patch:
        patch.setattr(segment_writer, "_write_all", full_disk)
        with pytest.raises(OSError, match="No space"):
            drain.use_origin(new)
        finish(writer, 5)
        assert _follow(drain) is None
        with pytest.raises(OSError, match="No space"):
            drain.step(0)
    assert drain.step(0) == 1
    finish(writer, 6)
    assert _follow(drain) == 1
    drain.use_origin(new._replace(extra={"listeners": ["newer"]}))  # at once
    finish(writer, 7)
    drain.step(0)
    drain.close()
    segments = manifest.segments(tmp_path)
    assert [one.opened.extra.get("listeners") for one in segments] == [None, ["new"], ["newer"]]
    assert [one.opened.first_seq for one in segments] == [0, 5, 7]
    assert requests_in(tmp_path) == list(range(8)) and statistics.collect(segments).gaps() == []


def test_drops_are_counted_and_noticed(tmp_path, both_ends):
    writer, reader = both_ends
    drain = drain_of(reader, tmp_path)
    finish(writer, *range(21))
    drain.step(0)
    drain.step(0)
    assert _kinds(tmp_path) == [record.CLOCK, *[record.REQUEST] * 16, record.DROP_NOTICE]
    result = statistics.collect(manifest.segments(tmp_path))
    assert (result.finished, result.records, result.dropped) == (21, 16, 5)


def test_segments_end_by_size_and_by_age(tmp_path, both_ends):
    writer, reader = both_ends
    drain = drain_of(reader, tmp_path, segment_bytes=4096 + 5 * 128, segment_ms=1000)
    finish(writer, *range(9))
    drain.step(0)
    assert [row.records for row in manifest.read(tmp_path)] == [5, 5]
    finish(writer, 9)
    drain.step(SECOND_NS - 1)
    assert len(manifest.read(tmp_path)) == 2
    drain.step(SECOND_NS)
    rows = manifest.read(tmp_path)
    assert [(row.first_seq, row.finished) for row in rows] == [(0, 4), (4, 4), (8, 2)]
    assert drain.active == {} and requests_in(tmp_path) == list(range(10))


def test_a_segment_that_the_last_record_of_a_drain_fills_has_it_in_its_counters(tmp_path, both_ends):
    writer, reader = both_ends
    drain = drain_of(reader, tmp_path, segment_bytes=4096 + 5 * 128)
    for first in range(0, 12, 4):
        finish(writer, *range(first, first + 4))
        drain.step(0)
    assert [(row.first_seq, row.finished, row.records) for row in manifest.read(tmp_path)] == [
        (0, 4, 5),
        (4, 4, 5),
        (8, 4, 5),
    ]
    assert requests_in(tmp_path) == list(range(12)) and statistics.collect(manifest.segments(tmp_path)).gaps() == []


def test_a_segment_that_a_step_fills_is_followed_by_none_without_records(tmp_path, both_ends):
    writer, reader = both_ends
    drain = drain_of(reader, tmp_path, segment_bytes=4096 + 5 * 128)
    finish(writer, *range(8))
    assert drain.step(0) == 8 and drain.active == {}
    assert [row.records for row in manifest.read(tmp_path)] == [5, 5]
    assert len(list(tmp_path.glob("*.mpt"))) == 2


def test_clock_samples_come_every_ten_seconds(tmp_path, both_ends):
    writer, reader = both_ends
    drain = drain_of(reader, tmp_path)
    finish(writer, 0)
    for second in (0, 9, 10, 19, 20):
        drain.step(second * SECOND_NS)
    assert _kinds(tmp_path).count(record.CLOCK) == 3


def test_events_wait_for_a_segment(tmp_path, both_ends):
    writer, reader = both_ends
    drain = drain_of(reader, tmp_path)
    drain.add_event(TraceRecord(t0_ns=1, kind=record.PROCESS_EVENT, aux=77).pack(), urgent=False)
    drain.write_events(0)
    drain.step(0)
    assert _kinds(tmp_path) == []
    finish(writer, 0)
    drain.step(0)
    assert _kinds(tmp_path) == [record.CLOCK, record.PROCESS_EVENT, record.REQUEST]


def test_urgent_events_open_a_segment_and_take_the_others_along(tmp_path, both_ends):
    drain = drain_of(both_ends[1], tmp_path)
    drain.add_event(TraceRecord(t0_ns=1, kind=record.PROCESS_EVENT).pack(), urgent=False)
    for _ in range(EVENTS_AT_ONCE):
        drain.add_event(TraceRecord(t0_ns=1, kind=record.MARKER).pack())
    drain.write_events(0)
    assert _kinds(tmp_path) == [record.CLOCK, record.PROCESS_EVENT] + [record.MARKER] * EVENTS_AT_ONCE


def test_segments_without_requests_do_not_replace_each_other(tmp_path, both_ends):
    writer, reader = both_ends
    drain = drain_of(reader, tmp_path, segment_ms=1000)
    for second in range(3):
        drain.add_event(TraceRecord(t0_ns=second, kind=record.MARKER, aux=second).pack())
        drain.write_events(2 * second * SECOND_NS)
        drain.step((2 * second + 1) * SECOND_NS)
    finish(writer, 0, 1)
    drain.step(9 * SECOND_NS)
    drain.close()
    infos = manifest.segments(tmp_path)
    assert [info.opened.first_seq for info in infos] == [0, 0, 0, 0] and all(info.closed for info in infos)
    assert _kinds(tmp_path).count(record.MARKER) == 3 and requests_in(tmp_path) == [0, 1]
    again = drain_of(reader, tmp_path)
    finish(writer, 2)
    again.step(0)
    assert requests_in(tmp_path) == [0, 1, 2]


def test_events_are_bounded_and_counted_while_the_disk_is_full(tmp_path, both_ends, monkeypatch):
    drain = drain_of(both_ends[1], tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(lane_drain, "MAX_WAITING_EVENTS", 3)
        patch.setattr(segment_writer.os, "pwrite", full_disk)
        for number in range(5):
            drain.add_event(TraceRecord(t0_ns=1, kind=record.MARKER, aux=number).pack())
        with pytest.raises(OSError, match="No space"):
            drain.write_events(0)
    assert drain.events_lost == 2 and not list(tmp_path.glob("*.mpt"))
    drain.write_events(0)
    assert _kinds(tmp_path) == [record.CLOCK] + [record.MARKER] * 3


def test_a_file_without_a_header_is_removed(tmp_path, both_ends):
    for size in (0, 4095):
        (tmp_path / segment.file_name(4, 77, 0, 0, size)).write_bytes(b"M" * size)
    odd = tmp_path / segment.file_name(4, 77, 0, 0, 9)
    odd.write_bytes(b"M" * 4096)  # a header that nobody understands may have meant something
    (tmp_path / segment.file_name(5, 77, 0, 0)).write_bytes(b"")
    assert recover_directory(tmp_path, broker_id=4) == 0
    assert {path.name for path in tmp_path.glob("*.mpt")} == {odd.name, segment.file_name(5, 77, 0, 0)}


def full_disk(file, data, position):
    raise OSError(28, "No space left on device")


@pytest.mark.parametrize("step", ["append", "release", "note", "close", "manifest"])
def test_a_tracer_that_dies_at_any_step_is_continued(tmp_path, both_ends, monkeypatch, step):
    writer, reader = both_ends

    class Death(BaseException):
        """Stands for SIGKILL."""

    def die(*_arguments):
        raise Death

    def write_and_die(file, data, position, write=segment_writer._write_all):
        write(file, data, position)
        if position > segment.HEADER_BYTES:
            raise Death

    drain = drain_of(reader, tmp_path)
    finish(writer, *range(20))  # 4 are dropped
    with monkeypatch.context() as patch:
        target, name = {
            "append": (segment_writer, "_write_all"),
            "release": (lane.Lane, "release"),
            "note": (segment_writer.SegmentWriter, "note"),
            "close": (segment, "pack_closed"),
            "manifest": (manifest, "append"),
        }[step]
        patch.setattr(target, name, write_and_die if step == "append" else die)
        with pytest.raises(Death):
            drain.step(0)
            drain.close()
    finish(writer, 20, 21)
    recover_directory(tmp_path, broker_id=4)
    successor = drain_of(reader, tmp_path)
    successor.step(SECOND_NS)
    finish(writer, *range(22, 25))
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
    finish(writer, 0, 1)
    drain.step(0)

    finish(writer, *range(2, 20))
    with monkeypatch.context() as patch:
        patch.setattr(segment_writer.os, "pwrite", full_disk)
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
    finish(writer, 0, 1)
    drain.step(0)
    assert recover_directory(tmp_path, broker_id=5) == 0
    assert manifest.segments(tmp_path)[0].closed is None
    assert recover_directory(tmp_path, broker_id=4) == 1


def no_new_room(whole=segment_writer._write_all):
    """A disk on which only what a file has already can be written."""

    def write(file, data, position):
        if position + len(data) > os.fstat(file).st_size:
            raise OSError(28, "No space left on device")
        whole(file, data, position)

    return write


def test_what_a_full_disk_does_not_take_to_the_end_is_counted_as_dropped(tmp_path, both_ends, monkeypatch):
    writer, reader = both_ends
    drain = drain_of(reader, tmp_path)
    finish(writer, 0, 1)
    drain.step(0)
    assert drain.give_up() == 0
    finish(writer, *range(2, 20))  # two are dropped
    monkeypatch.setattr(segment_writer, "_write_all", no_new_room())
    with pytest.raises(OSError, match="No space"):
        drain.step(0)
    assert drain.give_up() == 16
    drain.close()
    assert requests_in(tmp_path) == [0, 1]
    result = statistics.collect(manifest.segments(tmp_path))
    assert (result.finished, result.records, result.dropped) == (20, 2, 18)


def test_without_a_segment_what_is_lost_is_only_told(tmp_path, both_ends):
    writer, reader = both_ends
    drain = drain_of(reader, tmp_path)
    finish(writer, *range(3))
    assert drain.give_up() == 3 and list(tmp_path.iterdir()) == []
