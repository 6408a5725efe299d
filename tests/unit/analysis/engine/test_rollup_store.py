"""Rollups kept in a file: parts added one after the other are the whole, and nothing counts twice."""

import pyarrow.parquet as pq
import pytest

from mpbroker.analysis.engine.engines import rollup_store
from mpbroker.analysis.engine.engines.choose_engine import choose_engine
from mpbroker.analysis.engine.engines.rollup_store import RollupError
from mpbroker.analysis.engine.input.compaction import compact
from mpbroker.analysis.engine.input.trace_input import open_input
from tests.harness.record_trace import Lane, random_requests, write_segment


@pytest.fixture
def parts(tmp_path):
    for number in range(3):
        write_segment(
            tmp_path / "all" / str(number), random_requests(500, seed=number, sampled=True), Lane(ring=number)
        )
    return tmp_path / "all"


def _engine(*places):
    return choose_engine("local", open_input(places))


def test_parts_added_up_are_the_whole(parts, tmp_path):
    path = tmp_path / "deep" / "rollup.parquet"
    for number in range(3):
        found = rollup_store.add(_engine(parts / str(number)), path)
    whole = _engine(parts).rollup(rollup_store.WINDOW_MS, rollup_store.GROUPS)
    assert found.equals(whole)
    about, read = rollup_store.read(path)
    assert read.equals(whole) and len(about["sources"]) == 3 and about["by"] == list(rollup_store.GROUPS)
    assert [one.name for one in path.parent.iterdir()] == [path.name]


def test_longer_windows_are_sums_of_shorter_ones(parts):
    engine = _engine(parts)
    merged = rollup_store.merge([engine.rollup(250, ("api", "client"))], ("api", "client"), window_ms=1000)
    assert merged.equals(engine.rollup(1000, ("api", "client")))


def test_nothing_counts_twice(parts, tmp_path):
    path = tmp_path / "rollup.parquet"
    rollup_store.add(_engine(parts / "0"), path)
    before = path.read_bytes()
    compact(open_input([parts / "0"]), tmp_path / "compacted")
    for again in (parts / "0", parts, tmp_path / "compacted"):
        with pytest.raises(RollupError, match="already"):
            rollup_store.add(_engine(again), path)
    with pytest.raises(RollupError, match="one kind"):
        rollup_store.add(_engine(parts / "1"), path, window_ms=5)
    assert path.read_bytes() == before


def test_other_files_are_refused(parts, tmp_path):
    path = tmp_path / "x.parquet"
    for write in (lambda: path.write_text("no"), lambda: pq.write_table(_engine(parts).rollup(1000), path)):
        write()
        with pytest.raises(RollupError, match="no rollup"):
            rollup_store.add(_engine(parts), path)
