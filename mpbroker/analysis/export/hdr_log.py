"""Latencies as a log of HdrHistogram (`.hlog`): a histogram per window and API, which its own tools plot and merge.

Runs in the process of a command. Made from the rollup, so of any length of trace; values are nanoseconds, the middle of
the rollup's bucket (at most 1.1 % off), the greatest one exact. Latency is without waiting that clients asked for.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from mpbroker.analysis.engine.mathematics import histogram
from mpbroker.analysis.export.written import Written, opened

if TYPE_CHECKING:
    from mpbroker.analysis.engine.engines.engine import Engine

STAGE = "active_total"
_LARGEST_NS = 1 << 40
_DIGITS = 3
_MS_UNIT = 1_000_000.0
"""The log's column of greatest values is in milliseconds, as its tools expect of nanoseconds."""


def export(engine: "Engine", out: Path, window_ms: int) -> Written:
    """Write a line per window and API with requests, tagged with the API. OSError: `out` cannot be written."""
    from hdrh.histogram import HdrHistogram

    table = engine.rollup(window_ms, ("api",))
    rows = [row for row in table.to_pylist() if row["stage"] == STAGE]
    groups: dict[tuple[int, str], list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault((row["window_ms"], row["api"]), []).append(row)
    begin_ms = min((start for start, _ in groups), default=0)
    with opened(out) as file:
        file.write(_head(begin_ms))
        for (start_ms, api), buckets in sorted(groups.items()):
            one = HdrHistogram(1, _LARGEST_NS, _DIGITS)
            _fill(one, buckets)
            most_ms = one.get_max_value() / _MS_UNIT
            seconds = f"{(start_ms - begin_ms) / 1000:.3f},{window_ms / 1000:.3f},{most_ms:.3f}"
            file.write(f"Tag={api},{seconds},{one.encode().decode()}\n")
    n = sum(row["n"] for row in rows)
    said = ["The trace is sampled: kept requests count for those they stand for."] if engine.input.is_sampled else []
    return Written(str(out), f"{len(groups):,} histograms of {n:,} requests", said)


def _fill(one: Any, buckets: list[dict[str, Any]]) -> None:
    """The last bucket's middle may lie beyond the greatest value: that is known exactly, and bounds it."""
    for row in buckets:
        one.record_value(max(1, min(round(histogram.middle_ns(row["bucket"])), row["max_ns"])), row["n"])


def _head(begin_ms: int) -> str:
    return (
        "#[Logged by mpbroker trace export]\n#[Histogram log format version 1.3]\n"
        f"#[StartTime: {begin_ms / 1000:.3f} (seconds since epoch)]\n"
        '"StartTimestamp","Interval_Length","Interval_Max","Interval_Compressed_Histogram"\n'
    )
