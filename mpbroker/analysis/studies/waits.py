"""Where does the waiting in the request rings come from: queueing, hand-off, or the want of a core?

Runs in a command's process, on single requests in their order; refuses sampled traces. A request in a ring waits for
one of two things, and which it is stands in the records of the others:

    queueing    every handler was at work for another request, or went straight on to one that waited already
    hand-off    a handler was free, yet did not take it: it slept and had to be woken and given a core

Of the hand-off no more can be for want of a core than handlers were ready without one: the system's scheduler counts
that (a gauge a second). What is left is the wake-up itself. Both bounds are said; a figure in between is not invented.
"""

from typing import Any

import numpy as np
import pyarrow as pa

from mpbroker.analysis.engine.engines.engine import Engine
from mpbroker.analysis.engine.mathematics import servers, windows
from mpbroker.analysis.engine.mathematics.histogram import Int64s
from mpbroker.analysis.engine.measures import handler_work, request_time
from mpbroker.analysis.engine.measures.handler_work import HandlerWork
from mpbroker.analysis.engine.measures.request_time import RequestTime
from mpbroker.analysis.engine.running import figure_specs, wording
from mpbroker.analysis.engine.running.finding import Finding
from mpbroker.analysis.engine.running.study import Figure, Study, StudyParameters, StudyResult

MIN_REQUESTS = 50
#: Of all waiting. What makes up so much of it is what a sentence tells to change.
MOST = 0.5
_TABLE = pa.schema(
    [
        ("run", pa.string()),
        ("broker", pa.int32()),
        ("plane", pa.string()),
        ("handlers", pa.int32()),
        ("n", pa.int64()),
        ("p50_ns", pa.int64()),
        ("p99_ns", pa.int64()),
        ("wait_ns", pa.int64()),
        ("queueing_ns", pa.int64()),
        ("handoff_ns", pa.int64()),
        ("found_free", pa.int64()),
        ("found_free_p50_ns", pa.int64()),
        ("found_busy_p50_ns", pa.int64()),
        ("handoff_wall_ns", pa.int64()),
        ("no_core_at_most", pa.float64()),
    ]
)


def run(engine: Engine, parameters: StudyParameters) -> StudyResult:
    """Table waits: a row per run, broker and plane. `found_free`: requests that came while a handler was free; their
    median wait beside that of the others. `handoff_wall_ns`: time in which a request waited while a handler was free,
    however many waited; `no_core_at_most`: of it, null where the system does not tell."""
    engine.input.require_unsampled("waits")
    extent = windows.extent(engine.activity(0, ()))
    if extent is None:
        return StudyResult(verdicts=[wording.nothing("waits")])
    works, said = handler_work.read(engine, extent)
    if not works:
        return StudyResult(verdicts=[wording.nothing("waits")])
    rows = [row for work in works for row in _rows(work)]
    several = len(works) > 1
    verdicts = [words for row in rows for words in _verdicts(row, several)]
    return StudyResult(
        {"waits": pa.Table.from_pylist(rows, _TABLE)},
        [*verdicts, *said, *wording.caveats(engine.input)],
        _figures(rows, several),
        findings=_findings(request_time.of(engine, min(1.0, handler_work.MAX_REQUESTS / extent.n)), rows, several),
    )


def _findings(time: RequestTime, rows: list[dict[str, Any]], several: bool) -> list[Finding]:
    """What waiting was for, of all planes of a broker together; its sentence is that of the plane that waited most."""
    found = []
    for run_name, broker in dict.fromkeys((row["run"], row["broker"]) for row in rows):
        mine = [row for row in rows if (row["run"], row["broker"]) == (run_name, broker)]
        worst = max(mine, key=lambda row: int(row["wait_ns"]))
        if worst["n"] < MIN_REQUESTS or not worst["wait_ns"]:
            continue
        subject, sentence = f"broker {broker}" if several else "", _verdicts(worst, several)[0]
        for kind, column, refines in (
            ("queueing", "queueing_ns", ("queue",)),
            ("handoff", "handoff_ns", ("queue", "wake_up")),
        ):
            found += time.explained(kind, sentence, sum(row[column] for row in mine), subject, refines)
    return found


def split(work: HandlerWork) -> tuple[Int64s, servers.Spells]:
    """How long each request waited while every handler was busy, and when that was."""
    taken = work.handler >= 0
    begins, enqueued = work.dequeued[taken], work.enqueued[taken]
    ends = servers.busy_until(work.handler[taken], begins, work.handled[taken], enqueued)
    full = servers.at_least(begins, ends, work.handlers)
    return full.within(work.enqueued, work.dequeued), full


def _rows(work: HandlerWork) -> list[dict[str, Any]]:
    queueing, full = split(work)
    waiting = servers.at_least(work.enqueued, work.dequeued, 1)
    idle = servers.without(waiting, full)
    wall = int(idle.until(work.handled.max(keepdims=True))[0]) if len(idle.at) else 0
    no_core = None if work.starved_s is None or not wall else min(1.0, work.starved_s * 1e9 / wall)
    found_free = ~_full_at(full, work.enqueued)
    rows = []
    for plane in np.unique(work.plane):
        mine = work.plane == plane
        wait = work.wait[mine]
        rows.append(
            {
                "run": work.run,
                "broker": work.broker,
                "plane": str(plane),
                "handlers": work.handlers,
                "n": len(wait),
                "p50_ns": int(np.percentile(wait, 50)),
                "p99_ns": int(np.percentile(wait, 99)),
                "wait_ns": int(wait.sum()),
                "queueing_ns": int(queueing[mine].sum()),
                "handoff_ns": int((work.wait - queueing)[mine].sum()),
                "found_free": int((found_free & mine).sum()),
                "found_free_p50_ns": _median(work.wait[found_free & mine]),
                "found_busy_p50_ns": _median(work.wait[~found_free & mine]),
                "handoff_wall_ns": wall,
                "no_core_at_most": no_core,
            }
        )
    return rows


def _full_at(full: servers.Spells, moments: Int64s) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Whether every handler was busy a moment before each."""
    return np.asarray(full.within(moments - 1, moments) > 0)


def _median(values: Int64s) -> int | None:
    return int(np.percentile(values, 50)) if len(values) else None


# Verdicts


def _verdicts(row: dict[str, Any], several: bool) -> list[str]:
    where = f"the {row['plane']} request ring" + (f" of broker {row['broker']}" if several else "")
    if row["n"] < MIN_REQUESTS:
        return [f"Too few requests waited in {where} ({row['n']}) to say for what."]
    said = [
        f"Requests waited in {where} for {wording.duration(row['p50_ns'])} at the median, "
        f"{wording.duration(row['p99_ns'])} at p99 ({wording.count(row['n'])} requests). {_shares(row)}"
    ]
    return [*said, _change(row)] if row["wait_ns"] else said


def _shares(row: dict[str, Any]) -> str:
    if not row["wait_ns"]:
        return "None waited."
    number = row["handlers"]
    handlers = {1: "the one handler was", 2: "both handlers were"}.get(number, f"all {number} handlers were")
    queueing, handoff = row["queueing_ns"] / row["wait_ns"], row["handoff_ns"] / row["wait_ns"]
    core = row["no_core_at_most"]
    of_it = (
        "the system does not tell how much of that was for want of a core"
        if core is None
        else f"at most {wording.share(core)} of that was for want of a core, the rest is the wake-up"
    )
    return (
        f"{wording.share(queueing)} of that waiting was queueing: {handlers} at work. {wording.share(handoff)} was "
        f"hand-off: a handler was free, but slept ({of_it})."
    )


def _change(row: dict[str, Any]) -> str:
    free = (
        f"{wording.share(row['found_free'] / row['n'])} of the requests found a handler free"
        + (f" and waited {wording.duration(row['found_free_p50_ns'])} at the median" if row["found_free"] else "")
        + ". "
    )
    if row["queueing_ns"] >= MOST * row["wait_ns"]:
        return free + "Handlers are what most waiting is for: raise num.io.threads while cores are free."
    if (row["no_core_at_most"] or 0.0) >= MOST:
        return free + "More handlers would not help, one was free; more cores may: handlers were ready without one."
    return free + "More handlers would not help, one was free: what remains is what waking a sleeping process takes."


# Figures


def _figures(rows: list[dict[str, Any]], several: bool) -> list[Figure]:
    """Queueing and hand-off of each ring, as bars of mean wait."""
    shown = [row for row in rows if row["n"] >= MIN_REQUESTS]
    if not shown:
        return []
    labels = [f"{row['plane']}, broker {row['broker']}" if several else row["plane"] for row in shown]
    data = [
        figure_specs.bars(name, [round(row[column] / row["n"] / 1000, 3) for row in shown], labels)
        for name, column in (("queueing", "queueing_ns"), ("hand-off", "handoff_ns"))
    ]
    layout = figure_specs.layout(figure_specs.axis("mean wait, µs"), figure_specs.axis("ring"), barmode="stack")
    caption = "Queueing: every handler was at work. Hand-off: one was free, and had to wake up."
    return [Figure("waits", "What requests waited for in the request rings", caption, {"data": data, "layout": layout})]


STUDY = Study(
    "waits",
    "Where does the waiting in the request rings come from?\n"
    "Queueing behind other requests, hand-off to a handler that sleeps, or the want of a core.",
    "order",
    run,
)
