"""Tables of an engine in parts: what one Spark task has counted, as rows that Spark adds up.

Runs in workers and the driver. Workers count with the code of the local engine, so the integers are the same; Spark
moves and adds a few rows of each task, not the requests. A row has all columns that a group may have; what its table is
not grouped by is null.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mpbroker.analysis.engine.engines import quantiles
from mpbroker.analysis.engine.engines.accumulate import ACTIVITY_COLUMNS, AskSums
from mpbroker.analysis.engine.engines.engine import GROUPS, Ask, check_groups
from mpbroker.analysis.engine.input.column_set import CompactColumns, sorted_table
from mpbroker.analysis.engine.input.columns import FRAME
from mpbroker.analysis.spark.arrow_types import struct_of
from mpbroker.analysis.spark.failures import collected
from mpbroker.analysis.spark.percentiles import with_buckets

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

KEYS = ("ask", "window_ms", *GROUPS, "stage", "bucket")
#: Values: how parts of them become one.
MERGED = {"n": "sum", "sum_ns": "sum", "max_ns": "max"}
MERGED |= dict.fromkeys(ACTIVITY_COLUMNS, "sum") | {"first_epoch_ns": "min", "last_epoch_ns": "max"}
PARTIAL = pa.schema(
    [
        pa.field("ask", pa.int32(), nullable=False),
        pa.field("window_ms", pa.int64(), nullable=False),
        *(pa.field(name, FRAME.field(name).type) for name in GROUPS),
        pa.field("stage", pa.string()),
        pa.field("bucket", pa.int32()),
        *(pa.field(name, pa.int64()) for name in MERGED),
    ]
)
CHUNK_RECORDS = 65536
_ROLLUP_VALUES = ("n", "sum_ns", "max_ns")


def parts_of(sums: AskSums) -> pa.Table:
    """What has been counted, as rows of PARTIAL."""
    tables = [PARTIAL.empty_table()]
    for place, table in enumerate(sums.tables()):
        whole = table.append_column("ask", pa.array(np.full(table.num_rows, place, np.int32)))
        columns = [
            whole.column(field.name) if field.name in whole.column_names else pa.nulls(whole.num_rows, field.type)
            for field in PARTIAL
        ]
        tables.append(pa.table(columns, schema=PARTIAL))
    return pa.concat_tables(tables).combine_chunks()


def of_frame(compact: "DataFrame", asks: Sequence[Ask]) -> "DataFrame":
    """PARTIAL of compacted requests, in no order and not added up."""
    wanted = tuple(asks)

    def count(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        sums = AskSums(wanted)
        for chunk in _chunks(batches):
            sums.add(chunk)
        yield from parts_of(sums).to_batches()

    return compact.mapInArrow(count, struct_of(PARTIAL))


def _chunks(batches: Iterable[pa.RecordBatch]) -> Iterator[CompactColumns]:
    """Spark's batches are of 10,000 rows; counting costs less in larger ones."""
    waiting: list[pa.RecordBatch] = []
    for batch in batches:
        waiting.append(batch)
        if sum(one.num_rows for one in waiting) >= CHUNK_RECORDS:
            yield CompactColumns(pa.Table.from_batches(waiting))
            waiting = []
    if waiting:
        yield CompactColumns(pa.Table.from_batches(waiting))


def merged(parts: "DataFrame") -> "DataFrame":
    """Rows of the same key added up, within Spark."""
    from pyspark.sql.functions import expr

    return parts.groupBy(*KEYS).agg(*(expr(f"{how}({name}) AS {name}") for name, how in MERGED.items()))


def tables_of(rows: pa.Table, asks: Sequence[Ask]) -> list[pa.Table]:
    """The tables asked for, from all merged rows."""
    return [_table_of(rows.filter(pc.equal(rows["ask"], place)), ask) for place, ask in enumerate(asks)]


def _table_of(rows: pa.Table, ask: Ask) -> pa.Table:
    schema, keys = schema_of(ask)
    return sorted_table(rows.select(schema.names).cast(schema), keys)


def schema_of(ask: Ask) -> tuple[pa.Schema, tuple[str, ...]]:
    """Of a table asked for, and the columns it is sorted by."""
    cell, values = (("stage", "bucket"), _ROLLUP_VALUES) if ask.kind == "rollup" else ((), ACTIVITY_COLUMNS)
    keys = ("window_ms", *ask.by, *cell)
    return pa.schema([pa.field(name, PARTIAL.field(name).type) for name in (*keys, *values)]), keys


def percentiles_of(parts: "DataFrame", asks: Sequence[Ask]) -> list[pa.Table]:
    """As Engine.percentiles gives them; found within Spark."""
    keys = [name for name in KEYS if name != "bucket"]
    rows = quantiles.of_buckets(collected(with_buckets(merged(parts), keys)))
    return [
        sorted_table(
            quantiles.typed(rows.filter(pc.equal(rows["ask"], place)), ask.by), ("window_ms", *ask.by, "stage")
        )
        for place, ask in enumerate(asks)
    ]


def to_text(asks: Sequence[Ask]) -> str:
    """As an option of a data source has them."""
    return json.dumps(asks)


def from_text(text: str) -> tuple[Ask, ...]:
    """What to_text made. ValueError, EngineError."""
    return tuple(Ask(kind, int(window_ms), check_groups(by)) for kind, window_ms, by in json.loads(text))
