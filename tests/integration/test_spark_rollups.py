"""The hourly job and rollup tables in Spark: the same integers as the local job, also on another file system."""

import os

import pytest

from mpbroker.analysis.engine.engines.choose_engine import open_engine
from mpbroker.analysis.engine.engines.engine import Ask, EngineError
from mpbroker.analysis.engine.input.column_set import sorted_table
from mpbroker.analysis.engine.input.compaction import compact
from mpbroker.analysis.engine.input.decode import RowFilter
from mpbroker.analysis.engine.input.places import ElsewhereError
from mpbroker.analysis.engine.input.trace_input import open_input
from mpbroker.analysis.engine.rollups import job, layout, table
from mpbroker.analysis.engine.rollups.rollup_engine import RollupEngine
from mpbroker.analysis.engine.rollups.rollup_input import RollupInput
from mpbroker.analysis.engine.rollups.table_files import LocalFiles
from mpbroker.analysis.spark.hadoop_files import HadoopFiles
from mpbroker.analysis.spark.rollup_engine import SparkRollupEngine
from mpbroker.analysis.spark.segment_counter import SparkCounter
from mpbroker.analysis.spark.segment_source import shares
from mpbroker.analysis.spark.session import OpenSession
from mpbroker.analysis.spark.source_plan import PARTITION_RECORDS
from tests.harness.record_trace import OFFSET_NS, Lane, clock, random_requests, write_segment

ASKS = [Ask("rollup", 0, ("broker", "api")), Ask("activity", 20_000, ("api", "error"))]
SCHEME = "viewfs://fleet/data"


def _segment(folder, number, broker=1):
    offset_ns = OFFSET_NS + number * layout.HOUR_NS
    clocks = (clock(0, offset_ns), clock(10_000_000_000, offset_ns))
    return write_segment(folder, random_requests(80, seed=number), Lane(broker, 0xB00 + number), clocks=clocks)


@pytest.fixture
def traces(tmp_path, monkeypatch):
    """Two brokers, two hours; fewer datasets, which is quicker. LONG=1: all."""
    if not os.environ.get("LONG"):
        every = layout.datasets
        monkeypatch.setattr(
            layout, "datasets", lambda window_ms: {name: every(window_ms)[name] for name in ("stages", "counts")}
        )
    for broker in (1, 2):
        for number in (0, 1):
            _segment(tmp_path / "in" / str(broker), number, broker)
    return tmp_path / "in"


@pytest.fixture
def elsewhere(spark, tmp_path):
    """A file system of another scheme, whose files lie in a folder of this machine."""
    settings = spark.sparkContext._jsc.hadoopConfiguration()
    name = "fs.viewfs.mounttable.fleet.link./data"
    (tmp_path / "mounted").mkdir()
    settings.set(name, f"file:{tmp_path}/mounted")
    settings.set("fs.viewfs.impl.disable.cache", "true")
    yield HadoopFiles(spark, f"{SCHEME}/rollups")
    settings.unset(name)


def _read(found):
    rows = {name: sorted_table(found.read(name), _keys(ask)) for name, ask in found.datasets.items()}
    return rows, found.read(layout.SEGMENTS).sort_by([("broker", "ascending"), ("file", "ascending")]).to_pylist()


def _keys(ask):
    return ["window_ms", *ask.by, *(["stage", "bucket"] if ask.kind == "rollup" else [])]


def test_spark_counts_as_the_local_job_does_on_any_file_system(spark, traces, tmp_path, elsewhere):
    damaged = sorted((traces / "2").glob("*.mpt"))[1]
    whole = damaged.read_bytes()
    damaged.write_bytes(whole[:5000] + bytes([whole[5000] ^ 7]) + whole[5001:])
    ours = table.open_or_create(LocalFiles(tmp_path / "local"))
    theirs = table.open_or_create(elsewhere)
    reports = [job.run([traces], ours, job.LocalCounter()), job.run([traces], theirs, SparkCounter(spark))]
    assert reports[0] == reports[1] and reports[0].segments == 3 and len(reports[0].left) == 1
    damaged.write_bytes(whole)
    assert job.run([traces], theirs, SparkCounter(spark))[:4] == (1, 1, 80, 3)
    assert job.run([traces], theirs, SparkCounter(spark))[:4] == (0, 0, 0, 4)
    job.run([traces], ours, job.LocalCounter())
    assert _read(ours) == _read(table.open_table(elsewhere))
    assert not (tmp_path / "mounted" / "rollups" / layout.STAGING).exists()

    rows = RowFilter(brokers=(2,), from_ns=(OFFSET_NS // layout.HOUR_NS + 1) * layout.HOUR_NS)
    for limits in (RowFilter(), rows):
        local = RollupEngine(RollupInput(ours, limits))
        place = ours if limits is rows else theirs  # of this machine, too
        remote = SparkRollupEngine(RollupInput(place, limits), OpenSession(spark, owned=False))
        assert all(one.equals(other) for one, other in zip(local.tables(ASKS), remote.tables(ASKS), strict=True))
        ((one,), (other,)) = (engine.percentiles(ASKS[:1]) for engine in (local, remote))
        assert one.num_rows > 5 and one.equals(other)
        opened = remote._frame(ASKS[1]).inputFiles()
        assert len(opened) == (4 if limits is not rows else 1), "no other file is opened"


def test_percentiles_of_traces_are_found_in_spark(spark, traces):
    engines = [open_engine(name, [traces], {}) for name in ("local", "spark")]
    asks = [Ask("rollup", 0, ("broker", "api")), Ask("rollup", 1000, ("client",))]
    for ours, theirs in zip(*(engine.percentiles(asks) for engine in engines), strict=True):
        assert ours.num_rows > 20 and ours.equals(theirs)


def test_a_compacted_trace_of_another_file_system_is_read_there(spark, traces, tmp_path, elsewhere):
    compact(open_input([traces]), tmp_path / "mounted" / "compacted")
    limits = {"brokers": [2], "from_ns": (OFFSET_NS // layout.HOUR_NS + 1) * layout.HOUR_NS}
    ours, theirs = open_engine("local", [traces], limits), open_engine("auto", [f"{SCHEME}/compacted"], limits)
    assert all(one.equals(other) for one, other in zip(ours.tables(ASKS), theirs.tables(ASKS), strict=True))
    files = theirs.input.parquet_files
    assert all(path.startswith(f"{SCHEME}/compacted/dt=") and "hour=23/node=2/" in path for path in files)
    assert len(files) < len(list((tmp_path / "mounted").rglob("*.parquet"))) / 2, "by hour and broker"
    theirs.close()
    with pytest.raises(EngineError, match="neither a compacted trace .* nor a rollup table"):
        open_engine("spark", [SCHEME], {})
    with pytest.raises(EngineError, match="leave out --engine local"):
        open_engine("local", [SCHEME], {})
    with pytest.raises(ElsewhereError, match="files of this machine"):
        job.run([SCHEME], table.open_or_create(LocalFiles(tmp_path / "x")), job.LocalCounter())
    assert open_input([traces.as_uri()]).loss.records == 320


def test_a_big_broker_is_many_tasks_and_small_ones_share_one():
    found = shares([("big", PARTITION_RECORDS)] * 5 + [("small", 1000)] * 1000)
    assert [len(paths) for paths in found[:5]] == [1] * 5
    assert sum(map(len, found)) == 1005 and len(found) == 5 + -(-1000 * 1000 // PARTITION_RECORDS)
