"""What a compaction may clear away before it begins: copies of segments that are there, and nothing else."""

import pytest

from mpbroker.log import disk
from mpbroker.log.segment_swap import abandon_swaps, finish_swaps
from mpbroker.record.batch_builder import encode_batch

BASE, LATER = 5, 20
COPIES = [f"{BASE:020d}{suffix}.compacted" for suffix in (".log", ".index", ".timeindex")]
MARK = f"{BASE:020d}-{LATER:020d}.swap"
LOG = f"{BASE:020d}.log"
pytestmark = pytest.mark.usefixtures("no_waiting_for_the_disk")


def left(directory, *names):
    """What abandon_swaps leaves of these files, each of which says its name."""
    for name in names:
        (directory / name).write_text(name)
    abandon_swaps(str(directory))
    return {one.name: one.read_text() for one in directory.iterdir()}


@pytest.mark.parametrize("mark", [(), (MARK,)], ids=["unmarked", "marked"])
def test_copies_of_a_segment_that_is_there_go(tmp_path, mark):
    assert left(tmp_path, LOG, *mark, *COPIES, "mine.compacted") == {LOG: LOG, "mine.compacted": "mine.compacted"}


@pytest.mark.parametrize("mark", [(), (MARK,)], ids=["unmarked", "marked"])
def test_copies_of_a_segment_that_somebody_took_away_are_set_aside(tmp_path, mark):
    gone = (*mark, *COPIES)
    assert left(tmp_path, *gone, f"{LATER:020d}.log") == {
        f"{LATER:020d}.log": f"{LATER:020d}.log",
        **{f"{name}.cut": name for name in gone},
    }


def test_beside_segments_that_were_retired_for_them_they_are_set_aside(tmp_path):
    retired = f"{LATER - 5:020d}.log.deleted"
    found = left(tmp_path, LOG, *COPIES, retired)
    assert found == {LOG: LOG, retired: retired, **{f"{name}.cut": name for name in COPIES}}


@pytest.mark.parametrize(
    ("end", "torn", "is_sound"), [(8, False, True), (9, False, True), (7, False, False), (9, True, False)]
)
def test_a_cleaned_log_takes_its_place_if_it_is_whole_and_ends_where_it_may(tmp_path, end, torn, is_sound):
    """Offsets up to the end of the last segment that it stands for, and no more."""
    cleaned = encode_batch([(b"k", b"v", 1)] * 3, base_offset=BASE)
    (tmp_path / COPIES[0]).write_bytes(cleaned[:-1] if torn else cleaned)
    (tmp_path / f"{BASE:020d}-{end:020d}.swap").touch()
    (tmp_path / LOG).write_bytes(b"before")
    stays = [tmp_path / f"{end:020d}.log", tmp_path / f"{BASE - 1:020d}.log"]
    for path in stays:
        path.write_bytes(b"another's")
    assert finish_swaps(str(tmp_path)) == [(BASE, end)]
    assert ((tmp_path / LOG).read_bytes() == cleaned) is is_sound
    assert (tmp_path / f"{COPIES[0]}.cut").exists() is not is_sound
    assert not list(tmp_path.glob("*.swap")) and all(path.exists() for path in stays)
    assert not list(tmp_path.glob("*.deleted")), "there was nothing between them"


def test_what_a_swap_renamed_is_durable_before_its_mark_goes(tmp_path, monkeypatch):
    between, there = BASE + 1, []
    (tmp_path / COPIES[0]).write_bytes(encode_batch([(b"k", b"v", 1)], base_offset=BASE))
    for name in (MARK, LOG, f"{between:020d}.log", f"{between:020d}.index"):
        (tmp_path / name).touch()
    monkeypatch.setattr(disk, "sync_directory", lambda path: there.append({one.name for one in tmp_path.iterdir()}))
    assert finish_swaps(str(tmp_path)) == [(BASE, LATER)]
    retired = {f"{between:020d}.log.deleted", f"{between:020d}.index.deleted"}
    assert there == [{MARK, LOG, *retired}] and {one.name for one in tmp_path.iterdir()} == {LOG, *retired}


@pytest.mark.parametrize("mark", [(), (MARK,)], ids=["unmarked", "marked"])
def test_before_a_mark_is_taken_away_its_renames_are_durable(tmp_path, monkeypatch, mark):
    there = []
    monkeypatch.setattr(disk, "sync_directory", lambda path: there.append({one.name for one in tmp_path.iterdir()}))
    assert left(tmp_path, LOG, *mark) == {LOG: LOG} and there == ([{LOG, MARK}] if mark else [])


def test_a_cleaned_segment_has_no_aborted_transactions(tmp_path):
    (tmp_path / COPIES[0]).write_bytes(encode_batch([(b"k", b"v", 1)], base_offset=BASE))
    for name in (MARK, LOG, f"{BASE:020d}.txnindex"):
        (tmp_path / name).touch()
    finish_swaps(str(tmp_path))
    assert [one.name for one in tmp_path.iterdir()] == [LOG]
