"""A rollup table in Spark: files of other hours and brokers are not opened, the rest is added up where it lies.

Runs in a command's process as Spark's driver. Gives the same as engine/rollups/rollup_engine.py; percentiles are found
within Spark, so that of a long time and many brokers a row per window and group comes to the driver.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from mpbroker.analysis.engine.engines import quantiles
from mpbroker.analysis.engine.engines.engine import Ask
from mpbroker.analysis.engine.input.column_set import sorted_table
from mpbroker.analysis.engine.rollups import layout
from mpbroker.analysis.engine.rollups.rollup_engine import RollupEngine, dataset_of
from mpbroker.analysis.engine.rollups.rollup_input import RollupInput
from mpbroker.analysis.engine.rollups.table import RollupTable
from mpbroker.analysis.spark.arrow_types import struct_of
from mpbroker.analysis.spark.catalog_table import CatalogTable
from mpbroker.analysis.spark.failures import collected, reported
from mpbroker.analysis.spark.frames import in_list
from mpbroker.analysis.spark.partial_sums import MERGED, schema_of
from mpbroker.analysis.spark.percentiles import with_buckets
from mpbroker.analysis.spark.session import OpenSession

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType


class SparkRollupEngine(RollupEngine):
    """Uses the session given, and closes it."""

    name = "spark"

    def __init__(self, source: RollupInput, session: OpenSession) -> None:
        super().__init__(source)
        self._session = session
        self.spark = session.spark

    def tables(self, asks: Sequence[Ask]) -> list[pa.Table]:
        return [_typed(collected(self._frame(ask)), ask) for ask in asks]

    def percentiles(self, asks: Sequence[Ask]) -> list[pa.Table]:
        found = []
        for ask in asks:
            keys = ("window_ms", *ask.by, "stage")
            rows = sorted_table(collected(with_buckets(self._frame(ask), keys)), keys)
            found.append(quantiles.typed(quantiles.of_buckets(rows), ask.by))
        return found

    def close(self) -> None:
        """Stop the session if this engine's maker started it."""
        self._session.close()

    def _frame(self, ask: Ask) -> "DataFrame":
        from pyspark.sql.functions import expr

        table, rows = self.input.table, self.input.rows
        dataset = dataset_of(table, ask, rows)
        kept = layout.schema_of(table.datasets[dataset])
        if isinstance(table, CatalogTable):
            frame = table.frame(dataset, rows)
        elif isinstance(table, RollupTable):
            frame = self._of_files(table, dataset, struct_of(kept))
        else:
            raise TypeError(f"Spark reads no {type(table).__name__}")
        if rows.apis:
            frame = frame.where(in_list("api", rows.apis))
        window = f"window_ms div {ask.window_ms} * {ask.window_ms}" if ask.window_ms else "0L"
        cell = ("stage", "bucket") if ask.kind == "rollup" else ()
        values = [f"{MERGED[name]}({name}) AS {name}" for name in kept.names if name in MERGED]
        grouped = frame.withColumn("window_ms", expr(window)).groupBy("window_ms", *ask.by, *cell)
        return grouped.agg(*map(expr, values))

    def _of_files(self, table: RollupTable, dataset: str, schema: "StructType") -> "DataFrame":
        urls = [table.files.url(path) for path in table.paths(dataset, self.input.rows)]
        if not urls:
            return self.spark.createDataFrame([], schema)
        with reported():
            return self.spark.read.schema(schema).option("recursiveFileLookup", "true").parquet(*urls)


def _typed(rows: pa.Table, ask: Ask) -> pa.Table:
    schema, keys = schema_of(ask)
    return sorted_table(rows.select(schema.names).cast(schema), keys)
