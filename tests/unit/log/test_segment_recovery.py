"""One segment's files at a start: when its indexes are believed, what is read of it, what is cut and what is kept."""

import os
import struct

import pytest

from mpbroker.log import disk, segment_recovery
from mpbroker.log.segment_recovery import SegmentRecovery, SegmentState
from mpbroker.record.batch_builder import encode_batch

INTERVAL = 200
BASE = 7
pytestmark = pytest.mark.usefixtures("no_waiting_for_the_disk")


class Segment:
    """A segment of batches of two records, 100 bytes each; `said` and `unsound`: what the recovery told."""

    def __init__(self, path, batches=10, interval=INTERVAL, stamp=50):
        self.path, self.said, self.unsound = path / "t-0", [], []
        self.path.mkdir()
        self.ends, content = [0], b""
        for number in range(batches):
            records = [(b"k", bytes(100), -1 if stamp < 0 else stamp + number)] * 2
            content += encode_batch(records, base_offset=BASE + 2 * number)
            self.ends.append(len(content))
        self.content = content
        self.write(".log", content)
        self.recovery = SegmentRecovery(str(self.path), interval, self.said.append, self.unsound.append)

    def file(self, suffix):
        return self.path / f"{BASE:020d}{suffix}"

    def write(self, suffix, content):
        self.file(suffix).write_bytes(content)

    def read(self, suffix):
        return self.file(suffix).read_bytes()

    def damage(self, at):
        content = bytearray(self.read(".log"))
        content[at] ^= 0xFF
        self.write(".log", bytes(content))

    def names(self):
        return sorted(os.listdir(self.path))


@pytest.fixture
def segment(tmp_path):
    return Segment(tmp_path)


@pytest.fixture
def scans(monkeypatch):
    """From where on each scan read, None: from the front; and whether with checksums."""
    real, found = segment_recovery.scan_segment, []

    def scan(log, index, times, base, interval, check_crc, visit, *start):
        found.append((start[0] if start else None, check_crc))
        return real(log, index, times, base, interval, check_crc, visit, *start)

    monkeypatch.setattr(segment_recovery, "scan_segment", scan)
    return found


def test_names_of_files_and_segments(segment):
    assert segment.recovery.path(BASE, ".index") == str(segment.file(".index"))
    assert segment.recovery.name(BASE) == "t-0/00000000000000000007.log"
    assert segment.recovery.first_offset(BASE) == BASE


def test_indexes_that_are_made_anew_are_those_that_appends_made(world):
    partition = world.create(index_interval_bytes=str(INTERVAL))
    for number in range(12):
        world.clock.advance(7)
        world.fill(partition, 3 * number, size=50 + 40 * (number % 3))
    state, path = world.state(partition), world.path / partition.dir
    names = [f"{0:020d}{suffix}" for suffix in (".index", ".timeindex")]
    sizes = (state.index_bytes, state.time_index_bytes)
    before = [(path / name).read_bytes()[:size] for name, size in zip(names, sizes, strict=True)]
    recovery = SegmentRecovery(str(path), INTERVAL, pytest.fail, pytest.fail)
    for name, content in zip(names, before, strict=True):
        (path / name).write_bytes(content)
    tail = recovery.read_tail(0)
    rebuilt, cut = recovery.rebuild(0)
    assert not cut and [(path / name).read_bytes() for name in names] == before and all(before)
    assert (
        rebuilt
        == tail
        == SegmentState(
            0,
            state.leo,
            state.position,
            *sizes,
            state.max_timestamp,
            state.max_timestamp_offset,
            state.first_timestamp,
            state.indexed_timestamp,
            state.bytes_since_index,
        )
    )
    assert recovery.rebuilt == {0: 0}


@pytest.mark.parametrize(
    ("index", "times", "sound"),
    [
        (b"", b"", True),
        (None, b"", False),
        (b"", None, False),
        (struct.pack(">ii", 0, 0), struct.pack(">qi", 5, 0), True),
        (struct.pack(">ii", 0, 0)[:7], b"", False),
        (struct.pack(">ii", 0, 0), struct.pack(">qi", 5, 0)[:11], False),
        (struct.pack(">ii", 3, 99), b"", True),
        (struct.pack(">ii", 3, 100), b"", False),
        (struct.pack(">ii", 3, 101), b"", False),
        (struct.pack(">ii", -1, 5), b"", False),
        (struct.pack(">ii", 3, -1), b"", False),
        (struct.pack(">iiii", 3, 500, 4, 50), b"", True),  # the last one counts
    ],
)
def test_indexes_that_can_be_those_of_the_log(segment, index, times, sound):
    segment.write(".log", bytes(100))
    for suffix, content in ((".index", index), (".timeindex", times)):
        if content is not None:
            segment.write(suffix, content)
    assert segment.recovery.indexes_sound(BASE) is sound
    segment.write(".log", b"")
    if (index, times) == (b"", b""):
        assert segment.recovery.indexes_sound(BASE) is True, "an empty segment has empty indexes"
    os.unlink(segment.file(".log"))
    assert segment.recovery.indexes_sound(BASE) is False


def test_where_a_segment_ends_is_read_from_its_last_index_entry_on(segment, scans):
    segment.recovery.rebuild(BASE)
    [*_, last] = struct.iter_unpack(">ii", segment.read(".index"))
    scans.clear()
    assert segment.recovery.next_offset(BASE) == BASE + 20 and scans == [(last[1], False)]


@pytest.mark.parametrize("index", [None, b"", b"1234567", struct.pack(">ii", 2, 5)])
def test_where_the_indexes_help_nothing_it_is_read_from_the_front(segment, scans, index):
    segment.write(".timeindex", b"")
    if index is not None:
        segment.write(".index", index)
    assert segment.recovery.next_offset(BASE) == BASE + 20 and scans[-1] == (None, False)
    assert len(scans) == (2 if index and len(index) == 8 else 1)


@pytest.mark.parametrize("batches", [0, 1, 2, 3, 10])
def test_after_a_clean_stop_the_end_says_what_the_whole_would(tmp_path, scans, batches):
    segment = Segment(tmp_path, batches)
    state, cut = segment.recovery.rebuild(BASE)
    assert not cut and state.next_offset == BASE + 2 * batches and state.position == len(segment.content)
    assert (state.first_timestamp, state.max_timestamp) == ((50, 49 + batches) if batches else (-1, -1))
    entries = state.index_bytes // 8
    names, files = segment.names(), [segment.read(suffix) for suffix in (".log", ".index", ".timeindex")]
    segment.recovery.rebuilt.clear()
    scans.clear()
    assert segment.recovery.read_tail(BASE) == state
    assert segment.recovery.rebuilt == ({} if entries else {BASE: 0})
    assert len(scans) == 1 and scans[0][1] and (scans[0][0] is None) is not bool(entries)
    assert not segment.said and not segment.unsound and segment.names() == names
    assert [segment.read(suffix) for suffix in (".log", ".index", ".timeindex")] == files


def test_a_short_segment_is_read_and_nothing_written(tmp_path, monkeypatch):
    segment = Segment(tmp_path, batches=1)
    for suffix in (".index", ".timeindex"):
        segment.write(suffix, b"")
    monkeypatch.setattr(segment.recovery, "rebuild", None)
    state = segment.recovery.read_tail(BASE)
    assert (state.next_offset, state.position, state.index_bytes) == (BASE + 2, len(segment.content), 0)
    assert segment.recovery.rebuilt == {BASE: 0}


@pytest.mark.parametrize("why", ["times", "damage", "torn", "entries"])
def test_a_segment_that_only_seems_short_is_read_whole(tmp_path, monkeypatch, why):
    segment, rebuilt = Segment(tmp_path, batches=10 if why == "entries" else 1), []
    for suffix in (".index", ".timeindex"):
        segment.write(suffix, b"")
    if why == "times":
        segment.write(".timeindex", struct.pack(">qi", 50, 0))
    elif why == "damage":
        segment.damage(70)
    elif why == "torn":
        segment.write(".log", segment.content + segment.content[:30])
    anew = lambda base, *, settled: rebuilt.append((base, settled)) or ("state", False)  # noqa: E731
    monkeypatch.setattr(segment.recovery, "rebuild", anew)
    assert segment.recovery.read_tail(BASE) == "state" and rebuilt == [(BASE, True)]
    assert not segment.recovery.rebuilt


@pytest.mark.parametrize("damage", ["record", "index"])
def test_a_tail_that_is_not_as_a_clean_stop_leaves_it_is_told_and_read_whole(segment, scans, damage):
    before = segment.recovery.rebuild(BASE)[0]
    segment.recovery.rebuilt.clear()
    if damage == "record":
        segment.damage(segment.ends[-2] + 70)
    else:
        entries = segment.read(".index")
        segment.write(".index", entries[:-8] + struct.pack(">ii", 18, len(segment.content) - 3))
    state = segment.recovery.read_tail(BASE)
    assert segment.unsound == ["t-0/00000000000000000007.index"] and segment.recovery.rebuilt == {BASE: 0}
    assert state.next_offset == before.next_offset and len(segment.read(".log")) == len(segment.content), "all is kept"
    assert [f"damaged at byte {segment.ends[-2]}" in line for line in segment.said] == [True] * (damage == "record")


@pytest.mark.parametrize(("interval", "damaged"), [(INTERVAL, 9), (1000, 9), (1000, 8)])
def test_damage_behind_sound_batches_is_seen(tmp_path, interval, damaged):
    segment = Segment(tmp_path, interval=interval)
    segment.recovery.rebuild(BASE)
    segment.damage(segment.ends[damaged] + 70)
    assert segment.recovery.read_tail(BASE).next_offset == BASE + 20
    assert len(segment.unsound) == 1 and f"damaged at byte {segment.ends[damaged]} " in segment.said[0]


def test_an_index_that_points_to_the_end_of_its_log_is_none(segment):
    segment.recovery.rebuild(BASE)
    segment.write(".index", segment.read(".index")[:-8] + struct.pack(">ii", 19, len(segment.content)))
    assert segment.recovery.read_tail(BASE).next_offset == BASE + 20 and len(segment.unsound) == 1


def test_where_no_record_has_a_time_the_end_says_what_the_whole_would(tmp_path):
    segment = Segment(tmp_path, stamp=-1)
    state, _ = segment.recovery.rebuild(BASE)
    assert state.time_index_bytes == 0 < state.index_bytes and state.max_timestamp == -1
    assert segment.recovery.read_tail(BASE) == state


@pytest.mark.parametrize("settled", [False, True])
@pytest.mark.parametrize("number", [0, 4, 9])
def test_a_wrong_checksum_cuts_only_what_was_never_synced(segment, scans, settled, number):
    segment.damage(segment.ends[number] + 70)
    state, cut = segment.recovery.rebuild(BASE, settled=settled)
    assert cut is not settled
    if settled:
        assert (state.next_offset, state.position) == (BASE + 20, len(segment.content))
        assert segment.said == [
            f"t-0/{BASE:020d}.log: damaged at byte {segment.ends[number]} (offset {BASE + 2 * number}); kept"
        ]
        assert scans == [(None, True), (None, False)]
        return
    assert (state.next_offset, state.position) == (BASE + 2 * number, segment.ends[number])
    assert segment.read(".log") == segment.content[: segment.ends[number]] and scans == [(None, True)]
    aside = f"{BASE:020d}.log.{segment.ends[number]}.cut"
    assert len((segment.path / aside).read_bytes()) == len(segment.content) - segment.ends[number]
    assert segment.said == [
        f"t-0/{BASE:020d}.log: cut from {len(segment.content)} to {segment.ends[number]} bytes "
        f"(offset {BASE + 2 * number}): what follows is no sound batch; set aside as {aside}"
    ]


@pytest.mark.parametrize("settled", [False, True])
@pytest.mark.parametrize("left", [1, 60, 61, 100])
def test_a_batch_that_is_not_whole_is_cut_off(segment, settled, left):
    end = segment.ends[-2]
    segment.write(".log", segment.content[: end + left])
    state, cut = segment.recovery.rebuild(BASE, settled=settled)
    assert cut and (state.next_offset, state.position) == (BASE + 18, end)
    assert segment.read(".log") == segment.content[:end]
    assert "): its last batch is cut off; set aside as " in segment.said[-1] and len(segment.said) == 1 + settled


@pytest.mark.parametrize("settled", [False, True])
def test_what_was_settled_is_on_disk_afterwards(segment, monkeypatch, settled):
    synced = []
    monkeypatch.setattr(disk, "sync", lambda descriptor: synced.append(os.readlink(f"/proc/self/fd/{descriptor}")))
    segment.recovery.rebuild(BASE, settled=settled)
    files = [str(segment.file(suffix)) for suffix in (".log", ".index", ".timeindex")]
    assert synced == (files if settled else [])
