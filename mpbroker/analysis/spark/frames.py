"""Requests as Spark data frames, whether the trace is raw or compacted: named, typed columns, the same in either case.

    from mpbroker.analysis.spark import frames
    slow = frames.requests(spark, "D/traces", columns=["ts", "api", "client", "total_ns"]).where("total_ns > 1e9")

Every frame is first made of the columns of a compacted file (mpbroker.analysis.engine.input.columns.COMPACT); what a
frame shows is derived from them by one set of SQL expressions. So both kinds of trace, and both engines, agree to the
last bit. Runs in the driver; works with Spark Connect, where the paths are the server's, too.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import WeakSet

from mpbroker.analysis.engine.engines.engine import Ask, EngineError
from mpbroker.analysis.engine.input import compact_header
from mpbroker.analysis.engine.input.column_set import needed_compact
from mpbroker.analysis.engine.input.columns import COMPACT, FRAME
from mpbroker.analysis.engine.input.decode import RowFilter
from mpbroker.analysis.engine.input.durations import ASKED_KINDS, ASKED_WAIT, FRAME_DURATIONS, SUMS, Sum
from mpbroker.analysis.spark.arrow_types import narrow, struct_of
from mpbroker.analysis.spark.partial_sums import PARTIAL, to_text
from mpbroker.analysis.spark.source import FORMAT, MpbTraceSource
from mpbroker.trace.record import TICK_NS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameReader, SparkSession

_registered: WeakSet["SparkSession"] = WeakSet()  # Spark warns of a source that is registered again
#: Nanoseconds since 1970, exactly: a Spark timestamp has microseconds.
EPOCH_NS = "(unix_micros(ts) * 1000 + ts_ns)"


def requests(
    spark: "SparkSession",
    path: str | Path | Sequence[str | Path],
    columns: Sequence[str] | None = None,
    rows: RowFilter = RowFilter(),
) -> "DataFrame":
    """Requests of a trace with columns of mpbroker.analysis.engine.input.columns.FRAME (None: all).

    `path`: folders or files of one kind, raw or compacted. A path with a scheme (s3a://…) names a folder of compacted
    files.
    """
    names = list(FRAME.names if columns is None else columns)
    if unknown := set(names) - set(FRAME.names):
        raise EngineError(f"requests have no column {', '.join(sorted(unknown))}; there are: {', '.join(FRAME.names)}")
    paths = [path] if isinstance(path, str | Path) else list(path)
    return frame_of(compact_columns(spark, paths, needed_compact(names), rows), names)


def frame_of(compact: "DataFrame", names: Iterable[str]) -> "DataFrame":
    """Columns of FRAME from those of COMPACT that they need."""
    return compact.selectExpr(*(f"{expression(name)} AS {name}" for name in names))


def expression(name: str) -> str:
    """A column of FRAME as SQL over the columns of COMPACT."""
    if name == "epoch_ns":
        return EPOCH_NS
    if name == "t0_ns":
        return f"{EPOCH_NS} - clock_offset_ns"
    duration = name.removesuffix("_ns")
    if name.endswith("_ns") and duration in (*FRAME_DURATIONS, "handler_cpu"):
        ticks = ticks_of(duration)
        return f"CASE WHEN {ticks} >= 0 THEN {ticks} * {TICK_NS}L END"
    return name


def ticks_of(duration: str) -> str:
    """A duration's ticks (bigint) as SQL over the columns of COMPACT; -1 when it is missing."""
    if duration in SUMS:
        return sum_of(SUMS[duration])
    if duration == ASKED_WAIT:
        kinds = ", ".join(f"'{kind}'" for kind in ASKED_KINDS)
        return f"CASE WHEN purg_kind IN ({kinds}) THEN CAST(purgatory_ticks AS BIGINT) ELSE -1L END"
    return f"CAST({duration}_ticks AS BIGINT)"


def sum_of(wanted: Sum) -> str:
    """A sum of durations in ticks as SQL, as ColumnSet.sum_of has it."""
    there = " AND ".join(f"{part}_ticks >= 0" for part in (*wanted.parts, *wanted.less))
    plus = " + ".join(
        [
            *(f"CAST({part}_ticks AS BIGINT)" for part in wanted.parts),
            *(f"greatest({ticks_of(part)}, 0L)" for part in wanted.optional),
        ]
    )
    minus = "".join(
        [
            *(f" - {part}_ticks" for part in wanted.less),
            *(f" - greatest({ticks_of(part)}, 0L)" for part in wanted.less_optional),
        ]
    )
    return f"CASE WHEN {there} THEN greatest({plus}{minus}, 0L) ELSE -1L END"


def compact_columns(
    spark: "SparkSession", paths: Sequence[str | Path], columns: Sequence[str], rows: RowFilter = RowFilter()
) -> "DataFrame":
    """Columns of COMPACT of the requests that the filter lets through."""
    remote = [str(path) for path in paths if "://" in str(path)]
    if remote:
        return _limited(_remote_files(spark, remote, _with_limits(columns, rows)), columns, rows)
    found = compact_header.find([Path(path) for path in paths])
    if not found:
        return _raw(spark, paths, columns, rows)
    heads = [(root, files, compact_header.read(root)) for root, files in found]
    return files_columns(
        spark,
        [file for root, files, head in heads for file in files if compact_header.may_hold(file, root, head, rows)],
        columns,
        rows,
    )


def files_columns(
    spark: "SparkSession", files: Sequence[Path | str], columns: Sequence[str], rows: RowFilter
) -> "DataFrame":
    """The same, of these compacted files."""
    schema = narrow(_with_limits(columns, rows), COMPACT)
    if not files:
        empty = (f"CAST(NULL AS {field.dataType.simpleString()}) AS {field.name}" for field in narrow(columns, COMPACT))
        return spark.range(0).selectExpr(*empty)
    frame = (
        spark.read.schema(schema)
        .option("recursiveFileLookup", "true")
        .parquet(*(path if isinstance(path, str) else str(path.absolute()) for path in files))
    )
    return _limited(frame, columns, rows)


def raw_parts(
    spark: "SparkSession", paths: Sequence[str | Path], asks: Sequence[Ask], rows: RowFilter = RowFilter()
) -> "DataFrame":
    """What tables are made of (partial_sums.PARTIAL), counted where the segments are read."""
    reader = _raw_reader(spark, rows).schema(struct_of(PARTIAL)).option("asks", to_text(asks))
    return reader.load([str(Path(path).absolute()) for path in paths])


def _raw(spark: "SparkSession", paths: Sequence[str | Path], columns: Sequence[str], rows: RowFilter) -> "DataFrame":
    return _raw_reader(spark, rows).schema(narrow(columns)).load([str(Path(path).absolute()) for path in paths])


def _raw_reader(spark: "SparkSession", rows: RowFilter) -> "DataFrameReader":
    if spark not in _registered:
        spark.dataSource.register(MpbTraceSource)
        _registered.add(spark)
    reader = spark.read.format(FORMAT)
    limits = {
        "from": rows.from_ns,
        "to": rows.to_ns,
        "apis": rows.apis and ",".join(rows.apis),
        "brokers": rows.brokers and ",".join(map(str, rows.brokers)),
    }
    for name, value in limits.items():
        if value is not None:
            reader = reader.option(name, str(value))
    return reader


def _remote_files(spark: "SparkSession", paths: Sequence[str], columns: Sequence[str]) -> "DataFrame":
    options = {"recursiveFileLookup": "true", "pathGlobFilter": "part-*.parquet"}
    return spark.read.schema(narrow(columns, COMPACT)).options(**options).parquet(*paths)


def _with_limits(columns: Sequence[str], rows: RowFilter) -> list[str]:
    needed = {*columns}
    needed |= {"ts", "ts_ns"} if rows.from_ns is not None or rows.to_ns is not None else set()
    needed |= {"api"} if rows.apis else set()
    needed |= {"broker"} if rows.brokers else set()
    return [name for name in COMPACT.names if name in needed]


def _limited(frame: "DataFrame", columns: Sequence[str], rows: RowFilter) -> "DataFrame":
    conditions = time_conditions(rows.from_ns, rows.to_ns)
    conditions += [in_list("api", rows.apis)] if rows.apis else []
    conditions += [f"broker IN ({', '.join(map(str, rows.brokers))})"] if rows.brokers else []
    for condition in conditions:
        frame = frame.where(condition)
    return frame.select(*columns)


def time_conditions(from_ns: int | None, to_ns: int | None) -> list[str]:
    """from_ns <= epoch_ns < to_ns as SQL: once in microseconds, which Parquet's statistics know, once exactly."""
    found = []
    if from_ns is not None:
        found += [f"ts >= timestamp_micros({from_ns // 1000})", f"{EPOCH_NS} >= {from_ns}"]
    if to_ns is not None:
        found += [f"ts <= timestamp_micros({to_ns // 1000})", f"{EPOCH_NS} < {to_ns}"]
    return found


def in_list(column: str, values: Iterable[str]) -> str:
    """`column IN (…)` with quoted strings."""
    quoted = ("'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'" for value in values)
    return f"{column} IN ({', '.join(quoted)})"
