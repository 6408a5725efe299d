"""Whatever a crash leaves of a log, recovery keeps exactly the whole batches at its front and says what it cut."""

import os
import random
import struct

import pytest

from mpbroker.log import log_recovery
from mpbroker.log.log_recovery import LogRecovery, RecoveredLog
from mpbroker.log.producer_snapshot import ProducerEntry, read_snapshot, snapshot_path, write_snapshot
from mpbroker.log.txn_index_file import AbortedTxn, read_aborted, write_aborted
from mpbroker.record.batch_builder import control_batch, encode_batch

INTERVAL_BYTES = 4096


pytestmark = pytest.mark.usefixtures("no_waiting_for_the_disk")


def stored_batch(base_offset: int, count: int, size: int, **settings) -> bytes:
    """A batch as a leader stores it: base offset and leader epoch 0 written into the header."""
    rng = random.Random(base_offset)
    batch = encode_batch(
        [(b"k%d" % n, rng.randbytes(size), 1_000_000 + base_offset + n) for n in range(count)], **settings
    )
    return struct.pack(">q", base_offset) + batch[8:12] + struct.pack(">i", 0) + batch[16:]


def write_log(directory, base: int, batches: list[bytes], indexes: bool = False) -> str:
    path = os.path.join(directory, f"{base:020d}.log")
    with open(path, "wb") as file:
        file.write(b"".join(batches))
    for suffix in (".index", ".timeindex") if indexes else ():
        open(path[:-4] + suffix, "wb").close()
    return path


def make_batches(start: int, number: int, count: int = 3, size: int = 100) -> list[bytes]:
    return [stored_batch(start + n * count, count, size) for n in range(number)]


def recover(directory, **settings):
    return LogRecovery(str(directory), index_interval_bytes=INTERVAL_BYTES, **{"clean": False, **settings}).run()


@pytest.mark.slow
def test_truncations_of_the_last_4_kib_keep_the_whole_batches(tmp_path):
    """Every seventh, and each that is near the beginning, the end or the header's end of a batch."""
    batches = make_batches(0, 40)
    whole = b"".join(batches)
    ends = [sum(len(b) for b in batches[:n]) for n in range(len(batches) + 1)]
    path = write_log(tmp_path, 0, batches)
    edges = {end + near for end in ends for near in (*range(-2, 3), 11, 12, 60, 61, 62)}
    lengths = {*range(len(whole) - 4096, len(whole) + 1, 7), *edges} & {*range(len(whole) - 4096, len(whole) + 1)}
    for length in sorted(lengths):
        with open(path, "wb") as file:
            file.write(whole[:length])
        found = recover(tmp_path)
        kept = max(n for n, end in enumerate(ends) if end <= length)
        assert (found.active.position, found.active.next_offset) == (ends[kept], kept * 3)
        assert os.path.getsize(path) == ends[kept]
        assert bool(found.cut) == (length != ends[kept])
        for aside in tmp_path.glob("*.cut"):
            aside.unlink()  # thousands of them would make every listing of the directory long


def test_bit_flips_never_keep_a_damaged_batch_nor_lose_one_before_it(tmp_path):
    batches = make_batches(0, 12)
    whole, rng = b"".join(batches), random.Random(3)
    ends = [sum(len(b) for b in batches[:n]) for n in range(len(batches) + 1)]
    path = write_log(tmp_path, 0, batches)
    for _ in range(600 if "LONG" in os.environ else 150):
        bit = rng.randrange(len(whole) * 8)
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << bit % 8
        hit = max(n for n, end in enumerate(ends) if end <= bit // 8)
        outside_checksum = bit // 8 - ends[hit] < 8 or 12 <= bit // 8 - ends[hit] < 16  # base offset, leader epoch
        with open(path, "wb") as file:
            file.write(damaged)
        found = recover(tmp_path)
        assert found.active.position >= ends[hit]
        if not outside_checksum:
            assert found.active.position == ends[hit]
            assert len(found.cut) == 1


def test_indexes_are_the_same_whether_written_once_or_twice(tmp_path):
    write_log(tmp_path, 0, make_batches(0, 300))
    first = recover(tmp_path)
    index = (tmp_path / f"{0:020d}.index").read_bytes()
    times = (tmp_path / f"{0:020d}.timeindex").read_bytes()
    assert recover(tmp_path) == first
    assert (tmp_path / f"{0:020d}.index").read_bytes() == index
    assert len(index) == first.active.index_bytes > 100
    for number, (relative, position) in enumerate(struct.iter_unpack(">ii", index)):
        last_offset = struct.unpack_from(">q", (tmp_path / f"{0:020d}.log").read_bytes(), position)[0] + 2
        assert relative == last_offset, number
    assert [t for t, _ in struct.iter_unpack(">qi", times)] == sorted(t for t, _ in struct.iter_unpack(">qi", times))


def test_behind_damage_above_the_recovery_point_later_segments_are_set_aside(tmp_path):
    write_log(tmp_path, 0, make_batches(0, 5))
    write_log(tmp_path, 15, make_batches(15, 5))
    write_log(tmp_path, 30, make_batches(30, 5))
    path = tmp_path / f"{15:020d}.log"
    path.write_bytes(path.read_bytes()[:-7])
    found = recover(tmp_path)
    assert (found.active.base, found.active.next_offset, found.segment_count) == (15, 27, 2)
    assert not (tmp_path / f"{30:020d}.log").exists()
    assert (tmp_path / f"{30:020d}.log.cut").read_bytes() == b"".join(make_batches(30, 5))
    assert len(found.cut) == 2


@pytest.mark.parametrize(
    ("spoil", "offset", "why"),
    [
        (lambda content: content[:-7], 12, "its last batch is cut off"),
        (lambda content: content[:-7] + b"another", 12, "what follows is no sound batch"),
        (lambda content: content + bytes(100), 15, "what follows is no sound batch"),
    ],
)
def test_what_was_cut_and_why_is_told(tmp_path, spoil, offset, why):
    path = write_log(tmp_path, 0, make_batches(0, 5))
    whole = (tmp_path / path).read_bytes()
    spoiled, kept = spoil(whole), len(whole) * offset // 15
    (tmp_path / path).write_bytes(spoiled)
    [told] = recover(tmp_path).cut
    assert told == (
        f"{tmp_path.name}/{os.path.basename(path)}: cut from {len(spoiled)} to {kept} bytes (offset {offset}): {why}; "
        f"set aside as {os.path.basename(path)}.{kept}.cut"
    )


@pytest.mark.parametrize("gaps_allowed", [False, True])
def test_below_the_recovery_point_nothing_is_read_but_where_a_segment_ends(tmp_path, gaps_allowed):
    write_log(tmp_path, 0, [b"not a batch at all"], indexes=True)
    write_log(tmp_path, 15, make_batches(15, 2))
    found = recover(tmp_path, recovery_point=15, gaps_allowed=gaps_allowed)
    assert (found.active.base, found.active.next_offset, len(found.cut)) == (15, 21, not gaps_allowed)
    assert gaps_allowed or f"{tmp_path.name}: offsets 0 to 14 are missing" in found.cut[0]


@pytest.mark.parametrize("number", [1, 3, 200])
def test_clean_start_reads_the_tail_and_finds_the_same_state(tmp_path, number):
    write_log(tmp_path, 0, make_batches(0, number))
    dirty = recover(tmp_path)
    assert recover(tmp_path, clean=True) == dirty


@pytest.mark.parametrize("batches", [0, 1, 10])
def test_a_short_log_is_read_after_a_clean_stop_without_a_write_or_a_sync(tmp_path, batches, monkeypatch):
    """A broker may have thousands of them: three syncs each took its start minutes."""
    write_log(tmp_path, 0, make_batches(0, batches))
    dirty = recover(tmp_path)
    before = {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    monkeypatch.setattr(os, "fsync", lambda descriptor: pytest.fail("synced"))
    found = recover(tmp_path, clean=True)
    assert found == dirty and found.active.next_offset == 3 * batches
    assert {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize("spoil", ["log", "timeindex", "no entry"])
def test_a_short_log_whose_files_do_not_fit_is_written_anew(tmp_path, spoil):
    path = write_log(tmp_path, 0, make_batches(0, 30 if spoil == "no entry" else 3), indexes=True)
    dirty = recover(tmp_path)
    if spoil == "log":
        with open(path, "ab") as file:
            file.write(b"rest")
    elif spoil == "timeindex":
        with open(f"{path[:-4]}.timeindex", "wb") as file:
            file.write(bytes(12))
    else:
        for suffix in (".index", ".timeindex"):
            assert os.path.getsize(path[:-4] + suffix) > 0
            open(path[:-4] + suffix, "wb").close()
    found = recover(tmp_path, clean=True)
    assert (found.active.next_offset, found.active.index_bytes) == (dirty.active.next_offset, dirty.active.index_bytes)
    assert os.path.getsize(f"{path[:-4]}.timeindex") == found.active.time_index_bytes
    assert bool(found.cut) == (spoil == "log")


def test_empty_and_missing_logs_start_at_the_checkpointed_offset(tmp_path):
    found = recover(tmp_path, log_start=77)
    assert (found.active.base, found.active.next_offset, found.log_start) == (77, 77, 77)
    assert recover(tmp_path, clean=True).active.next_offset == 77


def test_producers_come_from_the_newest_sound_snapshot_and_the_batches_behind_it(tmp_path):
    batches = [stored_batch(n * 3, 3, 50, producer_id=0, producer_epoch=1, base_sequence=n * 3) for n in range(4)]
    write_log(tmp_path, 0, batches)
    write_snapshot(str(tmp_path), 6, [ProducerEntry(9, 0, 4, 5, 0, 123), ProducerEntry(0, 1, 5, 5, 2, 123)])
    with open(snapshot_path(str(tmp_path), 9), "wb") as file:
        file.write(b"\x00\x01damaged")
    write_snapshot(str(tmp_path), 500, [])
    found = recover(tmp_path).producers
    assert (found[0].last_sequence, found[0].last_offset, found[0].first_sequence) == (11, 11, 9)
    assert found[9] == ProducerEntry(9, 0, 4, 5, 0, 123)
    assert not os.path.exists(snapshot_path(str(tmp_path), 500))


@pytest.mark.parametrize("at", [0, 3, 6, 9, 12])
def test_the_batch_that_begins_at_the_snapshot_is_replayed(tmp_path, at):
    batches = [stored_batch(n * 3, 3, 50, producer_id=0, producer_epoch=1, base_sequence=n * 3) for n in range(4)]
    write_log(tmp_path, 0, batches)
    write_snapshot(str(tmp_path), at, [ProducerEntry(0, 1, at - 1, at - 1, 2, 123)] if at else [])
    write_log(tmp_path, 12, [])
    producer = recover(tmp_path).producers[0]
    assert (producer.first_sequence, producer.last_sequence, producer.last_offset) == (9, 11, 11)
    assert (producer.timestamp_ms == 123) == (at == 12), "only a snapshot at the end leaves nothing to replay"


def test_segments_between_the_snapshot_and_the_last_are_replayed_and_those_before_it_are_not(tmp_path):
    for number in range(4):
        batch = stored_batch(number * 3, 3, 50, producer_id=number, producer_epoch=1, base_sequence=0)
        write_log(tmp_path, number * 3, [batch])
    write_snapshot(str(tmp_path), 3, [ProducerEntry(50, 0, 4, 2, 0, 123)])
    assert sorted(recover(tmp_path).producers) == [1, 2, 3, 50]


def test_snapshot_survives_its_own_format(tmp_path):
    entries = [ProducerEntry(1, 2, 2**31 - 1, 99, 3, 5), ProducerEntry(2**40, 0, 0, 0, 0, -1)]
    write_snapshot(str(tmp_path), 100, entries)
    assert read_snapshot(snapshot_path(str(tmp_path), 100)) == entries


def aborted_segment(directory, base: int) -> AbortedTxn:
    """A segment of two offsets: a record of a transaction, and the marker that aborts it; its .txnindex beside it."""
    marker = control_batch(False, 7, 0, 0, 1_000_000)
    record = stored_batch(base, 1, 50, producer_id=7, producer_epoch=0, base_sequence=base, transactional=True)
    write_log(directory, base, [record, struct.pack(">q", base + 1) + marker[8:12] + bytes(4) + marker[16:]])
    entry = AbortedTxn(7, base, base + 1, base + 2)
    write_aborted(os.path.join(directory, f"{base:020d}.txnindex"), [entry])
    return entry


@pytest.mark.parametrize("spoilt", [None, 0, 2, 4, 6])
def test_each_txnindex_of_a_clean_stop_is_believed_if_its_markers_lie_in_its_own_segment(tmp_path, spoilt):
    entries = {base: aborted_segment(tmp_path, base) for base in (0, 2, 4, 6)}
    recover(tmp_path)
    if spoilt is not None:
        path = tmp_path / f"{spoilt:020d}.txnindex"
        write_aborted(str(path), [])
        write_aborted(str(path), [entries[spoilt]._replace(last_offset=spoilt + 2)])
    found = recover(tmp_path, clean=True)
    assert found.aborted_end == 8 and found.txn_index_bytes == 34
    told = [f"{tmp_path.name}/{spoilt:020d}.txnindex"] if spoilt in (0, 2, 4) else []  # the active one is read anyway
    assert [one for one in found.unsound if one.endswith(".txnindex")] == told
    for base, entry in entries.items():
        assert read_aborted(str(tmp_path / f"{base:020d}.txnindex")) == [entry]


def test_a_log_of_which_nothing_more_is_said():
    found = RecoveredLog(None, 3, 1, 0)
    assert (found.txn_index_bytes, found.aborted_end, found.producers) == (0, 0, {})
    assert found.cut == found.unsound == found.ended == [] and found.cut is not RecoveredLog(None, 3, 1, 0).cut


@pytest.mark.parametrize("more", [{}, {"gaps_allowed": False}, {"gaps_allowed": True}])
def test_a_gap_is_told_of_logs_that_are_not_compacted(tmp_path, more):
    for base in (0, 30):
        write_log(tmp_path, base, make_batches(base, 3))
    recovered = recover(tmp_path, **more)
    assert recovered.active.next_offset == 39 and bool(recovered.cut) is not more.get("gaps_allowed", False)


@pytest.mark.parametrize("clean", [False, True])
def test_a_log_in_which_nothing_was_aborted_has_no_bytes_of_that(tmp_path, clean):
    write_log(tmp_path, 0, make_batches(0, 3), indexes=True)
    recovered = recover(tmp_path, clean=clean)
    assert (recovered.txn_index_bytes, recovered.aborted_end) == (0, 0)


@pytest.mark.parametrize(
    ("name", "ordinary"),
    [
        ("partition.metadata", True),
        ("leader-epoch-checkpoint", True),
        (f"{5:020d}.log", True),
        (f"{7:020d}.snapshot", True),
        (f"{0:020d}.timeindex", True),
        (f"{0:020d}.txnindex", True),
        (f"{5:020d}.index", False),  # of a segment that is not there
        (f"{5:021d}.log", False),
        ("x" * 20 + ".log", False),
        (f"{0:020d}-{5:020d}.swap", False),
        (f"{0:020d}.log.compacted", False),
    ],
)
def test_what_a_directory_usually_holds(name, ordinary):
    """Anything else is looked at: a swap to be finished, something to be put away."""
    assert log_recovery._all_ordinary([f"{0:020d}.log", name]) is ordinary
