"""Parts of a compaction, one by one: what is overdue, whole batches of a piece, its pace, the order of a swap."""

import os
import struct
from contextlib import suppress
from types import SimpleNamespace

import pytest

from mpbroker._native import COMPACT_END, COMPACT_FULL
from mpbroker.log import compaction
from mpbroker.log.compaction import (
    HEADER_BYTES,
    MAX_OFFSETS_A_SEGMENT,
    Compaction,
    LogChanged,
    NotCompacted,
    Segment,
)
from mpbroker.log.log_cleaner import Pace
from mpbroker.record.batch_builder import encode_batch
from mpbroker.record.checksum import crc32c
from tests.unit.log.log_world import LogWorld
from tests.unit.log.test_log_cleaner import KEYS, SMALL, Cleaning, fill


@pytest.fixture(name="world")
def small_world(tmp_path):
    world = LogWorld(tmp_path, "log.cleaner.backoff.ms=1000")
    yield world
    world.close()


@pytest.mark.parametrize(("age_ms", "overdue"), [(99, False), (100, False), (101, True)])
def test_the_oldest_dirty_segment_says_whether_compaction_is_overdue(world, monkeypatch, age_ms, overdue):
    partition = world.create(**SMALL, max_compaction_lag_ms="100")
    cleaner = Cleaning(world).cleaner
    clean, dirty, last = Segment(0, 5, 10), Segment(5, 9, 10), Segment(9, 12, 10)
    monkeypatch.setattr(cleaner, "_age_ms", lambda _, segment: {5: age_ms, 0: 999, 9: 0}[segment.base])
    assert cleaner._is_overdue(partition, [clean, dirty, last], 5) is overdue
    assert not cleaner._is_overdue(partition, [clean], 5), "nothing is dirty"


def test_how_much_of_a_piece_is_whole_batches():
    batch = encode_batch([(b"k", b"v", 5)])
    size = len(batch)
    assert size > 61
    for more, need in ((b"", 0), (batch[:1], 61), (batch[:60], 61), (batch[:61], size), (batch[:-1], size)):
        assert compaction._whole_batches(batch * 2 + more) == (2 * size, need)
    broken = batch[:8] + (48).to_bytes(4, "big") + batch[12:]
    assert compaction._whole_batches(batch + broken) == (size, 60)


def test_what_is_read_is_paced(world, monkeypatch):
    partition = world.create(**SMALL)
    fill(world, partition, KEYS, 20)
    paced, read_bytes = [], []
    pieces = Compaction._pieces

    def note(self, segment):
        for piece, at in pieces(self, segment):
            read_bytes.append(len(piece))
            yield piece, at

    monkeypatch.setattr(Compaction, "_pieces", note)
    monkeypatch.setattr(Pace, "__call__", lambda self, count: paced.append(count))
    Cleaning(world).look()
    written = sum(paced) - sum(read_bytes)
    assert read_bytes and 0 < written <= sum(read_bytes)


def open_files(directory):
    found = []
    for name in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):  # of the listing itself
            found.append(os.readlink(f"/proc/self/fd/{name}"))
    return [path for path in found if path.startswith(f"{directory}/t-0/")]


def test_what_was_replaced_is_not_open_while_the_rest_is_paced(world, monkeypatch):
    """At a slow pace that takes minutes. What retention might remove is not open then, either."""
    partition, seen = world.create(**SMALL), []
    fill(world, partition, KEYS, 30)
    world.log.close_cached(partition.ordinal)
    before = world.state(partition)
    monkeypatch.setattr(Pace, "__call__", lambda self, count: seen.append(open_files(world.path)))
    Cleaning(world).look()
    assert world.state(partition).log_bytes < before.log_bytes / 2
    assert not [path for each in seen for path in each if path.endswith("(deleted)")]
    assert [path for path in seen[0] if path.endswith(".log")] == [], "the first piece that was read"
    assert len(seen) > before.segment_count


def test_what_retention_removes_meanwhile_ends_it(world, monkeypatch):
    partition, taken = world.create(**SMALL), []
    fill(world, partition, KEYS, 30)

    def remove(self, count):
        if not taken:
            taken.extend(world.files(partition, ".log")[:1])
            (world.path / "t-0" / taken[0]).rename(world.path / "t-0" / f"{taken[0]}.deleted")

    monkeypatch.setattr(Pace, "__call__", remove)
    cleaning = Cleaning(world)
    cleaning.look()
    assert taken and cleaning.counted == {} and not world.events.lines, "it is begun anew"


class Swapping:
    """A compaction that notes what its swap does, in order; `error`: what the swap comes to."""

    def __init__(self, monkeypatch, error):
        self.done, self.error = [], error
        note = self.done.append
        monkeypatch.setattr(compaction.disk, "write_file", lambda path, data, sync_it: note(f"mark {sync_it}"))
        monkeypatch.setattr(compaction.disk, "sync_directory", lambda path: note("sync"))
        monkeypatch.setattr(compaction.disk, "unlink", lambda path: note("unmark"))
        made = Compaction.__new__(Compaction)
        made._directory, made._ordinal, made._topic_id, made._log = "/d", 3, b"T", self
        made._crash_point = note
        self.compaction = made

    def swap(self, *words):
        self.done.append(words)
        return self.error

    def close_stale(self):
        self.done.append("closed")

    def run(self):
        self.compaction._swap(0, 20, 7)


BEGINNING = ["cleaner.written", "mark True", "sync", "cleaner.marked", (3, b"T", 0, 20, 7), "closed"]


def test_the_mark_is_on_disk_before_a_swap_and_goes_when_the_swap_is(monkeypatch):
    swapping = Swapping(monkeypatch, 0)
    swapping.run()
    assert swapping.done == [*BEGINNING, "cleaner.swapped", "sync", "unmark"]


@pytest.mark.parametrize(
    ("error", "raised", "then"), [(None, LogChanged, ["unmark"]), (56, NotCompacted, [])], ids=["changed", "failed"]
)
def test_the_mark_of_a_swap_that_failed_stays_for_whoever_is_next(monkeypatch, error, raised, then):
    swapping = Swapping(monkeypatch, error)
    with pytest.raises(raised):
        swapping.run()
    assert swapping.done == [*BEGINNING, *then]


def groups(segments, clean_to, segment_bytes=100):
    made = Compaction.__new__(Compaction)
    made._limits = SimpleNamespace(segment_bytes=segment_bytes)
    return [[segment.base for segment in group] for group in made._groups(segments, clean_to)]


def test_neighbours_that_fit_together_are_written_together():
    segments = [Segment(0, 5, 40), Segment(5, 9, 60), Segment(9, 12, 1), Segment(12, 20, 99), Segment(20, 30, 5)]
    assert groups(segments, 20) == [[0, 5], [9, 12]]
    assert groups(segments, 21) == [[0, 5], [9, 12], [20]]
    assert groups(segments, 21, segment_bytes=99) == [[0], [5, 9], [12], [20]]
    assert groups([], 5) == [] and groups(segments, 0) == []


def test_a_group_spans_no_more_offsets_and_segments_than_one_segment_can():
    most = compaction.MAX_OFFSETS_A_SEGMENT
    assert groups([Segment(0, 5, 1), Segment(5, most, 1)], most) == [[0, 5]]
    assert groups([Segment(0, 5, 1), Segment(5, most + 1, 1)], most) == [[0], [5]]
    many = [Segment(number, number + 1, 0) for number in range(compaction.MAX_SEGMENTS_A_GROUP + 1)]
    assert [len(group) for group in groups(many, 10**9)] == [compaction.MAX_SEGMENTS_A_GROUP, 1]


@pytest.mark.parametrize(
    ("first_dirty", "until", "stops", "learned", "end"),
    [
        (0, 30, {}, [0, 10, 20], 30),
        (10, 30, {}, [10, 20], 30),
        (11, 25, {}, [10, 20], 25),
        (0, 20, {}, [0, 10], 20),
        (0, 30, {10: 13}, [0, 10], 13),
        (30, 30, {}, [], 30),
    ],
)
def test_keys_are_taken_in_from_the_first_dirty_segment_on(first_dirty, until, stops, learned, end):
    made, done = Compaction.__new__(Compaction), []
    made._limits = SimpleNamespace(first_dirty=first_dirty, until=until)
    made._learn_segment = lambda segment: done.append(segment.base) or stops.get(segment.base)
    assert made._learn([Segment(base, base + 10, 5) for base in (0, 10, 20)]) == end and done == learned
    assert made._learn([]) == first_dirty


def of_parts(done, first_dirty=10, clean_to=40, segments=(0, 20), changed=True):
    """A pass that notes what it does."""
    made = Compaction.__new__(Compaction)
    state = SimpleNamespace(log_start=3, active_base=60, leo=77, truncations=4)
    made._log = SimpleNamespace(
        state=lambda ordinal: state,
        producers=lambda ordinal: (0, [(9, 0, 0, 0, 50, 2), (7, 0, 0, 0, 10, 1), (9, 0, 0, 0, 60, 5)]),
        segments=lambda ordinal: [0, 20, 40, 60, 80],
    )
    made._ordinal, made._directory = 5, "/d"
    made._swapped = lambda bases: done.append(("swapped", bases))
    made._limits = SimpleNamespace(first_dirty=first_dirty)
    made._map = SimpleNamespace(set_aborted=lambda rows: done.append(("aborted", rows)), count=12)
    made._read, made._before, made._after = 700, 0, 0
    made._segments = lambda *words: done.append(("segments", *words)) or [Segment(at, at + 20, 100) for at in segments]
    made._aborted = lambda found, *words: done.append(("looked", len(found), *words)) or b"rows"
    made._learn = lambda found: done.append("learnt") or clean_to
    made._groups = lambda found, until: [[one] for one in found if one.base < until]
    made._write = lambda group, path, producers: done.append(("written", group[0].base, path)) or (60, changed)
    made._index = lambda base, paths: done.append(("index", base, [path[-20:] for path in paths]))
    made._swap = lambda *words: done.append(("swap", *words))
    return made


def test_a_pass_looks_learns_and_replaces_group_by_group(monkeypatch):
    done = []
    monkeypatch.setattr(compaction, "abandon_swaps", lambda directory: done.append(("abandon", directory)))
    monkeypatch.setattr(compaction, "remove_cleaned", lambda directory: done.append(("remove", directory)))
    monkeypatch.setattr(compaction.disk, "status", lambda path: SimpleNamespace(st_mtime_ns=int(path[-8:-4]) + 7))
    monkeypatch.setattr(compaction.disk, "set_modified", lambda path, at_ns: done.append(("modified", at_ns)))
    found = of_parts(done).run()
    assert done[:4] == [("abandon", "/d"), ("segments", 3, 60), ("looked", 2, 60, 77), ("aborted", b"rows")]
    assert done[4] == "learnt" and [one[0] for one in done[5:9]] == ["written", "index", "modified", "swap"]
    swaps = [one for one in done if one[0] == "swap"]
    assert swaps == [("swap", 0, 20, 4), ("swap", 20, 40, 6)], "each swap counts for two truncations"
    assert [one[1] for one in done if one[0] == "modified"] == [7, 27]
    assert [done[done.index(one) + 1] for one in swaps] == [("swapped", [])] * 2, "each is told at once"
    assert found == compaction.Compacted(40, 12, 700, 200, 120)
    del done[:]
    unchanged = of_parts(done, changed=False).run()
    assert [one for one in done if one[0] == "swap"] == [] and done.count(("remove", "/d")) == 2
    assert unchanged == compaction.Compacted(40, 12, 700, 0, 0)


@pytest.mark.parametrize(
    ("first_dirty", "clean_to", "segments", "fits"),
    [(10, 11, (0,), True), (10, 10, (0,), False), (10, 9, (0,), False), (10, 10, (), True)],
)
def test_a_pass_that_takes_no_key_in_is_said(monkeypatch, first_dirty, clean_to, segments, fits):
    monkeypatch.setattr(compaction, "abandon_swaps", lambda directory: None)
    made = of_parts([], first_dirty, clean_to, segments)
    made._groups = lambda found, until: []
    if fits:
        assert made.run() == compaction.Compacted(clean_to, 12, 700, 0, 0)
        return
    with pytest.raises(NotCompacted, match="not one batch"):
        made.run()


def test_segments_that_were_written_together_have_the_newest_ones_time(monkeypatch):
    done = []
    monkeypatch.setattr(
        compaction.disk, "status", lambda path: SimpleNamespace(st_mtime_ns={"0": 90, "2": 30}[path[-6]])
    )
    monkeypatch.setattr(compaction.disk, "set_modified", lambda path, at_ns: done.append((path, at_ns)))
    told = []
    made = of_parts(told, changed=False)
    assert made._replace([Segment(0, 20, 100), Segment(20, 40, 50)], b"", 8) == 10
    assert done == [("/d/00000000000000000000.log" + compaction.CLEANED, 90)]
    assert (made._before, made._after, told[-1]) == (150, 60, ("swapped", [20]))


def test_the_newest_batch_of_each_producer_is_where_its_last_record_is():
    assert of_parts([])._producers() == struct.pack("=qqqq", 7, 11, 9, 65)


@pytest.mark.parametrize(("log_start", "bases"), [(0, [0, 20, 40]), (19, [0, 20, 40]), (20, [20, 40]), (59, [40])])
def test_segments_below_the_log_start_and_the_active_one_are_left_alone(monkeypatch, log_start, bases):
    monkeypatch.setattr(compaction.disk, "size", lambda path: int(path[-8:-4]))
    made = of_parts([])
    found = Compaction._segments(made, log_start, 60)
    assert found == [Segment(base, base + 20, base) for base in bases]


class Map:
    """Takes as much of a piece as fits into `out`, whole batches of ten bytes; `most`: calls that are not too many."""

    def __init__(self, most):
        self.sizes, self.most = [], most

    def apply(self, view, out, *_):
        self.sizes.append(len(out))
        assert len(self.sizes) <= self.most
        taken = min(len(out), len(view)) // 10 * 10
        out[:taken] = view[:taken]
        return (COMPACT_END if taken == len(view) else COMPACT_FULL), taken, taken


@pytest.mark.parametrize(
    ("out_bytes", "sizes"),
    [(3, [3, 6, 12, 12, 12]), (9, [9, 18, 18, 18]), (10, [10, 10, 10]), (29, [29, 29]), (30, [30])],
)
def test_what_holds_not_one_batch_is_doubled_until_it_does(out_bytes, sizes):
    made = Compaction.__new__(Compaction)
    made._limits = SimpleNamespace(now_ms=5, delete_retention_ms=6)
    made._map, made._out = Map(len(sizes)), bytearray(out_bytes)
    piece = bytes(range(30))
    made._pieces = lambda segment: [(memoryview(piece), 0)]
    found = list(made._left_of(Segment(0, 3, 30), b""))
    assert b"".join(whole for whole, _ in found) == b"".join(left for _, left in found) == piece
    assert made._map.sizes == sizes


def test_offsets_of_an_index_are_four_bytes_from_the_segments_base():
    assert MAX_OFFSETS_A_SEGMENT == (1 << 31) - 1


@pytest.mark.parametrize("codec", [1, 2, 3, 4])
@pytest.mark.parametrize("transactional", [False, True])
def test_what_is_left_of_a_compressed_batch_is_compressed_again_and_sealed(codec, transactional):
    settings = {"base_offset": 7, "producer_id": 5, "producer_epoch": 2, "transactional": transactional}
    records = [(b"k", b"v" * 300, 5)] * 3
    batch, plain = (encode_batch(records, codec=each, **settings) for each in (codec, 0))
    made, left = Compaction.__new__(Compaction), [None]
    made._limits, made._records = SimpleNamespace(now_ms=0, delete_retention_ms=0), lambda *_: plain[HEADER_BYTES:]
    made._map = SimpleNamespace(apply_batch=lambda *_: (-99, left[0]))
    left[0] = batch[:HEADER_BYTES] + plain[HEADER_BYTES:]
    assert made._left_of_compressed(memoryview(batch), None, b"") == batch, "all of it"
    left[0] = batch[:57] + bytes(4)  # no record any more
    empty = made._left_of_compressed(memoryview(batch), None, b"")
    assert len(empty) == HEADER_BYTES and int.from_bytes(empty[8:12], "big") == HEADER_BYTES - 12
    assert int.from_bytes(empty[21:23], "big") == 0x10 * transactional, "its codec is none, the rest is as it was"
    assert int.from_bytes(empty[17:21], "big") == crc32c(empty[21:])
    assert empty[:8] == batch[:8] and empty[23:57] == batch[23:57]
