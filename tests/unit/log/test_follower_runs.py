"""A follower writes batches that nothing parts with one call and commits them at once; where they are parted each is
written for itself. Whatever is joined: log, ends and times are those of a follower that took them singly."""

import struct

import pytest

from mpbroker import _native
from mpbroker._native import LogOptions
from mpbroker.errors import ErrorCode
from mpbroker.record.batch_builder import encode_batch
from mpbroker.shm.layout import ReplicaRole
from tests.unit.log.test_followers_transactions import Replica

pytestmark = pytest.mark.skipif(not hasattr(_native, "io_fail"), reason="no test build")

COMPARED = ("leo", "hw", "max_timestamp", "max_timestamp_offset", "first_timestamp", "log_bytes", "segment_count")
TIMES = (50, 90, 70, 90, 95, 95, 10, 20)


def batch(base: int, number: int, epoch: int = 1, records: int = 2, **fields) -> bytes:
    made = encode_batch([(b"k", b"v" * 20, TIMES[number])] * records, **fields)
    return struct.pack(">q", base) + made[8:12] + struct.pack(">i", epoch) + made[16:]


def plain(count: int) -> list[bytes]:
    return [batch(2 * number, number) for number in range(count)]


SIZE = len(plain(1)[0])
TRANSACTIONAL = batch(4, 2, producer_id=0, producer_epoch=0, base_sequence=0, transactional=True)
IDEMPOTENT = batch(4, 2, producer_id=0, producer_epoch=0, base_sequence=0)
WIDE = LogOptions(segment_bytes=1 << 20, index_interval_bytes=100 * SIZE)


def writes_of(replica: Replica, batches: list[bytes], options: LogOptions = WIDE) -> tuple[int, int, int]:
    """Error, batches taken and calls that wrote."""
    _native.io_fail(0, 0, 0)
    try:
        leo = replica.log.state(0).leo
        code, taken, *_ = replica.log.append_follower(0, 9, leo, b"".join(batches), 99, 0, options, 60)
        return code, taken, _native.io_calls().count(_native.IO_WRITE)
    finally:
        _native.io_fail(0, 0, -1)


def replica(path) -> Replica:
    made = Replica(path)
    assert made.log.become(0, ReplicaRole.FOLLOWER, 9, 1, [0, 1], (0,), 1, 1, 0, leader=0) == 0
    return made


#: (batches, calls that write them): the first of a segment is always written for itself.
CASES = {
    "nothing parts them": (plain(6), 2),
    "one": (plain(1), 1),
    "a producer": ([*plain(2), IDEMPOTENT, batch(6, 3), batch(8, 4)], 4),
    "an epoch": ([*plain(2), batch(4, 2, 2), batch(6, 3, 2), batch(8, 4, 2)], 3),
    "a gap": ([*plain(3), batch(7, 3), batch(9, 4)], 3),
    "a transaction": (
        [*plain(2), batch(4, 2, producer_id=0, producer_epoch=0, base_sequence=0, transactional=True)],
        3,
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_what_is_joined_is_as_if_it_had_come_singly(tmp_path, case):
    batches, writes = CASES[case]
    joined, singly = replica(tmp_path / "joined"), replica(tmp_path / "singly")
    assert writes_of(joined, batches) == (0, len(batches), writes)
    for each in batches:
        assert writes_of(singly, [each]) == (0, 1, 1)
    assert joined.batches() == singly.batches() == batches
    for name in COMPARED:
        assert getattr(joined.log.state(0), name) == getattr(singly.log.state(0), name), name
    assert joined.log.largest_time(0) == singly.log.largest_time(0)
    assert joined.known() == singly.known()


@pytest.mark.parametrize(("interval", "runs", "indexed"), [(3 * SIZE, 3, 1), (3 * SIZE - 1, 4, 1), (SIZE, 7, 3)])
def test_no_run_is_longer_than_what_lies_between_two_entries_of_the_index(tmp_path, interval, runs, indexed):
    """Seven batches: the first, then three by three; or with a byte less two by two; or none with another."""
    one = replica(tmp_path / "one")
    options = LogOptions(segment_bytes=1 << 20, index_interval_bytes=interval)
    code, taken, writes = writes_of(one, plain(7), options)
    state = one.log.state(0)
    assert (code, taken) == (0, 7) and one.batches() == plain(7)
    assert writes == runs + state.index_bytes // 8 + state.time_index_bytes // 12
    assert state.index_bytes // 8 == indexed


@pytest.mark.parametrize(("room", "segments"), [(6, 1), (5, 2), (2, 3), (1, 6)])
def test_segments_are_rolled_where_single_batches_would_roll_them(tmp_path, room, segments):
    options = LogOptions(segment_bytes=room * SIZE, index_interval_bytes=100 * SIZE)
    joined, singly = replica(tmp_path / "joined"), replica(tmp_path / "singly")
    assert writes_of(joined, plain(6), options)[:2] == (0, 6)
    for each in plain(6):
        assert writes_of(singly, [each], options)[0] == 0
    sizes = [{file.name: file.stat().st_size for file in (one.path / "t-0").glob("*.log")} for one in (joined, singly)]
    assert sizes[0] == sizes[1] and len(sizes[0]) == segments


@pytest.mark.parametrize("at", [1, 2, 3])
def test_a_damaged_batch_is_not_joined_and_ends_the_append(tmp_path, at):
    batches = plain(5)
    damaged = batches[at][:-1] + bytes([batches[at][-1] ^ 1])
    one = replica(tmp_path / "one")
    code, taken, _ = writes_of(one, [*batches[:at], damaged, *batches[at + 1 :]])
    assert (code, taken) == (ErrorCode.CORRUPT_MESSAGE, at)
    assert one.batches() == batches[:at] and one.log.state(0).leo == 2 * at
    assert writes_of(one, batches[at:])[:2] == (0, 5 - at)


def test_a_batch_of_a_later_epoch_than_the_leaders_is_refused_behind_those_joined(tmp_path):
    one = replica(tmp_path / "one")
    code, taken, _ = writes_of(one, [*plain(3), batch(6, 3, 10)])
    assert (code, taken) == (ErrorCode.OFFSET_OUT_OF_RANGE, 3)
    assert one.batches() == plain(3)
