"""The hourly job's counting in Spark: tasks count segments, Spark adds up and writes the table's files itself.

Runs in a command's process as Spark's driver, which gets to see a row per segment and nothing else. Traces and table
lie where the workers and the driver reach them by the same paths.
"""

import json
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from mpbroker.analysis.engine.rollups import layout
from mpbroker.analysis.engine.rollups.job import Counted, Counter, Found, Left
from mpbroker.analysis.engine.rollups.store import RollupBatch, RollupStore
from mpbroker.analysis.engine.rollups.table import Batch
from mpbroker.analysis.spark import partial_sums
from mpbroker.analysis.spark.catalog_table import CatalogBatch
from mpbroker.analysis.spark.failures import collected, reported
from mpbroker.analysis.spark.segment_source import FORMAT, NOTE, MpbSegmentSource

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: What Spark is given at once; a batch that fails is done again as a whole.
BATCH_RECORDS = 2_000_000_000
_PARTITION = {
    "dt": "date_format(timestamp_millis(window_ms), 'yyyy-MM-dd')",
    "hour": "date_format(timestamp_millis(window_ms), 'HH')",
    "node": "broker",
}


class SparkCounter(Counter):
    """In the session given."""

    batch_records = BATCH_RECORDS

    def __init__(self, spark: "SparkSession") -> None:
        self._spark = spark
        spark.dataSource.register(MpbSegmentSource)

    def count(self, found: Sequence[Found], table: RollupStore, batch: RollupBatch) -> Counted:
        reader = self._spark.read.format(FORMAT).option("asks", partial_sums.to_text(list(table.datasets.values())))
        reader = reader.option("segments", json.dumps([(str(one.path), one.records) for one in found]))
        merged = partial_sums.merged(reader.load()).persist()
        if isinstance(batch, CatalogBatch):
            batch.hold(merged)  # until its commit writes what was counted
            return _told(_each(merged, table, batch.add))
        if not isinstance(batch, Batch):
            raise TypeError(f"Spark writes no {type(batch).__name__}")
        try:
            return _told(_each(merged, table, lambda name, rows: _write(rows, batch.url(name))))
        finally:
            merged.unpersist()


def _each(merged: "DataFrame", table: RollupStore, add: Callable[[str, "DataFrame"], None]) -> list[dict[str, Any]]:
    """The rows of each dataset to `add`; the notes."""
    notes = collected(merged.where(f"ask = {NOTE}").select("stage"))["stage"].to_pylist()
    for place, (name, ask) in enumerate(table.datasets.items()):
        add(name, merged.where(f"ask = {place}").select(*layout.schema_of(ask).names))
    return [json.loads(note) for note in notes]


def _write(rows: "DataFrame", url: str) -> None:
    """One file for each hour and broker, sorted."""
    columns = rows.columns
    placed = rows.selectExpr(*columns, *(f"{what} AS {part}" for part, what in _PARTITION.items()))
    spread = placed.repartition(*_PARTITION).sortWithinPartitions(*_PARTITION, *columns[: columns.index("n")])
    options = {"compression": "zstd", "mapreduce.fileoutputcommitter.marksuccessfuljobs": "false"}
    with reported():
        spread.write.partitionBy(*_PARTITION).options(**options).parquet(url)


def _told(notes: Sequence[dict[str, Any]]) -> Counted:
    rows = [note["row"] for note in notes if "row" in note]
    return rows, [Left(note["path"], note["reason"]) for note in notes if "reason" in note]
