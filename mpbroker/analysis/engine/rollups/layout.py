"""What stands where in a rollup table. Pure (pyarrow).

    DST/<dataset>/dt=YYYY-MM-DD/hour=HH/node=<broker>/part-*.parquet    what DuckDB, polars and Spark read as it is
    DST/_table.json                                                     the table's windows
    DST/_commits/<batch>.json                                           one per batch, in order: its files
    DST/_staging/<batch>-<token>/<dataset>/…                            a batch's files until it is committed

Hours are those of the windows, in UTC; of the dataset `segments` those in which a segment was begun.
"""

from datetime import UTC, datetime
from typing import NamedTuple

import pyarrow as pa

from mpbroker.analysis.engine.engines.accumulate import ACTIVITY_COLUMNS
from mpbroker.analysis.engine.engines.engine import Ask
from mpbroker.analysis.engine.input.columns import FRAME
from mpbroker.analysis.engine.input.decode import RowFilter
from mpbroker.errors import MpbrokerError

ABOUT = "_table.json"
COMMITS = "_commits"
STAGING = "_staging"
LOCK = "_lock"
FORMAT = 1
HOUR_MS = 3_600_000
HOUR_NS = HOUR_MS * 1_000_000
WINDOW_MS = 10_000
SEGMENTS = "segments"
_KINDS = ("run", "broker", "api", "listener", "plane", "error")
_CLIENTS = ("run", "broker", "api", "listener", "client")

#: A row per segment that the table counts. Numbers of requests; `missing`: numbers skipped within it.
SEGMENT_ROW = pa.schema(
    [
        ("file", pa.string()),
        ("run", pa.string()),
        ("broker", pa.int32()),
        ("ring", pa.int32()),
        ("first_seq", pa.int64()),
        ("next_seq", pa.int64()),
        ("records", pa.int64()),
        ("finished", pa.int64()),
        ("dropped", pa.int64()),
        ("sampled_out", pa.int64()),
        ("missing", pa.int64()),
        ("begun_ns", pa.int64()),
    ]
)


class RollupError(MpbrokerError):
    """A rollup table cannot be read, or not be added to."""

    exit_code = 2


class Partition(NamedTuple):
    """An hour since 1970, of a broker."""

    hour: int
    node: int

    def folder(self) -> str:
        """As paths have it."""
        moment = datetime.fromtimestamp(self.hour * 3600, UTC)
        return f"dt={moment:%Y-%m-%d}/hour={moment:%H}/node={self.node}"


def datasets(window_ms: int) -> dict[str, Ask]:
    """Name → what a table with such windows keeps. Clients are many, and kept by the hour."""
    return {
        "stages": Ask("rollup", window_ms, _KINDS),
        "counts": Ask("activity", window_ms, _KINDS),
        "worker_counts": Ask("activity", window_ms, ("run", "broker", "processor", "handler")),
        "client_stages": Ask("rollup", HOUR_MS, _CLIENTS),
        "client_counts": Ask("activity", HOUR_MS, _CLIENTS),
    }


def schema_of(ask: Ask) -> pa.Schema:
    """The columns of a dataset's files."""
    groups = [(name, FRAME.field(name).type) for name in ask.by]
    if ask.kind == "rollup":
        rest = [("stage", pa.string()), ("bucket", pa.int32())]
        rest += [(name, pa.int64()) for name in ("n", "sum_ns", "max_ns")]
    else:
        rest = [(name, pa.int64()) for name in ACTIVITY_COLUMNS]
    return pa.schema([("window_ms", pa.int64()), *groups, *rest])


def check_window(window_ms: int) -> int:
    """RollupError when an hour is not made of such windows."""
    if window_ms < 1 or HOUR_MS % window_ms:
        raise RollupError(f"windows of {window_ms} ms do not make a whole hour: --window-ms 10000 does")
    return window_ms


def partition_of(path: str) -> Partition:
    """Of a file, by its path; ValueError when it has none."""
    found = dict(part.split("=", 1) for part in path.split("/") if "=" in part)
    try:
        moment = datetime.strptime(f"{found['dt']} {found['hour']} +0000", "%Y-%m-%d %H %z")
        return Partition(int(moment.timestamp()) // 3600, int(found["node"]))
    except KeyError as error:
        raise ValueError(f"{path} has no {error} in its path") from error


def may_hold(path: str, rows: RowFilter) -> bool:
    """Whether a file's hour and node allow rows of the filter: no other is opened."""
    hour, node = partition_of(path)
    return (
        (rows.brokers is None or node in rows.brokers)
        and (rows.to_ns is None or hour * HOUR_NS < rows.to_ns)
        and (rows.from_ns is None or (hour + 1) * HOUR_NS > rows.from_ns)
    )
