"""The limits of the log hold exactly: one byte, one record, one offset on either side of each."""

import pytest

from mpbroker import _native
from mpbroker.errors import ErrorCode
from tests.unit.native.test_log import NOW_MS, append, log, make_batch, read

__all__ = ["log"]

BATCH = make_batch([b"x" * 100])
INDEX_ENTRY = 8


@pytest.mark.parametrize(("over", "segments"), [(0, [0, 3, 6]), (-1, [0, 2, 4, 6]), (1, [0, 3, 6])])
def test_a_segment_is_full_when_the_next_batch_does_not_fit(log, over, segments):
    options = _native.LogOptions(segment_bytes=3 * len(BATCH) + over)
    for _ in range(7):
        assert append(log, BATCH, options).error == 0
    assert log.segments(3) == segments


@pytest.mark.parametrize(("over", "code"), [(0, 0), (-1, ErrorCode.RECORD_LIST_TOO_LARGE)])
def test_a_batch_as_large_as_a_segment_is_taken(log, over, code):
    options = _native.LogOptions(segment_bytes=len(BATCH) + over)
    assert [append(log, BATCH, options).error for _ in range(3)] == [code] * 3
    assert log.segments(3) == ([0] if code else [0, 1, 2])


@pytest.mark.parametrize(("over", "code"), [(0, 0), (-1, ErrorCode.MESSAGE_TOO_LARGE)])
def test_a_batch_as_large_as_a_message_may_be_is_taken(log, over, code):
    assert append(log, BATCH, _native.LogOptions(max_message_bytes=len(BATCH) + over)).error == code


def test_flush_messages_is_reached_with_that_record(log):
    options = _native.LogOptions(flush_messages=3)
    assert [append(log, BATCH, options).flush_due for _ in range(4)] == [False, False, True, True]
    assert log.flush(3) == (0, 4)
    assert [append(log, make_batch([b"a", b"b"]), options).flush_due for _ in range(2)] == [False, True]


@pytest.mark.parametrize(("over", "entries"), [(-1, [0, 1, 2, 3]), (0, [0, 0, 1, 1]), (1, [0, 0, 1, 1])])
def test_an_index_entry_comes_when_more_than_the_interval_was_written(log, over, entries):
    options = _native.LogOptions(index_interval_bytes=len(BATCH) + over)
    found = []
    for _ in range(4):
        append(log, BATCH, options)
        found.append(log.state(3).index_bytes // INDEX_ENTRY)
    assert found == entries


def test_the_offset_of_the_largest_timestamp_is_that_of_the_first_batch_that_had_it(log):
    found = []
    for timestamp in (5, 7, 7, 6, 8, 8):
        append(log, make_batch([b"a", b"b"], timestamp=timestamp))
        state = log.state(3)
        found.append((state.max_timestamp, state.max_timestamp_offset))
    assert found == [(5, 1), (7, 3), (7, 3), (7, 3), (8, 9), (8, 9)]


@pytest.mark.parametrize(("over", "min_one", "batches"), [(0, False, 1), (-1, False, 0), (-1, True, 1), (0, True, 1)])
def test_a_fetch_that_a_batch_fits_exactly_has_it(log, over, min_one, batches):
    for _ in range(2):
        append(log, BATCH)
    error, plan = log.find(3, 0, _native.READ_TO_END, len(BATCH) + over, min_one)
    assert (error, plan.length) == (0, batches * len(BATCH))
    assert log.find(3, 0, _native.READ_TO_END, 2 * len(BATCH), min_one)[1].length == 2 * len(BATCH)


@pytest.mark.parametrize("end", range(7))
def test_a_truncation_forgets_exactly_the_producers_batches_it_takes(log, end):
    for sequence in range(0, 6, 2):
        batch = make_batch([b"a", b"b"], producer_id=7, producer_epoch=0, base_sequence=sequence)
        assert append(log, batch).error == 0
    end -= end % 2  # truncations go to the beginning of a batch
    assert log.truncate(3, end) == 0 and log.state(3).leo == end
    if end:
        kept = make_batch([b"a", b"b"], producer_id=7, producer_epoch=0, base_sequence=end - 2)
        assert (append(log, kept).duplicate, log.state(3).leo) == (True, end)
    following = make_batch([b"a", b"b"], producer_id=7, producer_epoch=0, base_sequence=end)
    again = append(log, following)
    assert (again.error, again.duplicate, again.base_offset) == (0, False, end)


def test_what_was_planned_before_a_truncation_is_not_read_behind_it(log):
    for value in (b"a", b"b", b"c"):
        append(log, make_batch([value * 100]))
    error, plan = log.find(3, 1, _native.READ_TO_END, 1 << 20)
    assert error == 0
    assert log.truncate(3, 1) == 0
    for value in (b"d", b"e"):
        append(log, make_batch([value * 100]))
    buffer = bytearray(plan.length)
    assert log.read_into(plan, buffer) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, 0)
    assert b"d" * 100 in read(log, 1)


@pytest.mark.parametrize("gone", [True, False])
def test_what_was_planned_before_retention_is_read_whole_or_out_of_range(log, tmp_path, gone):
    append(log, make_batch([b"old" * 30]))
    log.roll(3, NOW_MS)
    append(log, make_batch([b"new" * 30]))
    whole = read(log, 0)
    error, plan = log.find(3, 0, _native.READ_TO_END, 1 << 20)
    assert error == 0
    assert log.set_log_start(3, 1) == 0 and log.retain(3, -1, -1, NOW_MS) == (0, [0])
    if gone:
        log.close_cached(3)
        for path in (tmp_path / "t-0").glob("*.deleted"):
            path.unlink()
    buffer = bytearray(plan.length)
    error, length = log.read_into(plan, buffer)
    expected = (ErrorCode.OFFSET_OUT_OF_RANGE, b"") if gone else (0, whole[: plan.length])
    assert (error, bytes(buffer[:length])) == expected
    assert log.log_dir_online(0)
