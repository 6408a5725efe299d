"""Markers become phases, folders become names of runs."""

from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa

from mpbroker.analysis.engine.running import phases


def _source(*marks, folders=()):
    rows = [{"epoch_ns": at, "run": run, "text": text} for at, run, text in marks]
    schema = pa.schema([("epoch_ns", pa.int64()), ("run", pa.string()), ("text", pa.string())])
    segments = [
        SimpleNamespace(path=Path(folder) / "x.mpt", opened=SimpleNamespace(boot_id=boot)) for boot, folder in folders
    ]
    return SimpleNamespace(markers=lambda: pa.Table.from_pylist(rows, schema), segments=segments)


def test_without_markers_all_is_one_phase():
    assert phases.phases(_source(), 10, 50) == [phases.Phase(phases.ALL, 10, 50)]


def test_a_marker_begins_a_phase_and_end_begins_none():
    source = _source(
        (20, "a", "phase: warm-up"), (30, "a", "load step 2"), (40, "a", "end of the load"), (90, "a", "later")
    )
    assert phases.phases(source, 10, 60) == [
        phases.Phase(phases.BEFORE, 10, 20),
        phases.Phase("warm-up", 20, 30),
        phases.Phase("load step 2", 30, 40),
    ]
    assert phases.phases(source, 25, 28) == [phases.Phase("warm-up", 25, 28)]
    assert phases.phases(source, 50, 60)[0].name == phases.ALL


def test_markers_of_one_run():
    source = _source((20, "a", "one"), (30, "b", "two"))
    assert [each.name for each in phases.phases(source, 10, 60, "b")] == [phases.BEFORE, "two"]


def test_runs_are_called_after_their_folders():
    assert phases.run_labels(_source(folders=[(1, "out/fifo"), (2, "out/plane/traces")])) == {
        f"{1:016x}": "fifo",
        f"{2:016x}": "plane",
    }
    assert phases.run_labels(_source(folders=[(1, "out"), (2, "out")])) == {
        f"{1:016x}": "00000001",
        f"{2:016x}": "00000002",
    }
