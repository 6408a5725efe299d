"""The log binder: what handlers, recovery and the log keeper call, against real files and small shared memory."""

import os
import sys
import threading
import time

import pytest

from mpbroker import _native
from mpbroker.errors import ErrorCode
from mpbroker.record.batch_builder import encode_batch
from tests.harness.small_core import small_core

TOPIC_ID = bytes(range(16))
NOW_MS = 1_700_000_000_000


def make_batch(values, timestamp=NOW_MS, **settings):
    return encode_batch([(None, value, timestamp, ()) for value in values], **settings)


@pytest.fixture
def log(tmp_path):
    memory = small_core()
    log = _native.Log(memory.core, [str(tmp_path)], 48)
    assert log.create(3, TOPIC_ID, 0, 0, 0, "t-0", 5, NOW_MS) == 0
    yield log
    log.close()


def append(log, batch, options=None, **more):
    return log.append(3, _native.NO_REQUEST, 0, batch, options or _native.LogOptions(), NOW_MS, **more)


def read(log, offset, max_bytes=1 << 20, limit=_native.READ_TO_END):
    error, plan = log.find(3, offset, limit, max_bytes)
    assert error == 0
    buffer = bytearray(plan.length)
    assert log.read_into(plan, buffer) == (0, plan.length)
    return bytes(buffer)


def test_append_and_read_back(log, tmp_path):
    first = append(log, make_batch([b"a", b"b"]))
    second = append(log, make_batch([b"c"]))
    assert (first.error, first.base_offset, first.end_offset, first.leader_epoch) == (0, 0, 2, 5)
    assert (second.base_offset, second.append_time_ms, second.log_start) == (2, -1, 0)
    whole = (tmp_path / "t-0" / "00000000000000000000.log").read_bytes()
    assert read(log, 0) == whole
    assert whole.endswith(read(log, 2)) and len(read(log, 2)) < len(whole)
    state = log.state(3)
    assert (state.leo, state.hw, state.lso, state.position, state.segment_count) == (3, 3, 3, len(whole), 1)
    assert state.dir == "t-0"


def test_others_run_while_much_is_read(log):
    """Another thread waits for the interpreter, and nobody takes it from who does not give it away."""
    append(log, make_batch([bytes(1 << 15)]))
    _, plan = log.find(3, 0, _native.READ_TO_END, 1 << 20)
    room, ran, gate, interval_s = bytearray(plan.length), [], threading.Lock(), sys.getswitchinterval()
    other = threading.Thread(target=lambda: ran.append(gate.acquire()))
    gate.acquire()
    other.start()
    sys.setswitchinterval(1000.0)
    gate.release()
    try:
        assert any(log.read_into(plan, room) == (0, plan.length) and ran for _ in range(100_000))
    finally:
        sys.setswitchinterval(interval_s)
        other.join()


def test_append_refuses_what_the_checks_refuse(log):
    batch = bytearray(make_batch([b"a"]))
    batch[-1] ^= 1
    assert append(log, batch).error == ErrorCode.CORRUPT_MESSAGE
    too_large = append(log, make_batch([b"a" * 200]), _native.LogOptions(max_message_bytes=100))
    assert (too_large.error, too_large.base_offset) == (ErrorCode.MESSAGE_TOO_LARGE, -1)
    larger_than_a_segment = append(log, make_batch([b"a" * 200]), _native.LogOptions(segment_bytes=100))
    assert larger_than_a_segment.error == ErrorCode.RECORD_LIST_TOO_LARGE
    led_before = append(log, make_batch([b"a"]), leader_epoch=4)
    assert (led_before.error, led_before.log_start) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)
    of_another = append(log, make_batch([b"a"]), topic_id=bytes(16))
    assert (of_another.error, of_another.log_start) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)
    assert log.state(3).leo == 0


def test_append_wants_compressed_records_walked(log):
    batch = make_batch([b"a" * 100], codec=1)
    with pytest.raises(ValueError, match="compressed"):
        append(log, batch)
    assert append(log, batch, max_timestamp=NOW_MS).error == 0


WITH_MORE = {
    "append": (_native.NO_REQUEST, 0, b"", _native.LogOptions(), NOW_MS),
    "delete_records": (0, None),
    "find": (0, _native.READ_TO_END, 10),
    "find_time": (0,),
    "largest_time": (),
    "retain": (-1, -1, NOW_MS),
    "roll": (NOW_MS,),
    "set_flags": (0, 0),
    "set_high_watermark": (0,),
    "set_log_start": (0,),
    "truncate": (0,),
}


@pytest.mark.parametrize("number", [16, (1 << 32) + 3, (1 << 64) - 1])
@pytest.mark.parametrize("method", ["state", "flush", "producers", "segments", "close_cached"])
def test_a_row_outside_the_table_is_refused(log, method, number):
    with pytest.raises(ValueError, match="no partition row"):
        getattr(log, method)(number)


@pytest.mark.parametrize(("method", "more"), WITH_MORE.items(), ids=WITH_MORE)
def test_a_row_outside_the_table_is_refused_whatever_is_asked_of_it(log, method, more):
    with pytest.raises(ValueError, match="no partition row"):
        getattr(log, method)(16, *more)


@pytest.mark.parametrize("method", ["log_dir_online", "fail_log_dir"])
def test_a_log_directory_that_is_none_is_refused(log, method):
    with pytest.raises(ValueError, match="no log directory"):
        getattr(log, method)((1 << 32) + 1)
    assert log.log_dir_online(0)


def test_an_epoch_that_is_none_is_refused(log):
    with pytest.raises(OverflowError):
        log.become(3, 1, 1 << 32, 0, [1], [1], 1, 1, 0)
    assert log.state(3).leader_epoch == 5


def test_rows_never_used_are_unknown(log):
    assert log.find(4, 0, _native.READ_TO_END, 10)[0] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    result = log.append(4, _native.NO_REQUEST, 0, make_batch([b"a"]), _native.LogOptions(), NOW_MS)
    assert result.error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    with pytest.raises(ValueError, match="no partition row"):
        log.state(16)


def test_log_append_time(log):
    result = append(log, make_batch([b"a"], timestamp=5), _native.LogOptions(log_append_time=True))
    assert result.append_time_ms == NOW_MS
    assert log.state(3).max_timestamp == NOW_MS
    stored = read(log, 0)
    assert int.from_bytes(stored[35:43], "big") == NOW_MS
    assert stored[22] & 8
    assert int.from_bytes(stored[17:21], "big") == _native.crc32c(stored[21:])


def test_idempotent_duplicates_and_snapshot_rows(log):
    batch = make_batch([b"a", b"b"], producer_id=0, producer_epoch=0, base_sequence=0)
    assert append(log, batch).base_offset == 0
    again = append(log, batch)
    assert (again.error, again.duplicate, again.base_offset) == (0, True, 0)
    gap = make_batch([b"c"], producer_id=0, producer_epoch=0, base_sequence=5)
    assert append(log, gap).error == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    end_offset, rows = log.producers(3)
    assert (end_offset, rows) == (2, [(0, 0, 0, 1, 0, 1, NOW_MS)])
    assert log.expire_producers(3, NOW_MS + 1, NOW_MS + 1) == 1
    assert log.load_producers(3, rows) == 0
    assert append(log, batch).duplicate


def test_a_table_that_is_full_takes_no_more_producers(log):
    """Whoever loads hears of it; what was loaded before stays."""
    room = 64
    rows = [(producer, 0, 0, 0, producer, 0, NOW_MS) for producer in range(room + 1)]
    assert log.load_producers(3, rows[:room]) == 0
    assert log.load_producers(3, rows) == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert log.load_transactions(3, [(room, 0, 0, -1, NOW_MS)]) == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert sorted(log.producers(3)[1]) == rows[:room]


def test_publish_continues_what_is_on_disk(log, tmp_path):
    append(log, make_batch([b"a"]))
    state = log.state(3)
    keep = {
        name: getattr(state, name)
        for name in (
            "leo",
            "hw",
            "lso",
            "position",
            "max_timestamp",
            "log_bytes",
            "max_timestamp_offset",
            "first_timestamp",
            "leader_epoch",
        )
    }
    other = _native.Log(small_core().core, [str(tmp_path)])
    assert other.publish(3, TOPIC_ID, 0, 0, 0, "t-0", keep) == 0
    assert append(other, make_batch([b"b"])).base_offset == 1
    with pytest.raises(ValueError, match="no 'size'"):
        other.publish(3, TOPIC_ID, 0, 0, 0, "t-0", {"size": 1})
    other.close()


def test_roll_truncate_retain_flush(log, tmp_path):
    for _ in range(3):
        append(log, make_batch([b"x" * 100, b"y"]))
        assert log.roll(3, NOW_MS) == 0
    assert log.roll(3, NOW_MS) == 0, "an empty segment stays"
    assert log.segments(3) == [0, 2, 4, 6]
    assert log.flush(3) == (0, 6)
    assert log.state(3).flushed_offset == 6
    assert log.truncate(3, 4) == 0
    assert (log.state(3).leo, log.segments(3)) == (4, [0, 2, 4])
    assert log.set_log_start(3, 5) == ErrorCode.OFFSET_OUT_OF_RANGE
    assert log.set_log_start(3, 2) == 0
    assert log.retain(3, -1, -1, NOW_MS) == (0, [0])
    assert log.find(3, 1, _native.READ_TO_END, 10)[0] == ErrorCode.OFFSET_OUT_OF_RANGE
    assert log.retain(3, 1000, -1, NOW_MS + 5000) == (0, [2])
    names = sorted(os.listdir(tmp_path / "t-0"))
    assert "00000000000000000002.log.deleted" in names
    assert log.close_stale() > 0


def test_find_time(log):
    for i in range(5):
        append(log, make_batch([b"a", b"b"], timestamp=1000 * i))
    error, plan = log.find_time(3, 2500)
    assert (error, plan.length > 0) == (0, True)
    assert read(log, 6)[: plan.length] == read(log, 6, limit=8)
    assert log.find_time(3, 4001)[1].length == 0


def test_deleted_partition(log):
    append(log, make_batch([b"a"]))
    assert log.set_flags(3, 4, 0) == 0
    assert append(log, make_batch([b"a"])).error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert log.find(3, 0, _native.READ_TO_END, 10)[0] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize(
    ("at", "byte", "code"),
    [
        (16, 1, ErrorCode.CORRUPT_MESSAGE),  # an older format
        (16, 3, ErrorCode.CORRUPT_MESSAGE),
        (11, 48, ErrorCode.CORRUPT_MESSAGE),  # shorter than a header
        (11, 255, ErrorCode.CORRUPT_MESSAGE),  # beyond the end
    ],
)
def test_what_is_no_batch_is_not_looked_through(log, tmp_path, at, byte, code):
    append(log, make_batch([b"a"]))
    start = log.state(3).position
    append(log, make_batch([b"b"]))
    with open(tmp_path / "t-0" / "00000000000000000000.log", "r+b") as file:
        file.seek(start + at)
        file.write(bytes([byte]))
    assert log.find(3, 1, _native.READ_TO_END, 1 << 20)[0] == code
    assert log.log_dir_online(0), "one batch is damaged, not the disk"


def test_when_a_producer_wrote_that_comes_from_a_snapshot(log):
    """As its batch says, but nobody has written in the future."""
    before_ms = time.time_ns() // 1_000_000
    for number, (said_ms, least_ms, most_ms) in enumerate([(NOW_MS, NOW_MS, NOW_MS), (1 << 50, before_ms, None)]):
        assert log.load_producers(3, [(number, 0, 0, 1, 0, 1, said_ms)]) == 0
        _, once, often = log.producer_times()
        assert len(once) == number + 1 and often == []
        assert least_ms <= max(once) <= (most_ms or time.time_ns() // 1_000_000)


def test_of_a_partition_that_is_published_without_records_no_time_is_known(log):
    assert log.publish(4, TOPIC_ID, 0, 1, 0, "t-1", {}) == 0
    state = log.state(4)
    times = (state.max_timestamp, state.max_timestamp_offset, state.first_timestamp, state.indexed_timestamp)
    assert times == (-1, -1, -1, -1)
    assert log.publish(4, TOPIC_ID, 0, 1, 0, "t-1", {"max_timestamp": 5, "leo": 3}) == 0
    state = log.state(4)
    assert (state.max_timestamp, state.first_timestamp, state.leo) == (5, -1, 3)
