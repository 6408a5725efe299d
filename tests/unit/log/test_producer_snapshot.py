"""A snapshot of producers, byte by byte as Kafka writes it, and which of several is believed."""

import os
import struct

import pytest

from mpbroker.log import producer_snapshot
from mpbroker.log.producer_snapshot import (
    ProducerEntry,
    newest_snapshot,
    read_snapshot,
    remove_snapshots,
    snapshot_offsets,
    snapshot_path,
    write_snapshot,
)
from mpbroker.record.checksum import crc32c

ONE = ProducerEntry(7, 3, 41, 99, 4, 1_700_000_000_000, 6, 90)
OTHER = ProducerEntry(8, 0, -1, -1, 0, 5)
pytestmark = pytest.mark.usefixtures("no_waiting_for_the_disk")


def kafkas(*entries, version=1, count=None):
    """ProducerStateManager: version int16, CRC-32C of what follows uint32, count int32, then entries."""
    body = struct.pack(">i", len(entries) if count is None else count)
    for one in entries:
        body += struct.pack(">qhiqiqiq", *one)
    return struct.pack(">hI", version, crc32c(body)) + body


def test_an_entry_without_transactions_says_so_with_minus_one():
    assert (OTHER.coordinator_epoch, OTHER.txn_first) == (-1, -1)


@pytest.mark.parametrize(("last", "delta", "first"), [(41, 4, 37), (4, 4, 0), (3, 4, 2**31 - 1), (0, 0, 0)])
def test_sequences_wrap(last, delta, first):
    assert ONE._replace(last_sequence=last, offset_delta=delta).first_sequence == first


@pytest.mark.parametrize("entries", [[], [ONE], [ONE, OTHER]])
def test_it_stands_there_as_kafka_writes_it(tmp_path, entries):
    write_snapshot(str(tmp_path), 100, entries)
    path = tmp_path / "00000000000000000100.snapshot"
    assert os.listdir(tmp_path) == [path.name] and path.read_bytes() == kafkas(*entries)
    assert read_snapshot(str(path)) == entries


@pytest.mark.parametrize(("more", "synced"), [({}, True), ({"durable": True}, True), ({"durable": False}, False)])
def test_one_that_counts_after_a_power_loss_is_synced(tmp_path, monkeypatch, more, synced):
    done = []
    monkeypatch.setattr(producer_snapshot, "replace_durably", lambda *words: done.append(True))
    monkeypatch.setattr(producer_snapshot, "replace_whole", lambda *words: done.append(False))
    write_snapshot(str(tmp_path), 100, [ONE], **more)
    assert done == [synced]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        kafkas(ONE)[:9],
        kafkas(ONE)[:-1],
        kafkas(ONE) + b"x",
        kafkas(ONE, version=2),
        kafkas(ONE, version=0),
        kafkas(ONE, count=2),
        kafkas(ONE, OTHER, count=1),
        kafkas(ONE)[:20] + b"\xff" + kafkas(ONE)[21:],
    ],
)
def test_a_damaged_one_is_passed_over_for_an_older_one(tmp_path, content):
    write_snapshot(str(tmp_path), 50, [OTHER])
    path = snapshot_path(str(tmp_path), 100)
    with open(path, "wb") as file:
        file.write(content)
    assert read_snapshot(path) is None
    assert newest_snapshot(str(tmp_path), 200) == (50, [OTHER])


def test_the_newest_below_an_offset(tmp_path):
    write_snapshot(str(tmp_path), 50, [OTHER])
    write_snapshot(str(tmp_path), 100, [ONE])
    older, newer = (50, [OTHER]), (100, [ONE])
    assert [newest_snapshot(str(tmp_path), end) for end in (49, 50, 99, 100)] == [(0, []), older, older, newer]


def test_only_names_of_snapshots_are_snapshots(tmp_path):
    stems = ["7", "x" * 20, "0" * 19, "0" * 21]
    names = [*(f"{stem}.snapshot" for stem in stems), "0" * 20 + ".log", "0" * 20 + ".snapshot.tmp"]
    for name in names:
        (tmp_path / name).touch()
    for offset in (300, 20, 1):
        write_snapshot(str(tmp_path), offset, [])
    assert snapshot_offsets(str(tmp_path)) == [1, 20, 300]
    remove_snapshots(str(tmp_path), {20, 21})
    assert snapshot_offsets(str(tmp_path)) == [20]
    assert sorted(os.listdir(tmp_path)) == sorted([*names, "0" * 18 + "20.snapshot"])
