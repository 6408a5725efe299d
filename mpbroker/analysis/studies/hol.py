"""How long do requests wait behind earlier ones of their own connection? Head-of-line blocking, by client.

Runs in a command's process, on single requests in their order; refuses sampled traces. A broker serves the requests of
a connection one after the other (Kafka's rule): what came while the one before it was in the broker waits, however free
handlers are. That time is from a request's arrival until the one before it began to be answered. A small request behind
a large one is what hurts: both kinds on one connection.
"""

from typing import Any

import numpy as np
import pyarrow as pa

from mpbroker.analysis.engine.engines.engine import Engine
from mpbroker.analysis.engine.mathematics import moments, windows
from mpbroker.analysis.engine.mathematics.histogram import Int64s
from mpbroker.analysis.engine.measures import bounded_part, request_time
from mpbroker.analysis.engine.measures.request_time import RequestTime
from mpbroker.analysis.engine.running import figure_specs, wording
from mpbroker.analysis.engine.running.finding import Finding
from mpbroker.analysis.engine.running.study import Figure, Study, StudyParameters, StudyResult

MAX_REQUESTS = 2_000_000
CONNECTIONS = 50
MIN_REQUESTS = 50
LARGE = 4  # times as long in the broker's hands as the one behind it
#: Of all request time; from there on a sentence tells to change something.
MUCH = 0.1
_NUMBERS = ("n", "blocked", "blocked_ns", "behind_large", "behind_large_ns", "whole_ns", "most_blocked_ns")
_TABLE = pa.schema([("client", pa.string()), *((name, pa.int64()) for name in _NUMBERS), ("share", pa.float64())])
_CONNECTIONS = pa.schema(
    [
        ("run", pa.string()),
        ("broker", pa.int32()),
        ("conn_id", pa.int64()),
        ("client", pa.string()),
        *((name, pa.int64()) for name in _NUMBERS),
        ("share", pa.float64()),
    ]
)


def run(engine: Engine, parameters: StudyParameters) -> StudyResult:
    """Tables hol (a row per client) and hol_connections (those that were blocked longest). `share`: of request time;
    `behind_large`: behind one that was held at least LARGE times as long."""
    engine.input.require_unsampled("hol")
    extent = windows.extent(engine.activity(0, ()))
    if extent is None:
        return StudyResult(verdicts=[wording.nothing("hol")])
    where, said = bounded_part.where(extent, MAX_REQUESTS)
    columns = ["run", "broker", "conn_id", "client", "client_hash", "ring", "seq", "asked_wait_ns", *moments.COLUMNS]
    table = engine.requests(columns, where)
    if not table.num_rows:
        return StudyResult(verdicts=[wording.nothing("hol"), *said])
    blocked, large, whole = blocking(table)
    rows = [
        {"client": key[0] or f"client {key[1]:08x}", **_sums(blocked, large, whole, at)}
        for key, at in moments.groups(table, ("client", "client_hash"))
    ]
    connections = [
        {"run": key[0], "broker": key[1], "conn_id": key[2], "client": key[3], **_sums(blocked, large, whole, at)}
        for key, at in moments.groups(table, ("run", "broker", "conn_id", "client"))
    ]
    rows.sort(key=lambda row: (-row["blocked_ns"], row["client"]))
    connections.sort(key=lambda row: (-row["blocked_ns"], row["run"], row["broker"], row["conn_id"]))
    return StudyResult(
        {
            "hol": pa.Table.from_pylist(rows, _TABLE),
            "hol_connections": pa.Table.from_pylist(connections[:CONNECTIONS], _CONNECTIONS),
        },
        [*_verdicts(rows), *said, *wording.caveats(engine.input)],
        _figures(rows),
        findings=_findings(request_time.of(engine, table.num_rows / extent.n), rows),
    )


def blocking(table: pa.Table) -> tuple[Int64s, Int64s, Int64s]:
    """Of each request, ns: behind the one before it on its connection; 1 where that one was LARGE; whole time."""
    when = moments.of(table)
    held = np.maximum(when.handled - when.dequeued, 0)
    whole = np.maximum(when.send_done - when.arrival - moments.column(table, "asked_wait_ns"), 0)
    blocked, large = np.zeros(table.num_rows, np.int64), np.zeros(table.num_rows, np.int64)
    ring, seq = (np.asarray(table[name].to_numpy(), np.int64) for name in ("ring", "seq"))
    for _, at in moments.groups(table, ("run", "broker", "conn_id")):
        at = at[np.lexsort((seq[at], ring[at], when.enqueued[at]))]
        before, this = at[:-1], at[1:]
        until = np.minimum(when.resp_deq[before], when.enqueued[this])
        blocked[this] = np.maximum(until - when.arrival[this], 0)
        large[this] = (blocked[this] > 0) & (held[before] >= LARGE * np.maximum(held[this], 1))
    return blocked, large, whole


def _sums(blocked: Int64s, large: Int64s, whole: Int64s, at: Int64s) -> dict[str, Any]:
    spent = int(blocked[at].sum())
    return {
        "n": len(at),
        "blocked": int((blocked[at] > 0).sum()),
        "blocked_ns": spent,
        "behind_large": int(large[at].sum()),
        "behind_large_ns": int((blocked * large)[at].sum()),
        "whole_ns": int(whole[at].sum()),
        "most_blocked_ns": int(blocked[at].max()),
        "share": min(1.0, spent / max(1, int(whole[at].sum()))),
    }


# Findings and verdicts


def _findings(time: RequestTime, rows: list[dict[str, Any]]) -> list[Finding]:
    """All of the blocking, as what most of it is."""
    n, spent, whole = (sum(row[name] for row in rows) for name in ("n", "blocked_ns", "whole_ns"))
    if n < MIN_REQUESTS or spent < MUCH * whole:
        return []
    large, first = sum(row["behind_large_ns"] for row in rows), rows[0]
    kind = "behind_large" if large >= spent / 2 else "own_connection"
    sentence = (
        f"Requests wait {wording.duration(spent / n)} on average behind earlier ones of their own connection, "
        f"{wording.share(large / spent)} of it behind one that was held {LARGE} times as long or more; "
        f"“{first['client']}” has {wording.share(first['blocked_ns'] / spent)} of that waiting."
    )
    return time.explained(kind, sentence, spent, first["client"], ("own_connection",))


def _verdicts(rows: list[dict[str, Any]]) -> list[str]:
    n, spent, whole = (sum(row[name] for row in rows) for name in ("n", "blocked_ns", "whole_ns"))
    if n < MIN_REQUESTS:
        return [f"Too few requests ({n}) to say whether connections held them up."]
    share = min(1.0, spent / max(1, whole))
    words = (
        f"{wording.share(share)} of all request time was waiting behind earlier requests of the same connection "
        f"({wording.duration(spent / n)} for each of {wording.count(n)} requests)"
    )
    if share < MUCH:
        return [f"{words}: change nothing."]
    first = rows[0]
    of_it = wording.share(first["blocked_ns"] / spent)
    large = sum(row["behind_large_ns"] for row in rows)
    if large >= spent / 2:
        return [
            f"{words}, {wording.share(large / spent)} of it of requests behind one that was held {LARGE} times as long "
            f"or more; “{first['client']}” has {of_it} of it: give large and small requests connections of their own."
        ]
    return [
        f"{words}; “{first['client']}” has {of_it} of it, at most {wording.duration(first['most_blocked_ns'])} for one "
        "request: use more connections or larger batches, or send fewer ahead "
        "(max.in.flight.requests.per.connection)."
    ]


# Figures


def _figures(rows: list[dict[str, Any]]) -> list[Figure]:
    shown = [row for row in rows if row["blocked_ns"]][:12][::-1]
    if not shown:
        return []
    labels = [row["client"] for row in shown]
    large = figure_specs.milliseconds(row["behind_large_ns"] / row["n"] for row in shown)
    other = figure_specs.milliseconds((row["blocked_ns"] - row["behind_large_ns"]) / row["n"] for row in shown)
    data = [
        figure_specs.bars("behind a large one", large, labels),
        figure_specs.bars("behind others", other, labels),
    ]
    layout = figure_specs.layout(figure_specs.axis("mean wait, ms"), figure_specs.axis("client"), barmode="stack")
    caption = f"Large: held at least {LARGE} times as long as the one behind it."
    return [Figure("hol", "Waiting behind one's own earlier requests", caption, {"data": data, "layout": layout})]


STUDY = Study(
    "hol",
    "How long do requests wait behind earlier ones of their own connection?\n"
    "Head-of-line blocking by client and connection, and what of it is small ones behind large ones.",
    "order",
    run,
)
