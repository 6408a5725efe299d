"""Markers of transactions in a compacted log: each goes some time after the last record of its transaction."""

import os

import pytest

from mpbroker._native import LogOptions
from tests.unit.log.log_world import LogWorld
from tests.unit.log.test_log_cleaner import SECOND, SMALL, Cleaning, batches_of, put, read

CONTROL = 0x20


@pytest.fixture(name="world")
def small_world(tmp_path):
    world = LogWorld(tmp_path, "log.cleaner.backoff.ms=1000", "log.cleaner.delete.retention.ms=5000")
    yield world
    world.close()


def transaction(world, partition, producer, sequence, key, committed=True, codec=0):
    """One record and its marker; the marker's offset."""
    assert world.log.verify(partition.ordinal, producer, 0) == 0
    options, now_ms = LogOptions(segment_bytes=2000), world.clock.wall_ms()
    base = put(
        world,
        partition,
        [(key, b"%d" % sequence * 30)],
        producer_id=producer,
        producer_epoch=0,
        base_sequence=sequence,
        transactional=True,
        codec=codec,
    )
    assert world.log.append_marker(partition.ordinal, producer, 0, 0, committed, options, now_ms).error == 0
    return base + 1


def markers(world, partition):
    """Offsets of the control batches on disk."""
    directory = os.path.join(world.path, partition.dir)
    found = []
    for name in sorted(os.listdir(directory)):
        if name.endswith(".log"):
            with open(os.path.join(directory, name), "rb") as file:
                found += [int.from_bytes(batch[:8], "big") for batch in batches_of(file.read()) if batch[22] & CONTROL]
    return found


def clean(world, partition, cleaning, seconds):
    """A compaction so much later, of all there is."""
    world.clock.advance(seconds * SECOND)
    world.roll(partition)
    put(world, partition, [(b"x", b"")])
    cleaning.look()


@pytest.mark.parametrize("codec", [0, 3])
def test_they_go_when_nothing_of_their_transaction_is_left(world, codec):
    partition = world.create(**SMALL)
    cleaning = Cleaning(world)
    aborted = transaction(world, partition, 4, 0, b"a", committed=False, codec=codec)
    ended = [transaction(world, partition, 5, number, b"same", codec=codec) for number in range(30)]
    lasting = transaction(world, partition, 6, 0, b"kept", codec=codec)
    clean(world, partition, cleaning, 0)
    first = markers(world, partition)
    assert first[-1] == lasting and set(first) >= {aborted, lasting, ended[-1]}, (
        "those that came when records were there"
    )
    for _ in range(2):
        clean(world, partition, cleaning, 0)
    assert set(markers(world, partition)) == {aborted, *ended, lasting}, "readers in the middle have their time"
    clean(world, partition, cleaning, 6)
    assert markers(world, partition) == [aborted, ended[-1], lasting], "the newest of each producer stays"
    kept = dict(read(world, partition).values())
    assert (kept[b"same"], kept[b"kept"]) == (b"29" * 30, b"0" * 30) and b"a" not in kept
    assert world.reboot() is not None
    assert world.log.state(partition.ordinal).open_transactions == 0
    transaction(world, partition, 5, 30, b"same")


def test_a_transaction_whose_record_is_still_newest_keeps_its_marker(world):
    partition = world.create(**SMALL)
    cleaning = Cleaning(world)
    marker = transaction(world, partition, 5, 0, b"kept")
    for number in range(1, 20):
        transaction(world, partition, 5, number, b"other")
    for _ in range(4):
        clean(world, partition, cleaning, 6)
    assert marker in markers(world, partition)
    transaction(world, partition, 5, 20, b"kept")
    for _ in range(4):
        clean(world, partition, cleaning, 6)
    assert marker not in markers(world, partition)
