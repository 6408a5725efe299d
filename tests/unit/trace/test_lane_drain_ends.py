"""What a drain of a lane takes at once, what it waits for, and where it goes on: at the edges."""

import pytest

from mpbroker.trace import lane_drain, manifest, record, segment, segment_writer, statistics
from mpbroker.trace.lane import LaneCounters
from mpbroker.trace.record import TraceRecord
from tests.harness.descriptors import open_descriptors
from tests.unit.trace.traces import drain_of, finish, records_in, requests_in

MS = 1_000_000


def test_a_step_takes_what_was_there_when_it_began(tmp_path, both_ends):
    """Else a lane that fills as fast as it is emptied would keep the tracer from everything else."""
    writer, reader = both_ends
    drain = drain_of(reader, tmp_path)
    finish(writer, *range(3))
    drain.step(0)
    finish(writer, *range(3, 17))  # thirteen to the end of the lane, and one
    drain.watch = lambda records, now_ns: finish(writer, 17, 18) if len(records) > 128 else None
    assert drain.step(0) == 14 and reader.counters().drained == 17
    (info,) = manifest.segments(tmp_path)
    assert (info.progress.written, info.progress.finished) == (17, 17)
    assert drain.step(0) == 2 and requests_in(tmp_path) == list(range(19))


def test_of_a_large_lane_so_many_are_written_at_once(tmp_path, both_ends, monkeypatch):
    writer, reader = both_ends
    monkeypatch.setattr(lane_drain, "CHUNK_RECORDS", 4)
    drain, seen = drain_of(reader, tmp_path), []
    drain.watch = lambda records, now_ns: seen.append((len(records) // 128, now_ns))
    finish(writer, *range(10))
    assert drain.step(7) == 10 and seen == [(4, 7), (4, 7), (2, 7)]


def test_a_lane_that_contradicts_its_counters_is_left(tmp_path, both_ends, monkeypatch):
    """It is somebody's who has written over it: nothing can be read there, and the tracer goes on with the others."""
    writer, reader = both_ends
    drain = drain_of(reader, tmp_path)
    finish(writer, 0, 1)
    monkeypatch.setattr(reader, "peek", lambda most: memoryview(b""))
    assert drain.step(0) == 0


@pytest.mark.parametrize("watched", [False, True])
def test_what_may_follow_a_step_is_said_for_the_open_segment_alone(tmp_path, both_ends, watched):
    writer, reader = both_ends
    drain = drain_of(reader, tmp_path, segment_bytes=4096 + 7 * 128)
    nothing = (reader.native, None, -1, 0, 0)
    assert drain.tail() == nothing
    finish(writer, 0)
    drain.step(0)
    drain.watch = (lambda records, now_ns: None) if watched else None
    found = drain.tail()
    if watched:
        assert found == nothing
    else:
        assert found[0] is reader.native and found[1:] == (drain._writer.tally, drain._writer._file, 4096, 7)
    drain.close()
    assert drain.tail() == nothing


def test_a_segment_that_cannot_be_closed_gives_its_descriptor_back(tmp_path, both_ends, monkeypatch):
    writer, reader = both_ends
    before = open_descriptors()
    drain = drain_of(reader, tmp_path)
    finish(writer, 0)
    drain.step(0)

    def fail(file):
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(segment_writer.os, "fsync", fail)
        with pytest.raises(OSError, match="Input/output"):
            drain.close()
    assert open_descriptors() <= before and drain.active == {}
    finish(writer, 1)
    assert drain.step(0) == 1 and requests_in(tmp_path) == [0, 1]
    drain.close()


def test_a_drop_notice_says_how_many_where_and_after_which_request(tmp_path, both_ends):
    writer, reader = both_ends
    drain = drain_of(reader, tmp_path)
    finish(writer, *range(21))
    drain.step(3 * MS)
    finish(writer, *range(21, 40))
    drain.step(4 * MS)
    drain.step(5 * MS)
    found = [one for one in records_in(tmp_path) if one.kind == record.DROP_NOTICE]
    assert [(one.t0_ns, one.seq_lo, one.aux, one.proc_id) for one in found] == [(3 * MS, 16, 5, 2), (4 * MS, 32, 3, 2)]


def test_an_urgent_event_that_was_written_makes_no_later_one_urgent(tmp_path, both_ends):
    drain = drain_of(both_ends[1], tmp_path)
    drain.add_event(TraceRecord(t0_ns=1, kind=record.MARKER).pack())
    drain.add_event(TraceRecord(t0_ns=1, kind=record.PROCESS_EVENT).pack(), urgent=False)
    drain.write_events(0)
    assert len(drain.active) == 1
    drain.close()
    drain.add_event(TraceRecord(t0_ns=2, kind=record.PROCESS_EVENT).pack(), urgent=False)
    drain.write_events(0)
    assert drain.active == {}


def test_an_event_that_fills_a_segment_ends_it(tmp_path, both_ends):
    drain = drain_of(both_ends[1], tmp_path, segment_bytes=4096 + 3 * 128, segment_ms=1000)
    for number in range(2):
        assert len(drain.active) == number
        drain.add_event(TraceRecord(t0_ns=1, kind=record.MARKER).pack())
        drain.write_events(0)
    assert drain.active == {} and [row.records for row in manifest.read(tmp_path)] == [3]
    drain.write_events(0)
    assert drain.active == {}, "nothing waits"


def test_the_clock_is_sampled_ten_seconds_after_the_last_time(tmp_path, both_ends):
    writer, reader = both_ends
    drain = drain_of(reader, tmp_path)
    finish(writer, 0)
    for now_ms, samples in ((5, 1), (10_004, 1), (10_005, 2), (20_004, 2), (20_005, 3)):
        drain.step(now_ms * MS)
        assert [one.kind for one in records_in(tmp_path)].count(record.CLOCK) == samples, now_ms


def test_a_lane_without_a_file_begins_with_what_was_not_drained_yet(tmp_path, both_ends):
    """What was dropped before the tracer came is this segment's loss."""
    writer, reader = both_ends
    finish(writer, *range(21))
    drain = drain_of(reader, tmp_path)
    drain.step(0)
    drain.close()
    (info,) = manifest.segments(tmp_path)
    assert info.opened.first_seq == 0 and info.progress.share() == (21, 16, 5, 0)


def test_where_the_last_files_are_gone_what_they_said_is_not_said_again(tmp_path, both_ends):
    writer, reader = both_ends
    drain = drain_of(reader, tmp_path)
    finish(writer, *range(21))
    drain.step(0)
    drain.close()
    for path in tmp_path.iterdir():
        path.unlink()
    finish(writer, 21, 22)
    after = drain_of(reader, tmp_path)
    assert after.step(0) == 2
    after.close()
    (info,) = manifest.segments(tmp_path)
    assert info.opened.first_seq == 16 and info.progress.share() == (2, 2, 0, 0)
    assert info.progress[:4] == (21, 16, 5, 0) and statistics.collect([info]).gaps() == []


def test_a_file_that_ends_before_what_was_drained_is_not_gone_on_with(tmp_path, both_ends):
    """A copy of an older one: what it does not have is a gap, and not written twice."""
    writer, reader = both_ends
    drain = drain_of(reader, tmp_path)
    finish(writer, *range(3))
    drain.step(0)
    drain.close()
    (older,) = tmp_path.glob("*.mpt")
    finish(writer, 3, 4)
    drain.step(0)
    drain.close()
    for path in tmp_path.glob("*.mpt"):
        if path != older:
            path.unlink()
    after = drain_of(reader, tmp_path)
    finish(writer, 5)
    assert after.step(0) == 1
    after.close()
    assert [info.opened.first_seq for info in manifest.segments(tmp_path)] == [0, 5]
    assert requests_in(tmp_path) == [0, 1, 2, 5]


def test_a_recovered_segment_is_listed_once(tmp_path, both_ends):
    writer, reader = both_ends
    drain = drain_of(reader, tmp_path)
    finish(writer, 0, 1)
    drain.step(0)
    drain.close()
    manifest_file = tmp_path / manifest.FILE
    listed = manifest_file.read_bytes()
    assert lane_drain.recover_directory(tmp_path, 4) == 0 and manifest_file.read_bytes() == listed
    manifest_file.unlink()  # it was closed, and the tracer was killed before it was listed
    assert lane_drain.recover_directory(tmp_path, 4) == 0 and manifest_file.read_bytes() == listed
    manifest_file.unlink()
    assert lane_drain.recover_directory(tmp_path, 5) == 0 and manifest_file.read_bytes() == listed, "a foreign one, too"


@pytest.mark.parametrize("odd", [0, 64])
def test_a_segment_takes_what_fits_and_at_least_one(tmp_path, both_ends, odd):
    """Also where less than a record is left: else nothing would ever end it."""
    writer, reader = both_ends
    drain = drain_of(reader, tmp_path, segment_bytes=4096 + 4 * 128 - odd)
    finish(writer, 0, 1)
    drain.step(0)  # and a sample of the clock: there is room for one, or for half of one
    finish(writer, 2, 3)
    assert drain.step(0) == 2
    assert [row.records for row in manifest.read(tmp_path)] == [4]
    assert [info.opened.first_seq for info in manifest.segments(tmp_path)] == [0, 3]


def test_the_age_of_a_segment_counts_from_when_it_was_opened(tmp_path, both_ends):
    writer, reader = both_ends
    drain = drain_of(reader, tmp_path, segment_ms=1000)
    finish(writer, 0)
    for now_ms, is_open in ((500, True), (1499, True), (1500, False)):
        drain.step(now_ms * MS)
        assert bool(drain.active) is is_open


def test_more_losses_than_a_notice_can_say_are_as_many_as_it_can(tmp_path, both_ends, monkeypatch):
    _, reader = both_ends
    drain = drain_of(reader, tmp_path)
    monkeypatch.setattr(reader, "counters", lambda: LaneCounters(2**32, 0, 2**32, 0, 0))
    drain.step(0)
    assert [one.aux for one in records_in(tmp_path) if one.kind == record.DROP_NOTICE] == [0xFFFFFFFF]


def test_what_is_gone_is_all_that_had_been_finished(tmp_path, both_ends, monkeypatch):
    _, reader = both_ends
    monkeypatch.setattr(reader, "counters", lambda: LaneCounters(30, 20, 5, 3, 16))
    assert drain_of(reader, tmp_path)._progress == (24, 16, 5, 3, 24, 16, 5, 3)


def test_what_was_sampled_out_before_a_segment_is_not_its_own(tmp_path, both_ends, monkeypatch):
    """Also where it begins with requests none of which has a record."""
    drain = drain_of(both_ends[1], tmp_path)
    for sampled_out in (7, 12, 20):
        monkeypatch.setattr(drain.lane, "counters", lambda count=sampled_out: LaneCounters(count, 0, 0, count, 0))
        drain.step(0)
        drain.close()
    infos = manifest.segments(tmp_path)
    assert [info.progress.share() for info in infos] == [(7, 0, 0, 7), (5, 0, 0, 5), (8, 0, 0, 8)]
    assert statistics.collect(infos).finished == 20


def _tear_close_fields(path):
    """Of what was written there the first bytes alone."""
    page = bytearray(path.read_bytes())
    end = segment.CLOSE_CRC_OFFSET + 4
    page[segment.CLOSE_OFFSET + 40 : end] = bytes(end - segment.CLOSE_OFFSET - 40)
    path.write_bytes(page)


@pytest.mark.parametrize("listed", [False, True])
def test_a_crash_that_tore_the_close_fields_costs_no_record(tmp_path, both_ends, listed):
    """A line of the manifest comes after them: with one, it was no crash, and what is left of the file stays as it
    is."""
    writer, reader = both_ends
    drain = drain_of(reader, tmp_path)
    finish(writer, *range(4))
    drain.step(0)
    [path] = drain.active
    drain.close()
    _tear_close_fields(path)
    if not listed:
        (tmp_path / manifest.FILE).unlink()
    before = path.read_bytes()
    assert lane_drain.recover_directory(tmp_path, broker_id=4) == (0 if listed else 1)
    info = segment.read_info(path)
    assert info.is_doubtful == (path.read_bytes() == before) == listed
    assert listed or (segment.verify(info) and info.record_count == 5)  # four, and a clock
    after = drain_of(reader, tmp_path)
    finish(writer, 4)
    assert after.step(0) == 1 and requests_in(tmp_path) == list(range(5))
    after.close()
