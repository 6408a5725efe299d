"""The engine for traces beyond one machine: Spark reads, spreads and adds up; the same integers as the local engine.

Runs in a command's process as Spark's driver. Tables asked for together take one scan: each task reads its files and
counts their requests with the code of the local engine (compact_parts.py, source.py), which costs less than Spark's own
expressions for a row per request and stage; Spark adds up what the tasks found.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from mpbroker.analysis.engine.engines.accumulate import needed
from mpbroker.analysis.engine.engines.cluster import UNNAMED, Cluster
from mpbroker.analysis.engine.engines.engine import Ask, Engine, EngineError, Where
from mpbroker.analysis.engine.engines.local_engine import Wanted
from mpbroker.analysis.engine.input.column_set import needed_compact
from mpbroker.analysis.engine.input.columns import COMPACT, FRAME
from mpbroker.analysis.spark import compact_parts, frames, partial_sums
from mpbroker.analysis.spark.failures import collected
from mpbroker.analysis.spark.session import OpenSession, Profile, open_session
from mpbroker.trace.record import TICK_NS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from mpbroker.analysis.engine.input.trace_input import TraceInput

#: Up to so many requests the JVM's start costs more than its work: the profile that starts cheaply.
SMALL_RECORDS = 1_000_000
TIES = ("epoch_ns", "run", "broker", "ring", "seq")


class SparkEngine(Engine):
    """Uses the session there is in this process, or starts one and stops it in `close`."""

    name = "spark"

    def __init__(
        self,
        source: "TraceInput",
        cluster: Cluster = UNNAMED,
        session: OpenSession | None = None,
    ) -> None:
        super().__init__(source)
        small = source.loss.records <= SMALL_RECORDS
        profile: Profile | None = None if cluster.master else "test" if small else "light"
        self._session = session or open_session(profile, **cluster._asdict())
        self.spark = self._session.spark

    def tables(self, asks: Sequence[Ask]) -> list[pa.Table]:
        return partial_sums.tables_of(collected(partial_sums.merged(self.parts(asks))), asks)

    def percentiles(self, asks: Sequence[Ask]) -> list[pa.Table]:
        return partial_sums.percentiles_of(self.parts(asks), asks)

    def parts(self, asks: Sequence[Ask]) -> "DataFrame":
        """What these tables are made of: rows of partial_sums.PARTIAL, not added up."""
        source, names = self.input, [name for name in COMPACT.names if name in needed(asks)]
        if not source.parquet:
            return frames.raw_parts(self.spark, source.places, asks, source.rows)
        if self._mounted:
            return compact_parts.of_files(self.spark, self._mounted, asks, source.rows)
        return partial_sums.of_frame(frames.files_columns(self.spark, source.parquet_files, names, source.rows), asks)

    def requests(self, columns: Sequence[str] | None = None, where: Where = Where()) -> pa.Table:
        names = list(FRAME.names if columns is None else columns)
        order = _order_of(names, where)
        frame = self._frame(list(dict.fromkeys([*names, *order])), where)
        if order:
            falling = where.order is not None and where.order.startswith("-")
            keys = [
                frame[name].desc_nulls_last() if falling and place == 0 else frame[name].asc_nulls_last()
                for place, name in enumerate(order)
            ]
            frame = frame.orderBy(*keys)
        if where.limit is not None:
            frame = frame.limit(where.limit)
        return _typed(collected(frame.select(*names)), pa.schema([FRAME.field(name) for name in names]))

    def _frame(self, wanted: list[str], where: Where) -> "DataFrame":
        """Requests as `where` has them, in no order; beyond its limit those that single tasks have found."""
        if self._mounted:
            return compact_parts.requests(self.spark, self._mounted, Wanted.of(wanted, where), self.input.rows)
        compact = self._compact({*needed_compact([*wanted, "epoch_ns"]), "api", "plane", "total_ticks"})
        for condition in _conditions(where):
            compact = compact.where(condition)
        return frames.frame_of(compact, wanted)

    def close(self) -> None:
        """Stop the session if this engine started it."""
        self._session.close()

    @property
    def _mounted(self) -> list[Path]:
        """The files, where tasks can open them: none is of a file system that Spark alone reads."""
        paths = [path for path in self.input.parquet_files if isinstance(path, Path)]
        return paths if len(paths) == len(self.input.parquet_files) else []

    def _compact(self, columns: Iterable[str]) -> "DataFrame":
        names, source = sorted(columns), self.input
        if source.parquet:
            return frames.files_columns(self.spark, source.parquet_files, names, source.rows)
        return frames.compact_columns(self.spark, source.places, names, source.rows)


def _typed(table: pa.Table, schema: pa.Schema) -> pa.Table:
    return table.select(schema.names).cast(schema)


def _conditions(where: Where) -> list[str]:
    found = frames.time_conditions(where.from_ns, where.to_ns)
    found += [frames.in_list("api", where.apis)] if where.apis is not None else []
    found += [frames.in_list("plane", where.planes)] if where.planes is not None else []
    if where.min_total_ns is not None:
        found.append(f"total_ticks >= 0 AND total_ticks * {TICK_NS}L >= {where.min_total_ns}")
    return found


def _order_of(names: Sequence[str], where: Where) -> list[str]:
    """Sort keys, ties after the column asked for; empty: no order."""
    order = where.order.removeprefix("-") if where.order is not None else None
    unknown = {*names, *([order] if order else [])} - set(FRAME.names)
    if unknown:
        raise EngineError(f"requests have no column {', '.join(sorted(unknown))}; there are: {', '.join(FRAME.names)}")
    return [order, *(tie for tie in TIES if tie != order)] if order else []
