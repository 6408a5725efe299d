"""Recovery never destroys: after any damage every byte that was there is there, and what is sound is served."""

import os

import pytest

from mpbroker.log.log_recovery import LogMissing, NotAFile
from mpbroker.log.producer_snapshot import ProducerEntry, snapshot_path, write_snapshot
from mpbroker.log.segment_recovery import SegmentRecovery
from mpbroker.log.set_aside import free_name, keep_tail, set_aside
from tests.unit.log.test_log_recovery import make_batches, recover, write_log


def contents(directory) -> dict[str, bytes]:
    return {name: (directory / name).read_bytes() for name in sorted(os.listdir(directory))}


def log_contents(directory) -> list[bytes]:
    """Everything that logs hold, wherever it lies by now."""
    return [data for name, data in contents(directory).items() if ".log" in name]


def segments(directory, *bases: int, count: int = 5) -> None:
    """Segments of `count` batches of three records each."""
    for base in bases:
        write_log(directory, base, make_batches(base, count))


def name_of(base: int, suffix: str = ".log") -> str:
    return f"{base:020d}{suffix}"


def test_a_gap_is_told_and_everything_behind_it_is_served(tmp_path):
    segments(tmp_path, 0, 15, 30)
    (tmp_path / name_of(15)).unlink()
    found = recover(tmp_path)
    assert (found.log_start, found.active.next_offset, found.segment_count) == (0, 45, 2)
    assert len(found.cut) == 1 and f"{tmp_path.name}: offsets 15 to 29 are missing; the rest is served" in found.cut[0]
    assert "put them back and start again" in found.cut[0]
    assert recover(tmp_path, gaps_allowed=True).cut == []


MAKE = {
    "a folder": lambda path: (path.mkdir(), (path / "kept").touch()),
    "a pipe": os.mkfifo,
    "a link to nowhere": lambda path: path.symlink_to("/nowhere"),
}


def _state(path):
    """Which file it is and when it was written; when it was read last is nobody's business."""
    found = path.lstat()
    return found.st_ino, found.st_mode, found.st_size, found.st_mtime_ns


@pytest.mark.parametrize("kind", MAKE)
@pytest.mark.parametrize("clean", [False, True])
def test_what_is_no_file_is_left_and_told_once_and_the_log_is_served(tmp_path, kind, clean):
    """Whatever its name, as long as the log needs no file of that name."""
    segments(tmp_path, 0, 15)
    names = [
        name_of(7), name_of(700), name_of(700, ".index"), name_of(3, ".snapshot"), name_of(3, ".log.deleted"),
        name_of(0, ".log.compacted"), f"{0:020d}-{15:020d}.swap", "leader-epoch-checkpoint.tmp", "other", "x.log",
    ]  # fmt: skip
    for name in names:
        MAKE[kind](tmp_path / name)
    before = {name: _state(tmp_path / name) for name in names}
    found = recover(tmp_path, clean=clean)
    assert (found.log_start, found.active.next_offset, found.segment_count) == (0, 30, 2)
    assert {name: _state(tmp_path / name) for name in names} == before
    [told] = found.cut
    assert "8 entries are named like files of the log and are none" in told and "left as they are" in told


@pytest.mark.parametrize("kind", MAKE)
@pytest.mark.parametrize(
    "name",
    [
        *(name_of(0), name_of(15), name_of(20), name_of(45)),
        *(name_of(30, ".index"), name_of(30, ".txnindex"), "partition.metadata", "leader-epoch-checkpoint"),
    ],
)
def test_in_the_place_of_a_file_that_the_log_needs_it_takes_the_partition_offline(tmp_path, kind, name):
    """With one sentence, and nothing changed: a first segment, one in a gap, the next, an index."""
    segments(tmp_path, 0, 15, 30)
    if name.endswith(".log") and name != name_of(45):
        (tmp_path / (name_of(15) if name == name_of(20) else name)).unlink()
    MAKE[kind](tmp_path / name)
    before = {path: _state(path) for path in tmp_path.iterdir()}
    with pytest.raises(
        NotAFile, match=f"{tmp_path.name}/{name} is no file, but has the name of one that the log needs"
    ):
        recover(tmp_path, recovery_point=45)
    assert {path: _state(path) for path in tmp_path.iterdir()} == before


def test_below_the_log_start_or_beyond_the_end_no_segment_is_needed(tmp_path):
    segments(tmp_path, 15, 30)
    for base in (0, 46):
        (tmp_path / name_of(base)).mkdir()
    assert recover(tmp_path, log_start=15).active.next_offset == 45
    with pytest.raises(NotAFile):
        recover(tmp_path)
    for base in (15, 30):
        (tmp_path / name_of(base)).unlink()
    with pytest.raises(NotAFile):
        recover(tmp_path, log_start=15)


def test_a_segment_that_retention_deleted_and_something_brought_back_takes_nothing_with_it(tmp_path):
    segments(tmp_path, 0, 216, 231)
    found = recover(tmp_path, log_start=216)
    assert (found.log_start, found.active.next_offset, found.segment_count) == (216, 246, 2)
    assert found.cut == []
    assert (tmp_path / name_of(0)).exists(), "retention removes it, not recovery"


@pytest.mark.parametrize("where", ["checksum", "length"])
def test_damage_in_a_synced_segment_costs_at_most_that_segment(tmp_path, where):
    segments(tmp_path, 0, 15, 30)
    path = tmp_path / name_of(15)
    damaged = bytearray(path.read_bytes())
    one = len(damaged) // 5
    damaged[2 * one + (70 if where == "checksum" else 8)] ^= 0xFF
    path.write_bytes(damaged)
    found = recover(tmp_path, recovery_point=45)
    assert (found.active.base, found.active.next_offset, found.segment_count) == (30, 45, 3)
    if where == "checksum":
        assert path.read_bytes() == damaged, "the consumer finds it, as with Kafka"
        assert len(found.cut) == 1 and "kept" in found.cut[0]
    else:
        assert path.read_bytes() == damaged[: 2 * one]
        assert (tmp_path / f"{name_of(15)}.{2 * one}.cut").read_bytes() == damaged[2 * one :]


def test_what_is_cut_from_the_active_segment_lies_beside_it(tmp_path):
    write_log(tmp_path, 0, [*make_batches(0, 4), b"torn"])
    whole = (tmp_path / name_of(0)).read_bytes()
    found = recover(tmp_path)
    assert found.active.next_offset == 12
    assert (tmp_path / name_of(0)).read_bytes() == whole[:-4]
    assert (tmp_path / f"{name_of(0)}.{len(whole) - 4}.cut").read_bytes() == b"torn"
    assert recover(tmp_path).cut == [], "once"


def test_a_tail_that_cannot_be_kept_is_not_cut(tmp_path, monkeypatch):
    write_log(tmp_path, 0, [*make_batches(0, 4), b"torn"])
    before = (tmp_path / name_of(0)).read_bytes()

    def full(descriptor, data):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(OSError, match="No space"):
        recover(tmp_path)
    monkeypatch.undo()
    assert log_contents(tmp_path) == [before]
    assert recover(tmp_path).active.next_offset == 12


@pytest.mark.parametrize("compacted", [False, True])
def test_of_two_segments_that_overlap_the_lower_one_is_served_and_the_rest_behind_them(tmp_path, compacted):
    segments(tmp_path, 0, 15, 30)
    (tmp_path / name_of(9)).write_bytes((tmp_path / name_of(15)).read_bytes())
    before = sorted(log_contents(tmp_path))
    found = recover(tmp_path, gaps_allowed=compacted)
    assert (found.log_start, found.active.next_offset) == (0, 45)
    assert sorted(log_contents(tmp_path)) == before
    assert (tmp_path / f"{name_of(9)}.cut").exists()
    assert recover(tmp_path, gaps_allowed=compacted).active == found.active


def test_a_compacted_segment_may_begin_behind_its_name_but_not_reach_into_the_next_one(tmp_path):
    segments(tmp_path, 0, 30, 45)
    write_log(tmp_path, 15, make_batches(18, 4))
    found = recover(tmp_path, gaps_allowed=True)
    assert (found.active.next_offset, found.segment_count, found.cut) == (60, 4, [])
    (tmp_path / name_of(15)).write_bytes((tmp_path / name_of(30)).read_bytes())
    found = recover(tmp_path, gaps_allowed=True)
    assert (found.active.next_offset, found.segment_count) == (60, 3)
    assert (tmp_path / f"{name_of(15)}.cut").exists()


def test_a_log_start_beyond_the_end_is_not_believed(tmp_path):
    segments(tmp_path, 0, 15)
    found = recover(tmp_path, log_start=900)
    assert (found.log_start, found.active.next_offset, found.segment_count) == (0, 30, 2)
    assert len(found.cut) == 1 and "says 900, but the log ends at 30" in found.cut[0]


def test_a_log_start_at_the_end_is_the_log_start(tmp_path):
    segments(tmp_path, 0, 15)
    found = recover(tmp_path, log_start=30)
    assert (found.log_start, found.active.next_offset, found.cut) == (30, 30, [])


def test_a_log_shorter_than_what_was_synced_is_told(tmp_path):
    segments(tmp_path, 0)
    found = recover(tmp_path, clean=True, recovery_point=30)
    assert found.active.next_offset == 15
    assert len(found.cut) == 1 and "records up to 30 were synced" in found.cut[0]


def test_a_log_longer_than_at_its_clean_stop_is_told(tmp_path):
    segments(tmp_path, 0)
    (told,) = recover(tmp_path, clean=True, recovery_point=14).cut
    assert told.startswith(f"{tmp_path.name}: the log ends at 15, but at the clean stop it ended at 14: its last")
    for settings in (
        {"clean": True, "recovery_point": 15},
        {"clean": False, "recovery_point": 14},
        {"clean": True},  # no checkpoint of it
    ):
        assert recover(tmp_path, **settings).cut == []


@pytest.mark.parametrize("claimed", [3 + (1 << 20), 0, 7])
def test_a_batch_whose_offset_was_damaged_costs_nothing_behind_it_that_was_synced(tmp_path, claimed):
    """No checksum covers it, but the batches around it say what it was."""
    segments(tmp_path, 0)
    path = tmp_path / name_of(0)
    damaged = bytearray(path.read_bytes())
    one = len(damaged) // 5
    damaged[one : one + 8] = claimed.to_bytes(8, "big")
    path.write_bytes(damaged)
    found = recover(tmp_path, clean=True, recovery_point=15)
    assert found.active.next_offset == 15 and path.read_bytes() == damaged
    assert found.cut == [f"{tmp_path.name}/{name_of(0)}: damaged at byte {one} (offset 3); kept"]
    found = recover(tmp_path)
    assert found.active.next_offset == 3, "above the recovery point that is corruption"
    assert log_contents(tmp_path) == [damaged[:one], damaged[one:]]


def test_no_log_is_made_where_a_synced_one_is_missing(tmp_path):
    (tmp_path / "partition.metadata").write_text("version: 0\n")
    with pytest.raises(LogMissing, match="up to offset 30 were synced; put its files back"):
        recover(tmp_path, recovery_point=30)
    assert os.listdir(tmp_path) == ["partition.metadata"]


def test_only_what_was_given_up_is_unlinked(tmp_path):
    segments(tmp_path, 0)
    gone = [f"{name_of(0)}.deleted", f"{name_of(3, '.snapshot')}.tmp"]
    kept = ["notes.txt", f"{name_of(60)}.bak", "anything.swap", "1.cleaned", "anything.tmp", f"{name_of(0)}.5.cut"]
    for name in gone + kept:
        (tmp_path / name).write_bytes(b"something")
    (tmp_path / name_of(90, ".index")).write_bytes(b"x" * 8)
    found = recover(tmp_path)
    assert (
        len(found.cut) == 1
        and f"1 index files without a log were set aside as .cut, the first is {name_of(90, '.index')}" in found.cut[0]
    )
    names = os.listdir(tmp_path)
    assert not set(gone) & set(names) and set(kept) <= set(names)
    assert f"{name_of(90, '.index')}.cut" in names, "an index without its log is kept aside"


def test_snapshots_of_what_is_missing_are_set_aside(tmp_path):
    segments(tmp_path, 0)
    for offset in (15, 500):
        write_snapshot(str(tmp_path), offset, [ProducerEntry(9, 0, 4, 5, 0, 123)])
    assert recover(tmp_path).cut == [
        f"{tmp_path.name}: the producer snapshot of offset 500 was set aside as .cut: the log ends at 15"
    ]
    assert os.path.exists(snapshot_path(str(tmp_path), 15))
    assert os.path.exists(snapshot_path(str(tmp_path), 500) + ".cut")


def test_names_of_set_aside_files_are_never_reused(tmp_path):
    for number in range(3):
        (tmp_path / "a").write_bytes(b"%d" % number)
        set_aside(str(tmp_path / "a"))
    assert contents(tmp_path) == {"a.cut": b"0", "a.cut.1": b"1", "a.cut.2": b"2"}
    assert free_name(str(tmp_path / "a.cut")) == str(tmp_path / "a.cut.3")


def test_a_kept_tail_is_all_of_it(tmp_path, monkeypatch):
    (tmp_path / "a").write_bytes(bytes(range(256)) * 20)
    monkeypatch.setattr("mpbroker.log.set_aside.COPY_BYTES", 1000)
    with open(tmp_path / "a", "rb") as file:
        kept = keep_tail(file.fileno(), str(tmp_path / "a"), 100, 5120)
    with open(kept, "rb") as file:
        assert file.read() == (bytes(range(256)) * 20)[100:]


def test_a_rebuild_syncs_segments_that_count_as_synced(tmp_path, monkeypatch):
    segments(tmp_path, 0)
    synced = []
    monkeypatch.setattr(os, "fsync", synced.append)
    recovery = SegmentRecovery(str(tmp_path), 4096, print, print)
    recovery.rebuild(0)
    assert synced == []
    recovery.rebuild(0, settled=True)
    assert len(synced) == 3
