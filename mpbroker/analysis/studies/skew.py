"""Is the load spread evenly over processors and handlers, and if not, since when and by what?

Runs in a command's process, on sums of any size. The share of requests and of handler time that each processor and
handler had, per window and in all, against an even share. Connections are dealt to processors in turn, so an uneven
load means few connections that do much; handlers take from one ring, so an uneven one there is ordinary while they
sleep (the first to wake takes all) and matters only when they are busy.
"""

from typing import Any

import numpy as np
import pyarrow as pa

from mpbroker.analysis.engine.engines.engine import Ask, Engine
from mpbroker.analysis.engine.mathematics import weighted, windows
from mpbroker.analysis.engine.measures import request_time
from mpbroker.analysis.engine.running import figure_specs, wording
from mpbroker.analysis.engine.running.finding import Finding
from mpbroker.analysis.engine.running.study import Figure, Study, StudyParameters, StudyResult

MIN_REQUESTS = 200
#: Requests of the busiest by an even share, and how busy handlers must be for theirs to matter.
UNEVEN, BUSY = 1.5, 0.5
_KINDS = ("processor", "handler")
_WAITED = ("broker", "processor")
#: Stages in which requests wait for a processor.
_FOR_PROCESSORS = ("rx_wait", "resp_queue", "send_wait")
_TABLE = pa.schema(
    [
        ("broker", pa.int32()),
        ("by", pa.string()),
        ("number", pa.int32()),
        *((name, pa.int64()) for name in ("n", "bytes", "handler_ns")),
        *((name, pa.float64()) for name in ("share", "even_share", "busy")),
    ]
)
_WINDOWS = pa.schema(
    [
        ("broker", pa.int32()),
        ("by", pa.string()),
        ("window_ms", pa.int64()),
        ("n", pa.int64()),
        ("largest", pa.int32()),
        ("largest_share", pa.float64()),
        ("jain", pa.float64()),
    ]
)


def asks(engine: Engine, activity: pa.Table, parameters: StudyParameters) -> list[Ask]:
    """The tables `run` asks for."""
    extent = windows.extent(activity)
    if extent is None:
        return []
    window_ms = windows.width_ms(parameters.window_ms, extent)
    found = [Ask("activity", window_ms, ("broker", by)) for by in _KINDS]
    return [*found, Ask("rollup", 0, _WAITED)] if engine.keeps_requests else found


def run(engine: Engine, parameters: StudyParameters) -> StudyResult:
    """Tables skew (broker, by, number) and skew_windows (broker, by, window). `busy`: handler time by the trace's
    length."""
    extent = windows.extent(engine.activity(0, ()))
    if extent is None:
        return StudyResult(verdicts=[wording.nothing("skew")])
    window_ms = windows.width_ms(parameters.window_ms, extent)
    rows: list[dict[str, Any]] = []
    over_time: list[dict[str, Any]] = []
    for by in _KINDS:
        found = [row for row in engine.activity(window_ms, ("broker", by)).to_pylist() if row[by] is not None]
        for broker in sorted({row["broker"] for row in found}):
            mine = [row for row in found if row["broker"] == broker]
            rows += _members(broker, by, mine, extent.seconds)
            over_time += _windows(broker, by, mine)
    if not rows:
        return StudyResult(verdicts=[wording.nothing("skew")])
    return StudyResult(
        {"skew": pa.Table.from_pylist(rows, _TABLE), "skew_windows": pa.Table.from_pylist(over_time, _WINDOWS)},
        [*_verdicts(rows), *wording.caveats(engine.input)],
        _figures(over_time, window_ms),
        findings=_findings(engine, rows),
    )


def _members(broker: int, by: str, found: list[dict[str, Any]], seconds: float) -> list[dict[str, Any]]:
    numbers = sorted({row[by] for row in found})
    whole = sum(row["n"] for row in found)
    rows = []
    for number in numbers:
        mine = [row for row in found if row[by] == number]
        n, handler_ns = (sum(row[name] for row in mine) for name in ("n", "handler_ns"))
        rows.append(
            {
                "broker": broker,
                "by": by,
                "number": number,
                "n": n,
                "bytes": sum(row["req_bytes"] + row["resp_bytes"] for row in mine),
                "handler_ns": handler_ns,
                "share": n / whole,
                "even_share": 1 / len(numbers),
                "busy": handler_ns / 1e9 / max(seconds, 1e-3),
            }
        )
    return rows


def _windows(broker: int, by: str, found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    numbers = sorted({row[by] for row in found})
    there: dict[int, dict[int, int]] = {}
    for row in found:
        there.setdefault(row["window_ms"], {})[row[by]] = row["n"]
    rows = []
    for at, counts in sorted(there.items()):
        largest = max(counts, key=lambda number: (counts[number], -number))
        n = sum(counts.values())
        row = {"broker": broker, "by": by, "window_ms": at, "n": n, "largest": largest}
        row |= {"largest_share": counts[largest] / n, "jain": weighted.jain([counts.get(one, 0) for one in numbers])}
        rows.append(row)
    return rows


# Findings and verdicts


def _findings(engine: Engine, rows: list[dict[str, Any]]) -> list[Finding]:
    """Of a processor with too many requests: what these waited for it beyond those of the others. Of busy handlers: of
    the waiting in the ring the part that one had beyond its share. Nothing of a rollup table: it has no
    waits by processor."""
    if not engine.keeps_requests:
        return []
    time, found = request_time.of(engine), []
    waited = engine.rollup(0, _WAITED).to_pylist()
    for broker, by in dict.fromkeys((row["broker"], row["by"]) for row in rows):
        mine = [row for row in rows if (row["broker"], row["by"]) == (broker, by)]
        largest = _largest(mine)
        if _is_even(mine) or (by == "handler" and _busy(mine) < BUSY):
            continue
        here = [one for one in waited if one["broker"] == broker]
        sentence = f"{_words(by, largest, f' of broker {broker}')}."
        if by == "processor":
            ns = _beyond_the_others(here, mine, largest["number"])
            found += time.explained("uneven_processors", sentence, ns, str(broker), ("rx_wait", "slow_processor"))
        else:
            queued = sum(one["sum_ns"] for one in here if one["stage"] == "queue")
            ns = queued * (largest["share"] - largest["even_share"])
            found += time.explained("uneven_handlers", sentence, ns, str(broker), ("slow_handler",))
    return found


def _beyond_the_others(waited: list[dict[str, Any]], rows: list[dict[str, Any]], number: int) -> float:
    """Nanoseconds that the requests of this processor waited for it, less what they would have with the others."""
    ns = {row["number"]: 0 for row in rows}
    for one in waited:
        if one["stage"] in _FOR_PROCESSORS and one["processor"] in ns:
            ns[one["processor"]] += one["sum_ns"]
    n = {row["number"]: row["n"] for row in rows}
    others = sum(n.values()) - n[number]
    return ns[number] - n[number] * (sum(ns.values()) - ns[number]) / others if others else 0.0


def _largest(rows: list[dict[str, Any]]) -> dict[str, Any]:
    return max(rows, key=lambda row: (row["n"], -row["number"]))


def _is_even(rows: list[dict[str, Any]]) -> bool:
    """Or too few to tell."""
    largest = _largest(rows)
    few = len(rows) == 1 or sum(row["n"] for row in rows) < MIN_REQUESTS
    return few or largest["share"] < UNEVEN * largest["even_share"]


def _busy(rows: list[dict[str, Any]]) -> float:
    return float(sum(row["busy"] for row in rows)) / len(rows)


def _words(by: str, largest: dict[str, Any], of: str) -> str:
    return (
        f"{by.capitalize()} {largest['number']}{of} took {wording.share(largest['share'])} of the requests, an even "
        f"share is {wording.share(largest['even_share'])}"
    )


def _verdicts(rows: list[dict[str, Any]]) -> list[str]:
    verdicts = []
    several = len({row["broker"] for row in rows}) > 1
    for broker in sorted({row["broker"] for row in rows}):
        of = f" of broker {broker}" if several else ""
        for by in _KINDS:
            mine = [row for row in rows if (row["broker"], row["by"]) == (broker, by)]
            if mine:
                verdicts.append(_verdict(by, mine, of))
    return verdicts


def _verdict(by: str, rows: list[dict[str, Any]], of: str) -> str:
    n, largest = sum(row["n"] for row in rows), _largest(rows)
    if n < MIN_REQUESTS:
        return f"Too few requests ({n}) to say how they are spread over the {by}s{of}."
    if len(rows) == 1:
        return f"There is one {by}{of}: nothing to spread."
    words = _words(by, largest, of)
    if _is_even(rows):
        return f"{words}: the {by}s are evenly used, change nothing."
    if by == "processor":
        return (
            f"{words}: connections are dealt to processors in turn, so few of them do most; spread that load over more "
            "connections (the study fairness names them)."
        )
    busy = _busy(rows)
    if busy < BUSY:
        return (
            f"{words}, which is how it should be: handlers were busy {wording.share(busy)} of the time, and who is "
            "awake takes the next."
        )
    return f"{words} although handlers are busy {wording.share(busy)} of the time: look at what holds up the others."


# Figures


def _figures(over_time: list[dict[str, Any]], window_ms: int) -> list[Figure]:
    """The largest share over time, of the busiest broker."""
    if not over_time:
        return []
    counts: dict[int, int] = {}
    for row in over_time:
        counts[row["broker"]] = counts.get(row["broker"], 0) + row["n"]
    busiest = max(counts, key=lambda broker: (counts[broker], -broker))
    data = []
    for by in _KINDS:
        mine = [row for row in over_time if (row["broker"], row["by"]) == (busiest, by)]
        at = figure_specs.clocks(row["window_ms"] for row in mine)
        if mine:
            shares = [float(np.round(row["largest_share"] * 100, 2)) for row in mine]
            data.append(figure_specs.line(f"busiest {by}", at, shares))
    layout = figure_specs.layout(
        figure_specs.axis("time (UTC)", type="date"), figure_specs.axis("share of requests, %", range=[0, 100])
    )
    caption = f"Windows of {window_ms} ms: the share of the processor and of the handler with most requests."
    return [Figure("skew", "How uneven the load is", caption, {"data": data, "layout": layout})]


STUDY = Study(
    "skew",
    "Is the load spread evenly over processors and handlers?\n"
    "Their shares in all and over time, against an even share.",
    "rollup",
    run,
    asks,
)
