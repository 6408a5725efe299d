"""The engine for traces beyond one machine: Spark SQL that gives the same integers as the local engine.

Runs in a command's process as Spark's driver. A rollup is one pass: a row per request and stage, grouped by window,
`by` and one number for stage and bucket (narrow keys cost less). All arithmetic is in whole ticks; only a bucket comes
from a logarithm of doubles. Java's strict logarithm is the same on every machine, and for whole ticks its buckets are
exact at every boundary up to 2**40 ns (tests/integration/test_spark_engine.py); log2 would take two logarithms for it.
"""

from collections.abc import Iterable, Sequence
from math import log
from typing import TYPE_CHECKING

import pyarrow as pa

from mpbroker.analysis.engine.engines.engine import Engine, EngineError, Where, check_groups
from mpbroker.analysis.engine.input.column_set import needed_compact, sorted_table, stored_of
from mpbroker.analysis.engine.input.columns import FRAME
from mpbroker.analysis.engine.input.durations import BACKWARDS, HANDLER_TIME, ROLLUP_STAGES
from mpbroker.analysis.spark import frames
from mpbroker.analysis.spark.session import SparkError, open_session
from mpbroker.trace.record import HAS_SATURATED, TICK_NS
from mpbroker.trace.statistics import BUCKETS_PER_OCTAVE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from mpbroker.analysis.engine.input.trace_input import TraceInput

#: Up to so many requests the JVM's start costs more than its work: the profile that starts cheaply.
SMALL_RECORDS = 1_000_000
#: A stage and a bucket in one number.
CELLS = 2048
#: floor(log2(ns + 1) * 32) of `ticks`.
BUCKET = f"CAST(ln(ticks * {TICK_NS} + 1) * {BUCKETS_PER_OCTAVE / log(2)!r}D AS INT)"
TIES = ("epoch_ns", "run", "broker", "ring", "seq")

_ACTIVITY = {
    "n": "weight",
    "errors": "CAST(error <> 0 AS BIGINT) * weight",
    "req_bytes": "req_bytes * weight",
    "resp_bytes": "resp_bytes * weight",
    "throttled": "CAST(throttle_ms > 0 AS BIGINT) * weight",
    "aux_sum": "aux * weight",
    "handler_ns": f"greatest({frames.sum_of(HANDLER_TIME)}, 0L) * {TICK_NS} * weight",
    "saturated": f"CAST((flags & {HAS_SATURATED}) <> 0 AS BIGINT) * weight",
    "backwards": f"CAST((flags & {BACKWARDS}) <> 0 AS BIGINT) * weight",
}
_ACTIVITY_COLUMNS = {
    "ts",
    "ts_ns",
    "weight",
    "error",
    "req_bytes",
    "resp_bytes",
    "throttle_ms",
    "aux",
    "flags",
    *(f"{name}_ticks" for name in (*HANDLER_TIME.parts, *HANDLER_TIME.optional)),
}


class SparkEngine(Engine):
    """Uses the session there is in this process, or starts one and stops it in `close`."""

    name = "spark"

    def __init__(self, source: "TraceInput", *, master: str | None = None, remote: str | None = None) -> None:
        super().__init__(source)
        small = source.loss.records <= SMALL_RECORDS and master is None
        self._session = open_session("test" if small else None, master=master, remote=remote)
        self.spark = self._session.spark

    def rollup(self, window_ms: int, by: Sequence[str] = ()) -> pa.Table:
        groups = check_groups(by)
        kinds = {
            "window_ms": pa.int64(),
            **_kinds_of(groups),
            "stage": pa.string(),
            "bucket": pa.int32(),
            "n": pa.int64(),
            "sum_ns": pa.int64(),
            "max_ns": pa.int64(),
        }
        stored = set().union(*map(stored_of, ROLLUP_STAGES))
        compact = self._compact({"ts", "weight", *stored, *groups})
        return _finished(rollup_frame(compact, window_ms, groups), kinds, ("window_ms", *groups, "stage", "bucket"))

    def activity(self, window_ms: int, by: Sequence[str] = ()) -> pa.Table:
        groups = check_groups(by)
        sums = [f"sum({expression}) AS {name}" for name, expression in _ACTIVITY.items()]
        ends = [f"min({frames.EPOCH_NS}) AS first_epoch_ns", f"max({frames.EPOCH_NS}) AS last_epoch_ns"]
        compact = self._compact({*_ACTIVITY_COLUMNS, *groups})
        frame = _grouped(
            compact.selectExpr(f"{window_of(window_ms)} AS window_ms", "*"), ("window_ms", *groups), [*sums, *ends]
        )
        kinds = {
            "window_ms": pa.int64(),
            **_kinds_of(groups),
            **dict.fromkeys(frame.columns[1 + len(groups) :], pa.int64()),
        }
        return _finished(frame, kinds, ("window_ms", *groups))

    def requests(self, columns: Sequence[str] | None = None, where: Where = Where()) -> pa.Table:
        names = list(FRAME.names if columns is None else columns)
        order = _order_of(names, where)
        wanted = list(dict.fromkeys([*names, *order]))
        compact = self._compact({*needed_compact([*wanted, "epoch_ns"]), "api", "plane", "total_ticks"})
        for condition in _conditions(where):
            compact = compact.where(condition)
        frame = frames.frame_of(compact, wanted)
        if order:
            falling = where.order is not None and where.order.startswith("-")
            keys = [
                frame[name].desc_nulls_last() if falling and place == 0 else frame[name].asc_nulls_last()
                for place, name in enumerate(order)
            ]
            frame = frame.orderBy(*keys)
        if where.limit is not None:
            frame = frame.limit(where.limit)
        return _typed(_collected(frame.select(*names)), pa.schema([FRAME.field(name) for name in names]))

    def close(self) -> None:
        """Stop the session if this engine started it."""
        self._session.close()

    def _compact(self, columns: Iterable[str]) -> "DataFrame":
        names, source = sorted(columns), self.input
        if source.parquet:
            return frames.files_columns(self.spark, source.parquet_files, names, source.rows)
        return frames.compact_columns(self.spark, source.places, names, source.rows)


def rollup_frame(compact: "DataFrame", window_ms: int, by: Sequence[str]) -> "DataFrame":
    """window_ms, *by, stage, bucket, n, sum_ns, max_ns in no order, from frames.compact_columns."""
    wide = compact.selectExpr(
        f"{window_of(window_ms)} AS window_ms",
        *by,
        "weight",
        *(f"{frames.ticks_of(name)} AS ticks_{place}" for place, name in enumerate(ROLLUP_STAGES)),
    )
    durations = ", ".join(f"{place}, ticks_{place}" for place in range(len(ROLLUP_STAGES)))
    single = wide.selectExpr("window_ms", *by, "weight", f"stack({len(ROLLUP_STAGES)}, {durations}) AS (place, ticks)")
    single = single.where("ticks >= 0").selectExpr(
        "window_ms", *by, "weight", "ticks", f"place * {CELLS} + {BUCKET} AS cell"
    )
    sums = ["sum(weight) AS n", f"sum(ticks * weight) * {TICK_NS} AS sum_ns", f"max(ticks) * {TICK_NS} AS max_ns"]
    names = ", ".join(f"'{name}'" for name in ROLLUP_STAGES)
    stage = f"element_at(array({names}), CAST(cell div {CELLS} AS INT) + 1) AS stage"
    return _grouped(single, ("window_ms", *by, "cell"), sums).selectExpr(
        "window_ms", *by, stage, f"CAST(cell % {CELLS} AS INT) AS bucket", "n", "sum_ns", "max_ns"
    )


def window_of(window_ms: int) -> str:
    """The start of a request's window as SQL: milliseconds since 1970."""
    return f"unix_micros(ts) div {window_ms * 1000} * {window_ms}" if window_ms else "0L"


def _grouped(frame: "DataFrame", keys: Sequence[str], sums: Sequence[str]) -> "DataFrame":
    from pyspark.sql.functions import expr

    return frame.groupBy(*keys).agg(*map(expr, sums))


def _kinds_of(by: Sequence[str]) -> dict[str, pa.DataType]:
    return {name: FRAME.field(name).type for name in by}


def _finished(frame: "DataFrame", kinds: dict[str, pa.DataType], keys: Sequence[str]) -> pa.Table:
    return sorted_table(_typed(_collected(frame), pa.schema(list(kinds.items()))), keys)


def _collected(frame: "DataFrame") -> pa.Table:
    """A frame's rows; SparkError with the two lines that matter of what Spark says when it fails."""
    from pyspark.errors import PySparkException

    try:
        return frame.toArrow()
    except PySparkException as error:
        lines = [
            line.strip() for line in str(error).splitlines() if line.strip() and "SQLSTATE" not in line.split(":")[0]
        ]
        what = (
            dict.fromkeys([lines[0].removesuffix(" Traceback (most recent call last):"), lines[-1]])
            if lines
            else ["unknown"]
        )
        raise SparkError(f"Spark failed: {'; '.join(what)}") from error


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
