"""Who gets how much of the broker, and who waits for whom? Jain's index over clients, connections and processors.

Runs in a command's process, on single requests; sampled ones count by their weight. Three things are shared: requests,
handler time, and waiting in the broker for others (in the socket, behind the ring, in it). The index is 1 when all have
the same and 1/n when one has everything. Unequal loads are not unjust: it is when those who ask for little wait.
"""

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from mpbroker.analysis.engine.engines.engine import Engine
from mpbroker.analysis.engine.mathematics import moments, weighted, windows
from mpbroker.analysis.engine.mathematics.histogram import Int64s
from mpbroker.analysis.engine.measures import bounded_part, request_time
from mpbroker.analysis.engine.measures.request_time import RequestTime
from mpbroker.analysis.engine.running import figure_specs, wording
from mpbroker.analysis.engine.running.finding import Finding
from mpbroker.analysis.engine.running.study import Figure, Study, StudyParameters, StudyResult

MAX_REQUESTS = 2_000_000
MEMBERS = 50  # of each kind, in the table
MIN_REQUESTS = 20  # of a member whose wait is spoken of
GREEDY = 0.5  # of all handler time
UNJUST = 2.0  # mean wait of the others by their mean handler time
BUSY = 0.5  # of one handler, in all: below nobody waits for another's requests
_KINDS = {"client": ("run", "client", "client_hash"), "connection": ("run", "broker", "conn_id")}
_KINDS |= {"processor": ("run", "broker", "processor")}
_WAITS = ("rx_wait_ns", "ring_block_ns", "queue_ns")
_WORK = ("dispatch_ns", "io_ns", "local_ns")
_TABLE = pa.schema(
    [
        ("by", pa.string()),
        ("members", pa.int64()),
        *((f"jain_{name}", pa.float64()) for name in ("requests", "handler_time", "wait")),
        ("largest_share", pa.float64()),
    ]
)
_MEMBERS = pa.schema(
    [
        ("by", pa.string()),
        ("member", pa.string()),
        *((name, pa.int64()) for name in ("n", "handler_ns", "wait_ns", "mean_wait_ns", "p99_ns")),
        ("share", pa.float64()),
    ]
)


def run(engine: Engine, parameters: StudyParameters) -> StudyResult:
    """Tables fairness (by client, connection, processor) and fairness_members (the largest of each by handler time).
    `wait`: mean of a member; `largest_share`: of all handler time."""
    extent = windows.extent(engine.activity(0, ()))
    if extent is None:
        return StudyResult(verdicts=[wording.nothing("fairness")])
    where, said = bounded_part.where(extent, MAX_REQUESTS)
    names = dict.fromkeys(name for key in _KINDS.values() for name in key)
    table = engine.requests([*names, "weight", "active_total_ns", *_WAITS, *_WORK], where)
    seconds = max(extent.seconds * min(1.0, MAX_REQUESTS / extent.n), 1e-3)
    members = {by: _members(by, table) for by in _KINDS}
    rows = [_row(by, each) for by, each in members.items()]
    shown = [row for each in members.values() for row in each[:MEMBERS]]
    return StudyResult(
        {"fairness": pa.Table.from_pylist(rows, _TABLE), "fairness_members": pa.Table.from_pylist(shown, _MEMBERS)},
        [*_verdicts(members["client"], rows, seconds), *said, *wording.caveats(engine.input)],
        _figures(members["client"]),
        findings=_findings(
            request_time.of(engine, int(table["weight"].to_numpy().sum()) / extent.n), members["client"], seconds
        ),
    )


def _members(by: str, table: pa.Table) -> list[dict[str, Any]]:
    """Those with most handler time first."""
    weight = np.asarray(table["weight"].to_numpy(), np.int64)
    wait: Int64s = sum((moments.column(table, name) for name in _WAITS), np.zeros(len(weight), np.int64))
    work: Int64s = sum((moments.column(table, name) for name in _WORK), np.zeros(len(weight), np.int64))
    took = moments.column(table, "active_total_ns")
    whole = max(1, int((work * weight).sum()))
    rows = []
    for key, at in moments.groups(table, _KINDS[by]):
        n = int(weight[at].sum())
        waited, worked = int((wait * weight)[at].sum()), int((work * weight)[at].sum())
        rows.append(
            {
                "by": by,
                "member": str(key[1] or f"client {key[2]:08x}") if by == "client" else _numbered(by, key),
                "n": n,
                "handler_ns": worked,
                "wait_ns": waited,
                "mean_wait_ns": waited // n,
                "p99_ns": weighted.percentile(took[at], weight[at], 0.99),
                "share": worked / whole,
            }
        )
    return sorted(rows, key=lambda row: (-row["handler_ns"], row["member"]))


def _numbered(by: str, key: tuple[Any, ...]) -> str:
    return f"{by} {key[2]:x} of broker {key[1]}" if by == "connection" else f"{by} {key[2]} of broker {key[1]}"


def _row(by: str, members: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "by": by,
        "members": len(members),
        "jain_requests": weighted.jain([row["n"] for row in members]),
        "jain_handler_time": weighted.jain([row["handler_ns"] for row in members]),
        "jain_wait": weighted.jain([row["mean_wait_ns"] for row in members]),
        "largest_share": max((row["share"] for row in members), default=0.0),
    }


# Findings and verdicts


class Greed(NamedTuple):
    """Of the client with most handler time, what the others wait for and work (ns a request), and how busy handlers
    are."""

    others: list[dict[str, Any]]
    waited_ns: float
    worked_ns: float
    busy: float

    @property
    def is_unjust(self) -> bool:
        """Whether the others wait for it so long that it should be slowed down."""
        return self.busy >= BUSY and self.waited_ns >= UNJUST * self.worked_ns


def _greed(clients: list[dict[str, Any]], seconds: float) -> Greed | None:
    """None where no client takes most of the handlers' time from others."""
    others = [row for row in clients[1:] if row["n"] >= MIN_REQUESTS]
    if not others or clients[0]["share"] < GREEDY:
        return None
    n = sum(row["n"] for row in others)
    busy = sum(row["handler_ns"] for row in clients) / 1e9 / seconds
    waited, worked = (sum(row[name] for row in others) / n for name in ("wait_ns", "handler_ns"))
    return Greed(others, waited, worked, busy)


def _findings(time: RequestTime, clients: list[dict[str, Any]], seconds: float) -> list[Finding]:
    """The part of the others' waiting that is this client's part of the work that was waited for."""
    greed = _greed(clients, seconds)
    if greed is None or not greed.is_unjust:
        return []
    first, waited = clients[0], sum(row["wait_ns"] for row in greed.others)
    sentence = f"{_greed_words(clients, greed)}."
    return time.explained("greedy_client", sentence, waited * first["share"], first["member"], ("queue", "queueing"))


def _greed_words(clients: list[dict[str, Any]], greed: Greed) -> str:
    first = clients[0]
    return (
        f"“{first['member']}” takes {wording.share(first['share'])} of the handlers' time with "
        f"{wording.share(first['n'] / sum(row['n'] for row in clients))} of the requests; a request of the other "
        f"{wording.counted(len(greed.others), 'client')} waits {wording.duration(greed.waited_ns)} for "
        f"{wording.duration(greed.worked_ns)} of work"
    )


def _verdicts(clients: list[dict[str, Any]], rows: list[dict[str, Any]], seconds: float) -> list[str]:
    index = wording.listed([f"{row['jain_handler_time']:.2f} for {row['members']} {row['by']}s" for row in rows])
    told = f"Jain's index of handler time is {index} (1: all the same)."
    if len(clients) < 2:
        return ["There is one client: nobody to share with.", told]
    first, others = clients[0], [row for row in clients[1:] if row["n"] >= MIN_REQUESTS]
    share = wording.share(first["share"])
    if not others:
        return [f"Hardly anybody but “{first['member']}” asked for something: nobody to share with.", told]
    greed = _greed(clients, seconds)
    if greed is None:
        return [f"No client takes half of the handlers' time (“{first['member']}” has {share}): change nothing.", told]
    words = _greed_words(clients, greed)
    if greed.busy < BUSY:
        return [f"{words}, but the handlers had little to do: nobody waits for that client. Change nothing.", told]
    if greed.is_unjust:
        return [
            f"{words}: slow that client down with a quota, or let requests be served in turn by client "
            "(`trace study whatif --discipline fair` says what that gives).",
            told,
        ]
    return [f"{words}: that is much for one, and hardly felt by the others; change nothing.", told]


# Figures


def _figures(clients: list[dict[str, Any]]) -> list[Figure]:
    """Shares of requests and of handler time, the largest clients."""
    shown = clients[:12][::-1]
    if len(shown) < 2:
        return []
    whole = max(1, sum(row["n"] for row in clients))
    labels = [row["member"] for row in shown]
    data = [
        figure_specs.bars("of handler time", [round(row["share"] * 100, 2) for row in shown], labels),
        figure_specs.bars("of requests", [round(row["n"] / whole * 100, 2) for row in shown], labels),
    ]
    layout = figure_specs.layout(figure_specs.axis("share, %"), figure_specs.axis("client"), barmode="group")
    caption = "Of the clients with most handler time. A longer bar of time than of requests: its requests cost more."
    return [Figure("fairness", "Who gets how much", caption, {"data": data, "layout": layout})]


STUDY = Study(
    "fairness",
    "Who gets how much of the broker, and who waits for whom?\n"
    "Shares of requests, handler time and waiting, with Jain's index over clients, connections and processors.",
    "requests",
    run,
)
