"""DuckDB and polars read rollup tables and compacted traces as they are, and open the files of an hour and node only.

What Spark makes of them is in tests/integration/test_spark_rollups.py.
"""

import pytest

from mpbroker.analysis.engine.input.compaction import compact
from mpbroker.analysis.engine.input.trace_input import open_input
from mpbroker.analysis.engine.rollups import job, layout, table
from mpbroker.analysis.engine.rollups.table_files import LocalFiles
from tests.harness.record_trace import OFFSET_NS, Lane, clock, random_requests, write_segment

pytestmark = pytest.mark.slow
WANTED = {(22, 1): 40, (22, 2): 40, (23, 1): 40, (23, 2): 40}  # requests by hour and node


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """A dataset of a rollup table, and a compacted trace, of two brokers and two hours."""
    folder = tmp_path_factory.mktemp("layout")
    for broker in (1, 2):
        for hour in (0, 1):
            offset_ns = OFFSET_NS + hour * layout.HOUR_NS
            clocks = clock(0, offset_ns), clock(10_000_000_000, offset_ns)
            lane = Lane(broker, 10 * broker + hour)
            write_segment(folder / "in", random_requests(40, seed=broker), lane, clocks=clocks)
    job.run([folder / "in"], table.open_or_create(LocalFiles(folder / "rollups")), job.LocalCounter())
    compact(open_input([folder / "in"]), folder / "compacted")
    return folder


SUMS = [("rollups/counts", "n"), ("compacted", "weight")]


@pytest.mark.parametrize(("place", "column"), SUMS)
def test_duckdb(folders, place, column):
    duckdb = pytest.importorskip("duckdb")
    files = f"read_parquet('{folders / place}/**/*.parquet', hive_partitioning = true)"
    rows = duckdb.sql(f"SELECT hour::INT, node::INT, sum({column})::INT FROM {files} GROUP BY ALL").fetchall()
    assert {(hour, node): n for hour, node, n in rows} == WANTED
    plan = duckdb.sql(f"EXPLAIN ANALYZE SELECT sum({column}) FROM {files} WHERE hour = 23 AND node = 2").fetchall()
    read = len(list((folders / place).glob("dt=*/hour=23/node=2/**/*.parquet")))
    assert f"Total Files Read: {read}" in plan[0][1]


@pytest.mark.parametrize(("place", "column"), SUMS)
def test_polars(folders, place, column):
    polars = pytest.importorskip("polars", reason="polars is not installed")
    frame = polars.scan_parquet(folders / place / "**" / "*.parquet", hive_partitioning=True)
    rows = frame.group_by("hour", "node").agg(polars.col(column).sum()).collect().rows()
    assert {(int(hour), int(node)): n for hour, node, n in rows} == WANTED
