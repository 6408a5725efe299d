"""What a producer claims about time moves nobody else's records: retention and rolling go by the broker's clock."""

import os
import struct

import pytest

from mpbroker._native import NO_REQUEST, LogOptions
from mpbroker.log.log_retention import LogRetention
from mpbroker.log.segment_deletion import SegmentDeletion
from mpbroker.record.batch_builder import encode_batch
from mpbroker.record.checksum import crc32c

END_OF_TIME_MS = 2**63 - 8
NO_TIMESTAMP = -1
MAX_TIMESTAMP_AT, CRC_AT, CHECKED_FROM = 35, 17, 21


def claiming(batch: bytes, max_timestamp_ms: int) -> bytes:
    """The same records under a header that claims another largest timestamp."""
    changed = bytearray(batch)
    struct.pack_into(">q", changed, MAX_TIMESTAMP_AT, max_timestamp_ms)
    struct.pack_into(">I", changed, CRC_AT, crc32c(bytes(changed[CHECKED_FROM:])))
    return bytes(changed)


def append(world, partition, batch: bytes) -> None:
    options = LogOptions(
        segment_bytes=partition.settings.segment_bytes, index_interval_bytes=0, segment_ms=partition.settings.segment_ms
    )
    assert world.log.append(partition.ordinal, NO_REQUEST, 0, batch, options, world.clock.wall_ms()).error == 0


def written_now(world, partition) -> None:
    """The files' times are the real clock's: make them the test's."""
    for name in world.files(partition):
        os.utime(world.path / partition.dir / name, ns=(0, world.clock.wall_ms() * 1_000_000))


def test_a_header_is_not_believed_where_no_record_has_a_time(world):
    partition = world.create()
    append(world, partition, claiming(encode_batch([(b"k", b"v", NO_TIMESTAMP)]), END_OF_TIME_MS))
    assert world.state(partition).max_timestamp == NO_TIMESTAMP
    stored = (world.path / partition.dir / world.files(partition, ".log")[0]).read_bytes()
    assert struct.unpack_from(">q", stored, MAX_TIMESTAMP_AT) == (NO_TIMESTAMP,)
    assert struct.unpack_from(">I", stored, CRC_AT)[0] == crc32c(stored[CHECKED_FROM:])


def test_a_header_that_claims_too_little_is_corrected(world):
    partition = world.create()
    now_ms = world.clock.wall_ms()
    append(world, partition, claiming(encode_batch([(b"k", b"v", now_ms)]), 5))
    assert world.state(partition).max_timestamp == now_ms


@pytest.mark.parametrize("first_ms", [END_OF_TIME_MS, NO_TIMESTAMP, None])
def test_a_segment_rolls_by_the_brokers_clock_whatever_its_first_batch_says(world, first_ms):
    partition = world.create(segment_ms="1000")
    append(world, partition, encode_batch([(b"k", b"v", world.clock.wall_ms() if first_ms is None else first_ms)]))
    world.clock.advance(2000)
    append(world, partition, encode_batch([(b"k", b"v", world.clock.wall_ms())]))
    assert len(world.files(partition, ".log")) == 2


def test_times_at_both_ends_of_the_range_overflow_nothing(world):
    partition = world.create(segment_ms="1000")
    for timestamp_ms in (0, END_OF_TIME_MS, -(2**63) + 9, NO_TIMESTAMP, END_OF_TIME_MS, 0):
        append(world, partition, claiming(encode_batch([(b"k", b"v", max(timestamp_ms, -1))]), timestamp_ms))
    assert world.state(partition).leo == 6


@pytest.mark.parametrize("active", [True, False])
def test_records_from_the_future_do_not_stop_retention(world, active):
    partition = world.create(retention_ms="5000", segment_ms="1000")
    append(world, partition, encode_batch([(b"k", b"v", END_OF_TIME_MS)]))
    if not active:
        world.roll(partition)
        world.fill(partition, 2)
    written_now(world, partition)
    retention = LogRetention(world.keeper(), lambda *_: None)
    assert retention.retain(partition) == 0
    world.clock.advance(6000)
    retention.retain(partition)
    assert world.state(partition).log_start >= 1


def deleted_and_open(directory) -> list[str]:
    found = []
    for name in os.listdir("/proc/self/fd"):
        try:
            link = os.readlink(f"/proc/self/fd/{name}")
        except FileNotFoundError:
            continue
        if link.startswith(str(directory)) and link.endswith("(deleted)"):
            found.append(link)
    return found


def test_what_retention_removes_is_given_back_to_the_disk(world):
    """The log keeper once held 778 deleted segments open."""
    partition = world.create(retention_bytes="1", segment_bytes="2000", file_delete_delay_ms="0")
    for offset in range(40):
        world.append(partition, size=500)
        if offset % 3 == 2:
            world.roll(partition)
    assert len(world.files(partition, ".log")) > 10
    keeper = world.keeper()
    deletion = SegmentDeletion(keeper)
    retention = LogRetention(keeper, deletion.removed)
    assert retention.retain(partition) > 10
    deletion.do_work()
    assert deletion.waiting == 0
    assert deleted_and_open(world.path) == []
    assert len(world.files(partition, ".log")) == 1
