"""Parts of tables (partial_sums.PARTIAL), and requests, of compacted files that Spark's workers open themselves.

What a task does runs in workers, the rest in the driver. Read by Spark, each request would go through the JVM, into
Arrow batches and through a socket before it is counted: most of what a rollup cost. So a task gets names of files, and
reads and counts them by the code of the local engine. Files of other file systems than the mounted ones go through
Spark (partial_sums.of_frame).
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from mpbroker.analysis.engine.engines.accumulate import AskSums, needed
from mpbroker.analysis.engine.engines.engine import Ask
from mpbroker.analysis.engine.engines.local_engine import Wanted, compact_chunks
from mpbroker.analysis.engine.input.column_set import ColumnSet
from mpbroker.analysis.engine.input.columns import FRAME
from mpbroker.analysis.engine.input.decode import RowFilter
from mpbroker.analysis.spark.arrow_types import struct_of
from mpbroker.analysis.spark.failures import collected
from mpbroker.analysis.spark.partial_sums import PARTIAL, parts_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: A task's files: of a large trace four tasks for each core, of a small one as much as is worth handing on.
MIN_TASK_BYTES, MAX_TASK_BYTES = 16 << 20, 128 << 20
TASKS_PER_CORE, MIN_CORES = 4, 2


_TICKS = pa.schema([pa.field("ticks", pa.int64(), nullable=False)])


class Part(NamedTuple):
    """The row groups of a file that one task reads: share `number` of `of`."""

    path: str
    number: int
    of: int


def of_files(
    spark: "SparkSession", files: Sequence[Path], asks: Sequence[Ask], rows: RowFilter = RowFilter()
) -> "DataFrame":
    """PARTIAL of these files' requests, in no order and not added up."""
    wanted = tuple(asks)

    def count(chunks: Iterable[ColumnSet]) -> pa.Table:
        sums = AskSums(wanted)
        for chunk in chunks:
            sums.add(chunk)
        return parts_of(sums)

    return _of_tasks(spark, files, needed(wanted), rows, count, PARTIAL)


def requests(spark: "SparkSession", files: Sequence[Path], wanted: Wanted, rows: RowFilter) -> "DataFrame":
    """Requests of these files, of each task no more than are wanted. Of the longest requests all tasks first tell how
    long: so each then knows which of its own are among those of all."""
    if wanted.longest_of is not None:
        wanted = wanted._replace(least=_least(spark, files, wanted, rows))
    schema = pa.schema([FRAME.field(name) for name in wanted.columns])
    return _of_tasks(spark, files, wanted.read, rows, wanted.found, schema)


def _least(spark: "SparkSession", files: Sequence[Path], wanted: Wanted, rows: RowFilter) -> int | None:
    """Ticks of the last one of the longest of all; None: there are no more than are wanted."""

    def longest(chunks: Iterable[ColumnSet]) -> pa.Table:
        return pa.table([wanted.longest(chunks)], schema=_TICKS)

    columns = Wanted.of([f"{wanted.longest_of}_ns"], wanted.where._replace(order=None)).read
    found = collected(_of_tasks(spark, files, columns, rows, longest, _TICKS))["ticks"].to_numpy()
    limit = wanted.where.limit or 0
    return int(np.partition(found, -limit)[-limit]) if len(found) >= limit else None


def _of_tasks(
    spark: "SparkSession",
    files: Sequence[Path],
    columns: set[str],
    rows: RowFilter,
    made: Callable[[Iterable[ColumnSet]], pa.Table],
    schema: pa.Schema,
) -> "DataFrame":
    sizes = [(str(path.absolute()), path.stat().st_size) for path in files]
    tasks = shares(sizes, task_bytes(sum(size for _, size in sizes), cores_of(spark)))

    def read(numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        parts = [part for batch in numbers for number in batch.column(0).to_pylist() for part in tasks[number]]
        chunks = (compact_chunks(part.path, columns, rows, part.number, part.of) for part in parts)
        yield from made(chain.from_iterable(chunks)).to_batches()

    return spark.range(0, len(tasks), 1, max(1, len(tasks))).mapInArrow(read, struct_of(schema))


def cores_of(spark: "SparkSession") -> int:
    """Of all executors together, as Spark knows them now; a Connect client is not told, and takes it for a few."""
    context = getattr(spark, "_sc", None)
    return MIN_CORES if context is None else max(MIN_CORES, context.defaultParallelism)


def task_bytes(whole: int, cores: int) -> int:
    """What a task should read of so many bytes."""
    return min(MAX_TASK_BYTES, max(MIN_TASK_BYTES, whole // (TASKS_PER_CORE * cores)))


def shares(files: Iterable[tuple[str, int]], most: int = MIN_TASK_BYTES) -> list[list[Part]]:
    """Files by path and size: small ones together, large ones in parts, until a task has enough to do."""
    tasks: list[list[Part]] = []
    room = 0
    for path, size in files:
        parts = max(1, -(-size // most))
        for number in range(parts):
            if room < size // parts or not tasks:
                tasks.append([])
                room = most
            tasks[-1].append(Part(path, number, parts))
            room -= size // parts
    return tasks
