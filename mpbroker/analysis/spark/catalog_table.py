"""A rollup table in a catalog of Spark (Iceberg). Runs in a command's process as Spark's driver; one table for all
datasets, so that a batch, its list of segments with it, is one commit: Iceberg has none over several tables.

    dataset, dt, hour, node     partitions: as the folders of layout.py; after them the columns of every dataset
    dataset = 'commits'         one row, of the newest batch

A batch overwrites the row of `commits` on condition that nobody has written there since the snapshot that its job has
planned by. So of two jobs at once the second commit fails; a killed job leaves at most files that no snapshot names.
"""

import secrets
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime
from functools import reduce
from typing import TYPE_CHECKING

import pyarrow as pa

from mpbroker.analysis.engine.input.decode import RowFilter
from mpbroker.analysis.engine.rollups import layout
from mpbroker.analysis.engine.rollups.layout import HOUR_NS, Partition, RollupError
from mpbroker.analysis.engine.rollups.store import RollupBatch, RollupStore
from mpbroker.analysis.spark.catalog import name_of
from mpbroker.analysis.spark.failures import collected, reported
from mpbroker.analysis.spark.session import SparkError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COMMITS = "commits"
FORMAT, WINDOW, TOKEN = "mpbroker.format", "mpbroker.window-ms", "mpbroker.batch"
SNAPSHOT, EMPTY = "current-snapshot-id", "none"
PARTITIONS = {"dataset": "STRING", "dt": "DATE", "hour": "INT", "node": "INT"}
_TYPES = {pa.string(): "STRING", pa.int16(): "INT", pa.int32(): "INT", pa.int64(): "BIGINT"}


def table_columns() -> dict[str, str]:
    """Name → type, of all datasets together."""
    schemas = [layout.schema_of(ask) for ask in layout.datasets(layout.WINDOW_MS).values()]
    fields = [field for schema in (*schemas, layout.SEGMENT_ROW) for field in schema]
    return PARTITIONS | {field.name: _TYPES[field.type] for field in fields}


def conditions(dataset: str, rows: RowFilter, prefix: str = "") -> list[str]:
    """The partitions that may hold such rows: no file of others is opened."""
    found = [f"{prefix}dataset = '{dataset}'"]
    if rows.brokers is not None:
        found.append(f"{prefix}node IN ({', '.join(map(str, rows.brokers)) or 'NULL'})")
    if rows.from_ns is not None:
        found.append(_hours(prefix, ">", ">=", rows.from_ns // HOUR_NS))
    if rows.to_ns is not None:
        found.append(_hours(prefix, "<", "<", -(-rows.to_ns // HOUR_NS)))
    return found


def _hours(prefix: str, other_day: str, same_day: str, hour: int) -> str:
    moment = datetime.fromtimestamp(hour * 3600, UTC)
    day = f"DATE'{moment:%Y-%m-%d}'"
    return f"({prefix}dt {other_day} {day} OR ({prefix}dt = {day} AND {prefix}hour {same_day} {moment.hour}))"


class CatalogTable(RollupStore):
    """As of the snapshot that `recover`, or this job's last commit, has seen."""

    def __init__(self, spark: "SparkSession", place: str, window_ms: int, snapshot: str) -> None:
        super().__init__(window_ms)
        self.spark = spark
        self.root = place
        self.name = _quoted(name_of(place))
        self.snapshot = snapshot

    def lock(self) -> AbstractContextManager[None]:
        return nullcontext()

    def recover(self) -> None:
        """Nothing is ever left half done."""
        self.snapshot = _properties(self.spark, self.name)[SNAPSHOT]

    def begin(self) -> "CatalogBatch":
        return CatalogBatch(self)

    def counted(self, partitions: Iterable[Partition]) -> set[tuple[str, str]]:
        wanted = set(partitions)
        if not wanted:
            return set()
        hours = [one.hour for one in wanted]
        nodes = tuple(sorted({one.node for one in wanted}))
        rows = RowFilter(min(hours) * HOUR_NS, (max(hours) + 1) * HOUR_NS, None, nodes)
        found = self.read(layout.SEGMENTS, rows, ("run", "file", "begun_ns", "broker")).to_pylist()
        return {
            (row["run"], row["file"]) for row in found if Partition(row["begun_ns"] // HOUR_NS, row["broker"]) in wanted
        }

    def parts(self, dataset: str, rows: RowFilter, columns: Sequence[str] | None = None) -> Iterator[pa.Table]:
        schema = self._schema(dataset, columns)
        yield collected(self.frame(dataset, rows).select(*schema.names)).cast(schema)

    def file_count(self, dataset: str, rows: RowFilter) -> int:
        with reported():
            files = self._as_of(f"{self.name}.files").where(" AND ".join(conditions(dataset, rows, "partition.")))
            return files.count()

    def frame(self, dataset: str, rows: RowFilter) -> "DataFrame":
        """The rows of `parts`, in Spark."""
        with reported():
            return self._as_of(self.name).where(" AND ".join(conditions(dataset, rows)))

    def _as_of(self, name: str) -> "DataFrame":
        if self.snapshot == EMPTY:
            return self.spark.read.table(name).limit(0)
        return self.spark.read.option("versionAsOf", self.snapshot).table(name)


class CatalogBatch(RollupBatch):
    """Rows that Spark has yet to write."""

    def __init__(self, table: CatalogTable) -> None:
        self._table = table
        self._frames: list[DataFrame] = []
        self._held: list[DataFrame] = []
        self.token = secrets.token_hex(8)

    def write(self, dataset: str, rows: pa.Table) -> None:
        self.add(dataset, self._table.spark.createDataFrame(rows))

    def add(self, dataset: str, rows: "DataFrame") -> None:
        """Rows of a dataset, in Spark."""
        at = "begun_ns div 1000000" if dataset == layout.SEGMENTS else "window_ms"
        begun = f"timestamp_millis({at})"
        self._add(rows, {"dataset": f"'{dataset}'", "dt": f"date({begun})", "hour": f"hour({begun})", "node": "broker"})

    def hold(self, rows: "DataFrame") -> None:
        """What Spark keeps in memory for this batch: given back when it is done."""
        self._held.append(rows)

    def commit(self, segments: int, requests: int) -> None:
        table = self._table
        values = {"dataset": f"'{COMMITS}'", "file": f"'{self.token}'", "n": str(segments), "records": str(requests)}
        self._add(table.spark.range(1), values)
        options = {"isolation-level": "serializable", f"snapshot-property.{TOKEN}": self.token}
        if table.snapshot != EMPTY:
            options["validate-from-snapshot-id"] = table.snapshot
        try:
            self._write(options)
        except SparkError as error:
            if "ValidationException" in str(error):
                raise RollupError(f"another trace rollup has added to {table.root}: run it again") from error
            raise
        self.drop()
        table.snapshot = _snapshot_of(table.spark, table.name, self.token)

    def drop(self) -> None:
        for rows in self._held:
            rows.unpersist()

    def _add(self, rows: "DataFrame", values: dict[str, str]) -> None:
        own = set(rows.columns)
        self._frames.append(
            rows.selectExpr(
                *(
                    f"CAST({values.get(name, name if name in own else 'NULL')} AS {kind}) AS {name}"
                    for name, kind in table_columns().items()
                )
            )
        )

    def _write(self, options: dict[str, str]) -> None:
        from pyspark.sql.functions import expr

        with reported():
            rows = reduce(lambda one, other: one.unionAll(other), self._frames)
            rows.writeTo(self._table.name).options(**options).overwrite(expr(f"dataset = '{COMMITS}'"))


def open_table(spark: "SparkSession", place: str) -> CatalogTable:
    """A table that is there; RollupError."""
    name = _quoted(name_of(place))
    with reported():
        if not spark.catalog.tableExists(name):
            raise RollupError(f"{place} does not exist")
    about = _properties(spark, name)
    if FORMAT not in about or WINDOW not in about or SNAPSHOT not in about:
        raise RollupError(f"{place} is no rollup table: it has no {FORMAT}")
    if about[FORMAT] != str(layout.FORMAT):
        raise RollupError(f"{place}: format {about[FORMAT]}; this program reads {layout.FORMAT}")
    return CatalogTable(spark, place, layout.check_window(int(about[WINDOW])), about[SNAPSHOT])


def open_or_create(spark: "SparkSession", place: str, window_ms: int | None = None) -> CatalogTable:
    """A table, made if there is none of that name. RollupError when it has other windows than those asked for."""
    wanted = layout.check_window(layout.WINDOW_MS if window_ms is None else window_ms)
    parts = name_of(place)
    with reported():
        if not spark.catalog.tableExists(_quoted(parts)):
            spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {_quoted(parts[:-1])}")
            spark.sql(
                f"CREATE TABLE IF NOT EXISTS {_quoted(parts)} "
                f"({', '.join(f'{name} {kind}' for name, kind in table_columns().items())}) USING iceberg "
                f"PARTITIONED BY ({', '.join(PARTITIONS)}) "
                f"TBLPROPERTIES ('{FORMAT}' = '{layout.FORMAT}', '{WINDOW}' = '{wanted}')"
            )
    found = open_table(spark, place)
    if window_ms is not None and found.window_ms != window_ms:
        raise RollupError(f"{place} has windows of {found.window_ms} ms; a table has one kind")
    return found


def _quoted(parts: Sequence[str]) -> str:
    return ".".join(f"`{part}`" for part in parts)


def _properties(spark: "SparkSession", name: str) -> dict[str, str]:
    """As they are now."""
    with reported():
        spark.sql(f"REFRESH TABLE {name}")
        return {row["key"]: row["value"] for row in spark.sql(f"SHOW TBLPROPERTIES {name}").collect()}


def _snapshot_of(spark: "SparkSession", name: str, token: str) -> str:
    """That of a batch: another job's may have come since."""
    with reported():
        spark.sql(f"REFRESH TABLE {name}")
        rows = spark.table(f"{name}.snapshots").where(f"summary['{TOKEN}'] = '{token}'").select("snapshot_id").collect()
    return str(rows[0]["snapshot_id"])
