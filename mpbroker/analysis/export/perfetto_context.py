"""What a slice of a trace shows around its requests: the wall clock, depths of rings, use of cores, markers, deaths.

Runs in the process of a command; pure. The tracer samples gauges once a second (mpbroker.trace.gauge.interval.ms); what
every request found when it was put into its ring gives the depth in between.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from mpbroker.analysis.engine.mathematics import moments
from mpbroker.analysis.export.perfetto_tracks import COUNTERS, Event, group_number, meta, us, wall_clock

_LONGEST_TEXT = 200
_CLOCK_GROUP = 0
_CLOCK_STEPS_NS = tuple(step * 10**power for power in range(3, 12) for step in (1, 2, 5))
MAX_CLOCK_TICKS = 200
DEPTH_EVERY_NS = 1_000_000


def clock_events(first_ns: int, last_ns: int) -> Iterator[Event]:
    """A track of its own that reads like a clock: a slice for every second, or shorter or longer, at most
    MAX_CLOCK_TICKS."""
    yield meta("process_name", _CLOCK_GROUP, 0, {"name": f"wall clock, from {wall_clock(first_ns)}"})
    yield meta("process_sort_index", _CLOCK_GROUP, 0, {"sort_index": -1})
    step = next((one for one in _CLOCK_STEPS_NS if (last_ns - first_ns) // one < MAX_CLOCK_TICKS - 2), 0)
    for at in range(first_ns // step * step, last_ns, step) if step else ():
        begin, end = max(at, first_ns), min(at + step, last_ns)
        base = {"ph": "X", "cat": "clock", "pid": _CLOCK_GROUP, "tid": 0, "name": wall_clock(at)}
        yield {**base, "ts": us(begin, first_ns), "dur": (end - begin) / 1000, "args": {"epoch_ns": str(at)}}


def depth_events(requests: pa.Table, first_ns: int) -> list[Event]:
    """The depth that requests found in the request ring, at most one value (the greatest) a millisecond and ring."""
    put_in = requests["epoch_ns"].to_numpy() + sum(
        moments.column(requests, f"{name}_ns") for name in ("read", "parse", "ring_block")
    )
    there = moments.present(requests, "queue_ns")
    found: dict[tuple[int, str, int], int] = {}
    rows = zip(
        requests["broker"].to_pylist(),
        requests["plane"].to_pylist(),
        (np.asarray(put_in) // DEPTH_EVERY_NS).tolist(),
        requests["req_q"].to_pylist(),
        there.tolist(),
        strict=True,
    )
    for broker, plane, at, depth, known in rows:
        if known:
            found[broker, plane, at] = max(found.get((broker, plane, at), 0), depth)
    return [
        {
            "ph": "C",
            "pid": group_number(broker, COUNTERS),
            "tid": 0,
            "ts": max(0.0, us(at * DEPTH_EVERY_NS, first_ns)),
            "name": f"{plane} ring, as requests found it",
            "args": {"requests": depth},
        }
        for (broker, plane, at), depth in sorted(found.items(), key=lambda item: item[0][2])
    ]


def counter_events(gauges: Iterable[Mapping[str, Any]], first_ns: int, last_ns: int) -> Iterator[Event]:
    """Depths of rings, and of each process the share of a core between two samples."""
    before: dict[tuple[Any, ...], tuple[int, int]] = {}
    for row in gauges:
        base = {
            "ph": "C",
            "pid": group_number(row["broker"], COUNTERS),
            "tid": 0,
            "ts": us(row["epoch_ns"], first_ns),
        }
        inside = first_ns <= row["epoch_ns"] <= last_ns
        if row["type"] == "ring" and inside:
            yield {**base, "name": f"{row['name']} ring", "args": {"requests": row["depth"]}}
        elif row["type"] == "process":
            key = (row["run"], row["broker"], row["pid"], row["incarnation"])
            at, cpu_ns = before.get(key, (0, 0))
            before[key] = (row["epoch_ns"], row["cpu_ns"])
            if at and inside and row["epoch_ns"] > at:
                share = 100 * (row["cpu_ns"] - cpu_ns) / (row["epoch_ns"] - at)
                yield {**base, "name": f"{row['name']} busy", "args": {"% of a core": round(share, 1)}}


def marker_events(markers: Iterable[Mapping[str, Any]], first_ns: int, last_ns: int) -> Iterator[Event]:
    """What somebody marked, across all tracks."""
    for row in markers:
        if first_ns <= row["epoch_ns"] <= last_ns:
            yield {
                "ph": "i",
                "s": "g",
                "cat": "marker",
                "name": str(row["text"])[:_LONGEST_TEXT],
                "ts": us(row["epoch_ns"], first_ns),
                "pid": group_number(row["broker"], COUNTERS),
                "tid": 0,
            }


def process_events(events: Iterable[Mapping[str, Any]], first_ns: int, last_ns: int) -> Iterator[Event]:
    """Processes that began and ended."""
    for row in events:
        if first_ns <= row["epoch_ns"] <= last_ns:
            words = " ".join(str(part) for part in (row["name"], row["event"], row["exit"]) if part)
            yield {
                "ph": "i",
                "s": "g",
                "cat": "process",
                "name": words[:_LONGEST_TEXT],
                "ts": us(row["epoch_ns"], first_ns),
                "pid": group_number(row["broker"], COUNTERS),
                "tid": 0,
                "args": {"pid": row["pid"]},
            }
