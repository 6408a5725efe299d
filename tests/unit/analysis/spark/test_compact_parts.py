"""How compacted files are shared out to Spark's tasks: each row group once, tasks neither empty nor too large."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mpbroker.analysis.engine.engines.engine import Where
from mpbroker.analysis.engine.engines.local_engine import Wanted, compact_chunks
from mpbroker.analysis.engine.input.columns import COMPACT
from mpbroker.analysis.engine.input.decode import RowFilter
from mpbroker.analysis.spark.compact_parts import MAX_TASK_BYTES, MIN_TASK_BYTES, shares, task_bytes


def test_small_files_share_a_task():
    tasks = shares((f"f{number}", MIN_TASK_BYTES // 10) for number in range(25))
    assert [len(task) for task in tasks] == [10, 10, 5]
    assert [part.path for task in tasks for part in task] == [f"f{number}" for number in range(25)]


def test_a_large_file_is_read_by_several_tasks():
    tasks = shares([("large", 5 * MIN_TASK_BYTES // 2)])
    assert [[(part.number, part.of) for part in task] for task in tasks] == [[(0, 3)], [(1, 3)], [(2, 3)]]


def test_a_task_of_a_large_trace_reads_more():
    assert task_bytes(1 << 20, 2) == task_bytes(8 * MIN_TASK_BYTES, 2) == MIN_TASK_BYTES
    assert task_bytes(32 * MIN_TASK_BYTES, 4) == 2 * MIN_TASK_BYTES
    assert task_bytes(1 << 50, 1000) == MAX_TASK_BYTES


def test_no_files_no_tasks():
    assert shares([]) == []


def _column(field, rows):
    return pa.array(["x" if pa.types.is_string(field.type) else 0] * rows)


def _written(path, rows, **given):
    columns = {field.name: _column(field, rows) for field in COMPACT} | {"weight": pa.array(range(rows))} | given
    pq.write_table(pa.table(columns).cast(COMPACT), path, row_group_size=10)


@pytest.mark.parametrize("limit", [5, 10, 25])  # fewer than a row group has, as many, more
def test_requests_that_last_as_long_as_the_shortest_wanted_are_there(tmp_path, limit):
    _written(tmp_path / "f.parquet", 70)  # all of them last equally long
    wanted = Wanted.of(["total_ns"], Where(order="-total_ns", limit=limit))
    parts = [wanted.found(compact_chunks(tmp_path / "f.parquet", wanted.read, RowFilter(), n, 2)) for n in (0, 1)]
    assert wanted.first(parts).num_rows == limit


@pytest.mark.parametrize("limit", [1, 5, 10, 11, 25, 69])
def test_the_longest_requests_are_found_wherever_they_stand(tmp_path, limit):
    """A row group that has fewer of them than are wanted says nothing of what the others must have."""
    ticks = [number * 37 % 70 for number in range(70)]  # each once
    _written(tmp_path / "f.parquet", len(ticks), total_ticks=pa.array(ticks))

    def longest(most):
        wanted = Wanted.of(["total_ns"], Where(order="-total_ns", limit=most))
        found = [wanted.found(compact_chunks(tmp_path / "f.parquet", wanted.read, RowFilter(), n, 2)) for n in (0, 1)]
        return wanted.first(found)["total_ns"].to_pylist()

    assert longest(limit) == longest(70)[:limit] and len(set(longest(70))) == 70
    assert longest(70) == sorted(longest(70), reverse=True)


@pytest.mark.parametrize("parts", [1, 2, 3, 7, 12])
def test_parts_of_a_file_have_each_row_group_once(tmp_path, parts):
    rows = 70
    _written(tmp_path / "f.parquet", rows)
    found = [
        int(weight)
        for part in range(parts)
        for chunk in compact_chunks(tmp_path / "f.parquet", {"weight"}, RowFilter(), part, parts)
        for weight in chunk.numbers("weight")
    ]
    assert found == list(range(rows))
