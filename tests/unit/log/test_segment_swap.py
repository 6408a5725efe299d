"""What a compaction may clear away before it begins: copies of segments that are there, and nothing else."""

import pytest

from mpbroker.log.segment_swap import abandon_swaps

BASE, LATER = 5, 20
COPIES = [f"{BASE:020d}{suffix}.compacted" for suffix in (".log", ".index", ".timeindex")]
MARK = f"{BASE:020d}-{LATER:020d}.swap"
LOG = f"{BASE:020d}.log"


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
