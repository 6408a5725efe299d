"""What do requests wait for in a purgatory, for how long, and do they get it?

Runs in a command's process, on single requests; sampled ones count by their weight. A fetch waits for data as long as
its client asked: that is no latency, and a timeout there means a quiet topic. A produce request with acks=all waits for
replicas or a flush, a change of topics for the controller: that is latency, and a timeout an error.
"""

from typing import Any

import numpy as np
import pyarrow as pa

from mpbroker.analysis.engine.engines.engine import Engine
from mpbroker.analysis.engine.input.durations import ASKED_KINDS
from mpbroker.analysis.engine.mathematics import moments, weighted, windows
from mpbroker.analysis.engine.measures import bounded_part, request_time
from mpbroker.analysis.engine.measures.request_time import RequestTime
from mpbroker.analysis.engine.running import figure_specs, wording
from mpbroker.analysis.engine.running.finding import Finding
from mpbroker.analysis.engine.running.study import Figure, Study, StudyParameters, StudyResult
from mpbroker.trace.record import PURGATORY_TIMEOUT

MAX_REQUESTS = 2_000_000
MIN_REQUESTS = 20
#: Of a kind: so many that timed out are worth a sentence; fetches that mostly do poll an idle topic.
FEW, MOST = 0.01, 0.9
_QUANTILES = (50, 90, 99)
_TABLE = pa.schema(
    [
        ("kind", pa.string()),
        ("api", pa.string()),
        ("asked", pa.bool_()),
        *((name, pa.int64()) for name in ("n", "timed_out", "errors", "wait_ns")),
        *((f"p{q}_ns", pa.int64()) for q in _QUANTILES),
        ("max_ns", pa.int64()),
        ("of_request", pa.float64()),
    ]
)


def run(engine: Engine, parameters: StudyParameters) -> StudyResult:
    """Table purgatory: a row per kind and API. `asked`: the client asked to wait; `of_request`: waiting there by the
    whole time of these requests."""
    extent = windows.extent(engine.activity(0, ()))
    if extent is None:
        return StudyResult(verdicts=[wording.nothing("purgatory")])
    where, said = bounded_part.where(extent, MAX_REQUESTS)
    columns = ["api", "purg_kind", "weight", "flags", "error", "purgatory_ns", "total_ns"]
    table = engine.requests(columns, where)
    time = request_time.of(engine, int(table["weight"].to_numpy().sum()) / extent.n)
    table = table.take(np.flatnonzero(moments.present(table, "purgatory_ns")))
    rows = [_row(key[0], key[1], table, at) for key, at in moments.groups(table, ("purg_kind", "api"))]
    rows.sort(key=lambda row: (-row["wait_ns"], row["kind"], row["api"]))
    return StudyResult(
        {"purgatory": pa.Table.from_pylist(rows, _TABLE)},
        [*_verdicts(rows), *said, *wording.caveats(engine.input)],
        _figures(rows),
        findings=[one for row in rows for one in _findings(time, row)],
    )


def _row(kind: str, api: str, table: pa.Table, at: Any) -> dict[str, Any]:
    weight = np.asarray(table["weight"].to_numpy(), np.int64)[at]
    wait, total = moments.column(table, "purgatory_ns")[at], moments.column(table, "total_ns")[at]
    late = (np.asarray(table["flags"].to_numpy(), np.int64)[at] & PURGATORY_TIMEOUT) > 0
    failed = np.asarray(table["error"].to_numpy(), np.int64)[at] != 0
    spent = int((wait * weight).sum())
    return {
        "kind": kind,
        "api": api,
        "asked": kind in ASKED_KINDS,
        "n": int(weight.sum()),
        "timed_out": int(weight[late].sum()),
        "errors": int(weight[failed].sum()),
        "wait_ns": spent,
        **{f"p{q}_ns": weighted.percentile(wait, weight, q / 100) for q in _QUANTILES},
        "max_ns": int(wait.max()),
        "of_request": min(1.0, spent / max(1, int((np.maximum(total, wait) * weight).sum()))),
    }


# Findings and verdicts


def _findings(time: RequestTime, row: dict[str, Any]) -> list[Finding]:
    """Waiting that is latency: for what, and whether it came."""
    if row["n"] < MIN_REQUESTS or row["asked"] or row["kind"] == "fetch":
        return []
    subject, late = f"{row['kind']}, {row['api']}", row["timed_out"] / row["n"] >= FEW
    kind = "purgatory_timeout" if late else "purgatory"
    return time.explained(kind, f"{_words(row)}.", row["wait_ns"], subject, ("purgatory",))


def _verdicts(rows: list[dict[str, Any]]) -> list[str]:
    enough = [row for row in rows if row["n"] >= MIN_REQUESTS]
    if not enough:
        return [f"Hardly a request waited in a purgatory ({sum(row['n'] for row in rows)}): change nothing."]
    return [_verdict(row) for row in enough]


def _words(row: dict[str, Any]) -> str:
    requests = wording.counted(row["n"], f"{row['api']} request")
    return (
        f"{requests} waited in the purgatory “{row['kind']}” for "
        f"{wording.duration(row['p50_ns'])} at the median, {wording.duration(row['p99_ns'])} at p99; "
        f"{wording.share(row['timed_out'] / row['n'])} until their time was over"
    )


def _verdict(row: dict[str, Any]) -> str:
    late, words = row["timed_out"] / row["n"], _words(row)
    if row["kind"] == "fetch":
        if late >= MOST:
            return f"{words}: they poll what is idle, fewer polls cost less (fetch.max.wait.ms of the consumers)."
        return f"{words}: they asked for that, and data came; change nothing."
    if row["asked"]:
        return f"{words}: they asked for that; change nothing."
    if late >= FEW:
        return f"{words}, which clients see as errors: find the replica or the disk that does not keep up."
    return (
        f"{words}; it is {wording.share(row['of_request'])} of their time: speed up what they wait for (the slowest "
        "replica, or the flush with mpbroker.log.flush=commit), or ask for less (acks=1)."
    )


# Figures


def _figures(rows: list[dict[str, Any]]) -> list[Figure]:
    shown = [row for row in rows if row["n"] >= MIN_REQUESTS][:12][::-1]
    if not shown:
        return []
    labels = [f"{row['kind']}, {row['api']}" for row in shown]
    data = [
        figure_specs.bars(f"p{q}", figure_specs.milliseconds(row[f"p{q}_ns"] for row in shown), labels)
        for q in (50, 99)
    ]
    layout = figure_specs.layout(figure_specs.axis("wait, ms"), figure_specs.axis("purgatory, API"), barmode="group")
    caption = "Waiting that a fetch or a group's member asked for is no latency; the rest is."
    return [Figure("purgatory", "Waiting in purgatories", caption, {"data": data, "layout": layout})]


STUDY = Study(
    "purgatory",
    "What do requests wait for in a purgatory, for how long, and do they get it?\n"
    "Waits and timeouts by kind and API; what clients asked for apart from what is latency.",
    "requests",
    run,
)
