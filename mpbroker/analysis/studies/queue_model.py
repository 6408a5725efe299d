"""What would queueing alone have cost? M/G/k and a replay of the same arrivals beside the waits that were measured.

Runs in a command's process, on single requests in their order; refuses sampled traces. The request rings of a broker
are taken as one queue, first come first served, before its k handlers. Three answers stand beside each other:

    M/G/k       what the rate and the distribution of services let expect (arrivals at random)
    G/G/k       the same with the variance that the arrivals had
    replay      each request's own arrival and service, through k servers that lose no time between requests

Measured above replay is what no queueing explains: waking, scheduling, the handler's own pauses (the study `waits`
says which). Measured below it means that requests were not served in their order, or that a handler did two things.
"""

from typing import Any

import numpy as np
import pyarrow as pa

from mpbroker.analysis.engine.engines.engine import Engine
from mpbroker.analysis.engine.mathematics import queueing, windows
from mpbroker.analysis.engine.mathematics.histogram import Int64s
from mpbroker.analysis.engine.measures import handler_work, request_time
from mpbroker.analysis.engine.measures.handler_work import HandlerWork
from mpbroker.analysis.engine.measures.request_time import RequestTime
from mpbroker.analysis.engine.running import figure_specs, wording
from mpbroker.analysis.engine.running.finding import Finding
from mpbroker.analysis.engine.running.study import Figure, Study, StudyParameters, StudyResult

MIN_ARRIVALS = 50  # in a window, to say anything of its rate and variance
MAX_REPLAYED = 2_000_000
_WINDOWS = pa.schema(
    [
        ("run", pa.string()),
        ("broker", pa.int32()),
        ("window_ms", pa.int64()),
        ("arrivals", pa.int64()),
        ("load", pa.float64()),
        ("mean_wait_ns", pa.float64()),
        ("replay_ns", pa.float64()),
        ("mgk_ns", pa.float64()),
        ("ggk_ns", pa.float64()),
    ]
)
_SUMMARY = pa.schema(
    [
        ("run", pa.string()),
        ("broker", pa.int32()),
        ("handlers", pa.int32()),
        ("n", pa.int64()),
        ("load", pa.float64()),
        *((f"{of}_{which}_ns", pa.float64()) for of in ("measured", "replay") for which in ("mean", "p50", "p99")),
        ("mgk_mean_ns", pa.float64()),
        ("ggk_mean_ns", pa.float64()),
        ("explained", pa.float64()),
    ]
)


def run(engine: Engine, parameters: StudyParameters) -> StudyResult:
    """Tables queue_model (run, broker, window) and queue_model_summary (run, broker); `explained`: replayed by measured
    waiting."""
    engine.input.require_unsampled("queue-model")
    extent = windows.extent(engine.activity(0, ()))
    if extent is None:
        return StudyResult(verdicts=[wording.nothing("queue-model")])
    works, said = handler_work.read(engine, extent)
    if not works:
        return StudyResult(verdicts=[wording.nothing("queue-model")])
    window_ms = windows.width_ms(parameters.window_ms, extent)
    rows, summary = [], []
    for work in works:
        begins, first = work.enqueued[:MAX_REPLAYED], min(MAX_REPLAYED, len(work.enqueued))
        waits = queueing.replay(begins, work.service[:first], work.handlers)
        mine = _windows(work, waits, window_ms)
        rows += mine
        summary.append(_summary(work, waits, mine))
        if first < len(work.enqueued):
            said.append(f"Replayed were the first {first:,} requests of broker {work.broker}.")
    several = len(works) > 1
    return StudyResult(
        {
            "queue_model": pa.Table.from_pylist(rows, _WINDOWS),
            "queue_model_summary": pa.Table.from_pylist(summary, _SUMMARY),
        },
        [*(words for row in summary for words in _verdicts(row, several)), *said, *wording.caveats(engine.input)],
        _figures(summary, rows, window_ms),
        findings=_findings(request_time.of(engine, sum(row["n"] for row in summary) / _in_rings(works)), summary),
    )


def _in_rings(works: list[HandlerWork]) -> int:
    return sum(len(work.enqueued) for work in works)


def _findings(time: RequestTime, summary: list[dict[str, Any]]) -> list[Finding]:
    """Queueing as a replay has it, and the waiting beyond it."""
    found, several = [], len(summary) > 1
    for row in summary:
        if row["n"] < MIN_ARRIVALS or row["explained"] is None:
            continue
        subject = f"broker {row['broker']}" if several else ""
        queued = min(row["replay_mean_ns"], row["measured_mean_ns"])
        found += time.explained("queueing", _verdicts(row, several)[0], queued * row["n"], subject, ("queue",))
        sentence = (
            f"A replay{f' of {subject}' if subject else ''} that loses no time between requests lets them wait "
            f"{wording.duration(row['replay_mean_ns'])} on average in the request rings; measured were "
            f"{wording.duration(row['measured_mean_ns'])}."
        )
        rest = (row["measured_mean_ns"] - queued) * row["n"]
        found += time.explained("handoff", sentence, rest, subject, ("queue", "wake_up"))
    return found


def _windows(work: HandlerWork, waits: Int64s, window_ms: int) -> list[dict[str, Any]]:
    """A row per window with enough arrivals, by the first request's clock."""
    n, width = len(waits), window_ms * 1_000_000
    place = (work.enqueued[:n] - work.enqueued[0]) // width
    edges = np.searchsorted(place, np.arange(int(place[-1]) + 2))
    rows = []
    for window, (begin, end) in enumerate(zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True)):
        if end - begin < MIN_ARRIVALS:
            continue
        told = queueing.predict(np.diff(work.enqueued[begin:end]), work.service[begin:end], work.handlers)
        rows.append(
            {
                "run": work.run,
                "broker": work.broker,
                "window_ms": (work.first_epoch_ns + window * width) // 1_000_000,
                "arrivals": end - begin,
                "load": told.load,
                "mean_wait_ns": float(work.wait[begin:end].mean()),
                "replay_ns": float(waits[begin:end].mean()),
                "mgk_ns": told.poisson_ns,
                "ggk_ns": told.general_ns,
            }
        )
    return rows


def _summary(work: HandlerWork, waits: Int64s, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Predictions of a window count by its arrivals, and only where the window had a steady state."""
    n = len(waits)
    measured = work.wait[:n]
    row: dict[str, Any] = {"run": work.run, "broker": work.broker, "handlers": work.handlers, "n": n}
    row["load"] = _weighted(rows, "load")
    for of, values in (("measured", measured), ("replay", waits)):
        p50, p99 = np.percentile(values, [50, 99])
        row |= {f"{of}_mean_ns": float(values.mean()), f"{of}_p50_ns": float(p50), f"{of}_p99_ns": float(p99)}
    steady = [one for one in rows if one["ggk_ns"] is not None]
    row |= {"mgk_mean_ns": _weighted(steady, "mgk_ns"), "ggk_mean_ns": _weighted(steady, "ggk_ns")}
    row["explained"] = float(waits.sum()) / float(measured.sum()) if measured.sum() else None
    return row


def _weighted(rows: list[dict[str, Any]], name: str) -> float | None:
    return float(np.average([row[name] for row in rows], weights=[row["arrivals"] for row in rows])) if rows else None


# Verdicts


def _verdicts(row: dict[str, Any], several: bool) -> list[str]:
    of = f" of broker {row['broker']}" if several else ""
    if row["n"] < MIN_ARRIVALS or row["explained"] is None:
        return [f"Too few requests waited in the request rings{of} to compare with a model."]
    explained = row["explained"]
    said = (
        f"Queueing alone explains {wording.share(explained)} of the waiting in the request rings{of}: replayed through "
        f"{wording.counted(row['handlers'], 'handler')}, requests would have waited "
        f"{wording.duration(row['replay_mean_ns'])} on average ({wording.duration(row['replay_p50_ns'])} at the "
        f"median, {wording.duration(row['replay_p99_ns'])} at p99); measured were "
        f"{wording.duration(row['measured_mean_ns'])} ({wording.duration(row['measured_p50_ns'])}, "
        f"{wording.duration(row['measured_p99_ns'])})."
    )
    return [said, *_theory(row), _meaning(explained)]


def _theory(row: dict[str, Any]) -> list[str]:
    if row["ggk_mean_ns"] is None:
        return ["No window had a steady state that theory could be asked about."]
    k = row["handlers"]
    return [
        f"M/G/{k} predicts a mean of {wording.duration(row['mgk_mean_ns'])}, with the variance that the arrivals had "
        f"(G/G/{k}) {wording.duration(row['ggk_mean_ns'])}, at a load of {wording.share(row['load'])} of all handlers."
    ]


def _meaning(explained: float) -> str:
    if explained < 0.5:
        return "Most waiting is not queueing: see the study waits. More handlers would not shorten it."
    if explained <= 1.25:
        return "Most waiting is queueing: more handlers (num.io.threads), or cheaper requests, shorten it."
    return "Requests waited less than in their order: some overtook others, or a handler did two things at once."


# Figures


def _figures(summary: list[dict[str, Any]], rows: list[dict[str, Any]], window_ms: int) -> list[Figure]:
    """Of the broker whose requests waited longest in all: the mean of each window, measured and predicted."""
    busiest = max(summary, key=lambda row: row["measured_mean_ns"] * row["n"], default=None)
    mine = [] if busiest is None else [row for row in rows if _same(row, busiest)]
    if not mine:
        return []
    at = figure_specs.clocks(row["window_ms"] for row in mine)
    names = {"mean_wait_ns": "measured", "replay_ns": "replay", "mgk_ns": "M/G/k", "ggk_ns": "G/G/k"}
    data = [
        figure_specs.line(name, at, [None if row[column] is None else round(row[column] / 1000, 3) for row in mine])
        for column, name in names.items()
    ]
    layout = figure_specs.layout(
        figure_specs.axis("time (UTC)", type="date"), figure_specs.axis("mean wait, µs", rangemode="tozero")
    )
    caption = f"Windows of {window_ms} ms. Measured above the others: waiting that no queueing explains."
    title = "Waiting in the request rings, measured and predicted"
    return [Figure("queue_model", title, caption, {"data": data, "layout": layout})]


def _same(row: dict[str, Any], other: dict[str, Any]) -> bool:
    return (row["run"], row["broker"]) == (other["run"], other["broker"])


STUDY = Study(
    "queue-model",
    "What would queueing alone have cost?\n"
    "M/G/k, G/G/k and a replay of the same arrivals, beside the waits that were measured.",
    "order",
    run,
)
