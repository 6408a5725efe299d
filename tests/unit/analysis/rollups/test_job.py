"""The hourly job: every closed segment in the table exactly once, whatever is damaged, late or killed."""

import json
import os
import shutil

import pytest

from mpbroker.analysis.engine.engines.choose_engine import choose_engine
from mpbroker.analysis.engine.engines.reusing_engine import merge_activity, merge_rollup
from mpbroker.analysis.engine.input.compaction import compact
from mpbroker.analysis.engine.input.trace_input import open_input
from mpbroker.analysis.engine.rollups import job, layout, table
from mpbroker.analysis.engine.rollups.layout import RollupError
from mpbroker.analysis.engine.rollups.table_files import LocalFiles, TableFiles
from tests.harness.record_trace import OFFSET_NS, Lane, clock, random_requests, write_segment

HOUR_NS = layout.HOUR_NS


def _segment(folder, number, count=60, broker=1, close=True):
    """In the number-th half of an hour, of a boot of its own: what samples a clock has does not change its time."""
    offset_ns = OFFSET_NS + number * HOUR_NS // 2
    clocks = (clock(0, offset_ns), clock(10_000_000_000, offset_ns))
    lane = Lane(broker, 0xB00 + number, first_seq=number * count, dropped=number)
    return write_segment(folder, random_requests(count, seed=number), lane, clocks=clocks, close=close)


def _run(places, path, files=LocalFiles, **kind):
    counter = job.LocalCounter()
    counter.batch_records = kind.get("batch_records", job.BATCH_RECORDS)
    return job.run(places, table.open_or_create(files(path)), counter)


def _tables(path):
    """Every dataset, added up: what the files' number and order do not change."""
    found = table.open_table(LocalFiles(path))
    sums = {}
    for name, ask in found.datasets.items():
        merge = merge_rollup if ask.kind == "rollup" else merge_activity
        sums[name] = merge(found.read(name), None, ask.by)
    segments = found.read(layout.SEGMENTS).sort_by("file").to_pylist()
    return sums, segments


@pytest.fixture(autouse=True)
def synced(monkeypatch):
    """Files and folders that were made durable; not waiting for the disk."""
    found = []
    monkeypatch.setattr(os, "fsync", lambda handle: found.append(os.readlink(f"/proc/self/fd/{handle}")))
    return found


@pytest.fixture
def narrow(monkeypatch):
    """One dataset, which is quicker. LONG=1: all."""
    if not os.environ.get("LONG"):
        every = layout.datasets
        monkeypatch.setattr(layout, "datasets", lambda window_ms: {"counts": every(window_ms)["counts"]})


@pytest.fixture
def traces(tmp_path):
    for number in range(3):
        _segment(tmp_path / "in" / "1", number)
    _segment(tmp_path / "in" / "2", 1, broker=2)
    return tmp_path / "in"


def test_the_table_has_what_the_engines_find(traces, tmp_path):
    report = _run([traces], tmp_path / "out")
    assert report[:4] == (1, 4, 240, 0) and report.left == []
    engine = choose_engine("local", open_input([traces]))
    sums, segments = _tables(tmp_path / "out")
    for name, ask in layout.datasets(layout.WINDOW_MS).items():
        assert sums[name].equals(engine.tables([ask])[0]), name
    assert sum(row["records"] for row in segments) == 240 and sum(row["dropped"] for row in segments) == 4


def test_a_second_run_adds_nothing_and_a_later_one_what_is_new(traces, tmp_path, narrow):
    _run([traces], tmp_path / "out")
    before = sorted(path for path in (tmp_path / "out").rglob("*") if path.is_file())
    shutil.copytree(traces / "1", traces / "a copy")
    assert _run([traces, traces / "1"], tmp_path / "out")[:4] == (0, 0, 0, 4)
    assert sorted(path for path in (tmp_path / "out").rglob("*") if path.is_file()) == before
    _segment(traces / "1", 9)
    assert _run([traces], tmp_path / "out")[:4] == (1, 1, 60, 4)
    _run([traces], tmp_path / "whole")
    assert _tables(tmp_path / "out") == _tables(tmp_path / "whole")


def test_what_is_growing_cut_or_damaged_is_left_out_until_it_is_whole(traces, tmp_path, narrow):
    whole = {path: path.read_bytes() for path in sorted((traces / "1").glob("*.mpt"))}
    growing, cut, damaged = whole
    _segment(traces / "1", 0, close=False)
    cut.write_bytes(whole[cut][:-500])
    damaged.write_bytes(whole[damaged][:5000] + b"\7" + whole[damaged][5001:])
    report = _run([traces], tmp_path / "out")
    assert report[:4] == (1, 1, 60, 0)
    reasons = {one.path: one.reason for one in report.left}
    assert reasons.keys() == {str(path) for path in whole} and reasons[str(growing)] == "it is still being written"
    assert "it has been cut" in reasons[str(cut)] and "not those it was closed with" in reasons[str(damaged)]
    for path, data in whole.items():
        path.write_bytes(data)
    assert _run([traces], tmp_path / "out")[:4] == (1, 3, 180, 1)
    _run([traces], tmp_path / "whole")
    assert _tables(tmp_path / "out") == _tables(tmp_path / "whole")


def test_damaged_close_fields_are_no_segment_that_is_being_written(traces, tmp_path, narrow):
    path = min((traces / "1").glob("*.mpt"))
    with open(path, "r+b") as file:
        file.seek(520)
        file.write(b"\xff")
    [left] = _run([traces], tmp_path / "out").left
    assert left.path == str(path) and "its close fields are damaged" in left.reason


class Killed(BaseException):
    """The process is gone at this moment."""


class Stepped(LocalFiles):
    """Dies before or in the middle of the `left`-th change of a file."""

    left = 0

    def _step(self, tear=None):
        Stepped.left -= 1
        if Stepped.left == 0:
            if tear is not None:
                tear()
            raise Killed

    def write(self, path, data):
        self._step(lambda: LocalFiles.write(self, path, data[: len(data) // 2]))
        super().write(path, data)

    def create(self, path, data):
        self._step()
        return super().create(path, data)

    def move(self, path, to):
        self._step()
        super().move(path, to)

    def remove(self, folder):
        self._step()
        super().remove(folder)


def test_a_batch_is_on_the_disk_before_it_counts(traces, tmp_path, narrow, synced, monkeypatch):
    create, seen = LocalFiles.create, []

    def noted(files, path, data):
        seen.append((path, files.below(layout.STAGING), list(synced)))
        return create(files, path, data)

    monkeypatch.setattr(LocalFiles, "create", noted)
    _run([traces], tmp_path / "out")
    path, staged, durable = seen[-1]
    assert path.startswith(layout.COMMITS) and len(staged) > 5
    assert {str(tmp_path / "out" / one) for one in staged} <= set(durable)


@pytest.mark.slow
def test_a_job_killed_at_any_step_is_completed_by_the_next_one(traces, tmp_path, narrow):
    """And at no moment does a reader see a part of a batch. LONG=1: with all datasets."""
    _run([traces], tmp_path / "whole")
    wanted = _tables(tmp_path / "whole")
    sizes = {60 * number for number in (0, 2, 4)}  # of the batches, added up
    for step in range(1, 1000):
        path = tmp_path / f"killed-{step}"
        Stepped.left = step
        try:
            _run([traces], path, Stepped, batch_records=130)
        except Killed:
            if (path / layout.ABOUT).exists():
                counts = table.open_table(LocalFiles(path)).read("counts", columns=["n"])
                assert sum(counts["n"].to_pylist()) in sizes, step
            report = _run([traces], path)
            assert report.segments + report.known == 4 and _tables(path) == wanted, step
            shutil.rmtree(path)
            continue
        assert step > 20, "every file of every batch is a step"
        return
    raise AssertionError("it never came through")


def test_two_jobs_do_not_meet(traces, tmp_path):
    found = table.open_or_create(LocalFiles(tmp_path / "out"))
    with found.files.lock(), pytest.raises(RollupError, match="another trace rollup is at work"):
        _run([traces], tmp_path / "out")
    first, second = found.begin(), found.begin()  # where there is no lock, the commit decides
    first.commit(0, 0)
    with pytest.raises(RollupError, match="run it again"):
        second.commit(0, 0)
    assert found.commits() == 1


class Open(LocalFiles):
    """On a file system that has no locks."""

    lock = TableFiles.lock


class Overtaken(job.LocalCounter):
    """Another job does the same work between this one's plan and its first batch."""

    def __init__(self, places, path):
        self._todo = [(places, path)]

    @property
    def batch_records(self):
        for places, path in self._todo:
            self._todo = []
            _run(places, path, Open)
        return job.BATCH_RECORDS


def test_a_job_that_another_one_overtakes_counts_nothing(traces, tmp_path, narrow):
    with pytest.raises(RollupError, match="run it again"):
        job.run([traces], table.open_or_create(Open(tmp_path / "out")), Overtaken([traces], tmp_path / "out"))
    assert _run([traces], tmp_path / "out")[:4] == (0, 0, 0, 4)
    _run([traces], tmp_path / "whole")
    assert _tables(tmp_path / "out") == _tables(tmp_path / "whole")


def test_what_is_refused(traces, tmp_path):
    for window_ms in (7, 3_600_001):
        with pytest.raises(RollupError, match="do not make a whole hour"):
            table.open_or_create(LocalFiles(tmp_path / "new"), window_ms)
    table.open_or_create(LocalFiles(tmp_path / "out"), 60_000)
    with pytest.raises(RollupError, match="windows of 60000 ms"):
        table.open_or_create(LocalFiles(tmp_path / "out"), 10_000)
    compact(open_input([traces]), tmp_path / "compacted")
    for place, words in (("gone", "does not exist"), ("compacted", "made from segments")):
        with pytest.raises(RollupError, match=words):
            _run([tmp_path / place], tmp_path / "out")
    (tmp_path / "out" / layout.ABOUT).write_text(json.dumps({"format": 7}))
    with pytest.raises(RollupError, match="format 7"):
        table.open_table(LocalFiles(tmp_path / "out"))
    (tmp_path / "out" / layout.ABOUT).write_text(json.dumps({"format": layout.FORMAT, "window_ms": 0}))
    with pytest.raises(RollupError, match="do not make a whole hour"):
        table.open_table(LocalFiles(tmp_path / "out"))
    with pytest.raises(RollupError, match="no rollup table"):
        table.open_table(LocalFiles(traces))
    before = sorted(traces.rglob("*"))
    with pytest.raises(RollupError, match="no rollup table, and not empty"):
        table.open_or_create(LocalFiles(traces))
    assert before and sorted(traces.rglob("*")) == before


@pytest.mark.parametrize(
    ("staging", "path"),
    [
        ("_staging/../counts", "x.parquet"),
        ("counts", "x.parquet"),
        ("_staging", "x.parquet"),
        ("_staging/1", "../x.parquet"),
        ("_staging/1", "/x.parquet"),
    ],
)
def test_a_commit_whose_paths_lead_elsewhere_is_damaged(tmp_path, staging, path):
    found = table.open_or_create(LocalFiles(tmp_path / "out"))
    kept = [tmp_path / "out" / "counts" / "kept", tmp_path / "out" / "_staging" / "kept"]
    for one in kept:
        one.parent.mkdir(exist_ok=True)
        one.touch()
    commit = table.Commit(0, staging, (path,), 1, 1)
    found.files.create(f"{layout.COMMITS}/{0:012d}.json", json.dumps(commit._asdict()).encode())
    with pytest.raises(RollupError, match="is damaged"):
        found.recover()
    assert all(one.exists() for one in kept)


def test_files_of_other_hours_and_nodes_are_not_named(traces, tmp_path, narrow):
    _run([traces], tmp_path / "out")
    found = table.open_table(LocalFiles(tmp_path / "out"))
    every = found.paths("counts")
    assert len(every) == 3 and all("dt=" in path and "hour=" in path and "node=" in path for path in every)
    rows = layout.RowFilter(brokers=(2,))
    assert found.paths("counts", rows) == [path for path in every if "node=2" in path]
    begin_ns = layout.partition_of(every[0]).hour * HOUR_NS
    assert found.paths("counts", layout.RowFilter(to_ns=begin_ns)) == []
    assert len(found.paths("counts", layout.RowFilter(from_ns=begin_ns + HOUR_NS))) < 3
