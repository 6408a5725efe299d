"""Where the time of all requests went, as findings: which cause explains how much of it. Pure but for the engine.

Time is that of active_total: without waiting that clients asked for. A stage is a symptom; its time is shared out among
causes. Of the waiting for processors and handlers that part counts as "no core" in which they were ready but had none,
by the gauges: waiting / (waiting + working), window by window. Of the waiting in the socket that part counts as "own
connection" in which an earlier request of the same connection was not answered yet: a broker reads the next one only
then. It is measured on a bounded sample.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mpbroker.analysis.engine.engines.engine import Engine, Where
from mpbroker.analysis.engine.input.durations import ASKED_WAIT
from mpbroker.analysis.engine.input.trace_input import TraceInput
from mpbroker.analysis.engine.mathematics import moments, utilisation
from mpbroker.analysis.engine.mathematics.histogram import Int64s
from mpbroker.analysis.engine.mathematics.windows import Extent
from mpbroker.analysis.engine.running import wording
from mpbroker.analysis.engine.running.finding import Finding

SAMPLE_REQUESTS = 20_000
MIN_STARVED = 0.02  # of the time; less is noise of the scheduler
IDLE_BELOW = 0.3  # of the time: a process that does less is not what requests wait for, but its waking is
#: Of a request: no waking takes longer. Who waits longer for a process that is idle on average met it in a burst.
WAKE_MOST_NS = 1_000_000
#: Stage of PIPELINE → kind of finding.
KINDS = {
    "rx_wait": "rx_wait",
    "read": "own_connection",
    "parse": "work",
    "ring_block": "ring_block",
    "queue": "queue",
    "dispatch": "work",
    "io": "io",
    "local": "work",
    "purgatory": "purgatory",
    "resp_prep": "work",
    "resp_queue": "answer",
    "send_wait": "answer",
    "send": "send",
}
#: Whom a stage waits for.
WAITED_FOR = {"rx_wait": "processor", "queue": "handler", "resp_queue": "processor", "send_wait": "processor"}
#: "Produce requests spend 40 % of their time …".
DOING = {
    "rx_wait": "waiting in the socket until a processor reads them",
    "wake_up": "waiting for a processor or handler that is idle and must wake up",
    "own_connection": "waiting behind earlier requests of their own connection, or for the rest of their frame",
    "ring_block": "held back because the request ring is full",
    "queue": "waiting in the request ring for a handler",
    "io": "reading or writing the log",
    "work": "being worked on (parsing, checks, copying)",
    "purgatory": "in purgatory, for what they asked for",
    "answer": "waiting, answered already, until a processor or the socket takes the answer",
    "send": "having their answer sent",
}
_shares: WeakKeyDictionary[TraceInput, dict[Extent, float]] = WeakKeyDictionary()
Costs = dict[tuple[str, str], float]  # (kind, API) → ns


@dataclass
class Busy:
    """What processes of one role did, by sample of the gauges: means over the processes of the role."""

    until_ns: Int64s = field(default_factory=lambda: np.empty(0, np.int64))
    working: list[float] = field(default_factory=list)
    starved: list[float] = field(default_factory=list)

    def at(self, epoch_ns: int) -> tuple[float, float] | None:
        """(share working, share ready but without a core) in the sample that covers this moment; None: no sample."""
        if not len(self.until_ns):
            return None
        place = min(int(np.searchsorted(self.until_ns, epoch_ns)), len(self.until_ns) - 1)
        return self.working[place], self.starved[place]


def findings(engine: Engine, found: Extent, rollup: pa.Table, window_ms: int) -> list[Finding]:
    """Of a rollup by window and (at least) API. Costs add up to the whole time but for what lies between stages."""
    spent = _spent(rollup)
    total_s = sum(ns for (_, _, stage), ns in spent.items() if stage == "active_total") / 1e9
    if total_s <= 0:
        return []
    used = utilisation.of_processes(engine.input.gauges())
    busy = {role: _busy(used, role) for role in ("processor", "handler")}
    own_share = own_connection_share(engine, found)
    costs, apis = _costs(spent, _counts(rollup), busy, own_share, window_ms)
    requests = dict(zip(*_requests(rollup), strict=True))
    kinds = list(dict.fromkeys(kind for kind, _ in costs))
    return [
        Finding(kind, _sentence(kind, costs, apis, requests, used, found), _sum(costs, kind) / 1e9, total_s)
        for kind in kinds
        if _sum(costs, kind) > 0
    ]


def own_connection_share(engine: Engine, found: Extent) -> float:
    """Of all time in the socket: in how much an earlier request of the same connection was still being served. 0 where
    it cannot be told (a sampled trace). Several studies of one input ask; it is read once."""
    known = _shares.setdefault(engine.input, {})
    if found not in known:
        known[found] = _own_connection_share(engine, found)
    return known[found]


def _own_connection_share(engine: Engine, found: Extent) -> float:
    if engine.input.is_sampled or not engine.keeps_requests or found.n < 2:
        return 0.0
    half = int(min(1.0, SAMPLE_REQUESTS / found.n) * (found.last_ns - found.first_ns)) // 2 + 1
    middle = (found.first_ns + found.last_ns) // 2
    table = engine.requests(
        ["run", "broker", "conn_id", *moments.COLUMNS], Where(middle - half, middle + half, limit=4 * SAMPLE_REQUESTS)
    )
    when, waited, own = moments.of(table), 0, 0
    for _, rows in moments.groups(table, ("run", "broker", "conn_id")):
        order = rows[np.argsort(when.arrival[rows], kind="stable")]
        arrival, answered = when.arrival[order], np.maximum.accumulate(when.send_done[order])
        begun = arrival + moments.column(table, "rx_wait_ns")[order]
        waited += int((begun - arrival).sum())
        own += int(np.maximum(0, np.minimum(begun[1:], answered[:-1]) - arrival[1:]).sum())
    return own / waited if waited else 0.0


def _spent(rollup: pa.Table) -> dict[tuple[int, str, str], int]:
    """(window, API, stage) → nanoseconds; purgatory without what clients asked for."""
    summed = rollup.group_by(["window_ms", "api", "stage"]).aggregate([("sum_ns", "sum")])
    keys = zip(summed["window_ms"].to_pylist(), summed["api"].to_pylist(), summed["stage"].to_pylist(), strict=True)
    spent: dict[tuple[int, str, str], int] = dict(zip(keys, summed["sum_ns_sum"].to_pylist(), strict=True))
    for window, api, stage in list(spent):
        if stage == ASKED_WAIT:
            spent[window, api, "purgatory"] -= spent[window, api, stage]
    return spent


def _requests(rollup: pa.Table) -> tuple[list[str], list[int]]:
    """How many requests of each API were answered."""
    whole = rollup.filter(pc.equal(rollup["stage"], "active_total")).group_by("api").aggregate([("n", "sum")])
    return whole["api"].to_pylist(), whole["n_sum"].to_pylist()


def _busy(used: pa.Table, role: str) -> Busy:
    samples: dict[int, list[tuple[float, float]]] = {}
    for row in used.to_pylist():
        if row["role"] == role:
            samples.setdefault(row["epoch_ns"], []).append((row["cpu_share"], row["runqueue_share"] or 0.0))
    at = sorted(samples)
    means = [np.mean(samples[one], axis=0) for one in at]
    return Busy(np.array(at, np.int64), [float(one[0]) for one in means], [float(one[1]) for one in means])


def _counts(rollup: pa.Table) -> dict[tuple[int, str, str], int]:
    """(window, API, stage) → requests that were in it."""
    summed = rollup.group_by(["window_ms", "api", "stage"]).aggregate([("n", "sum")])
    keys = zip(summed["window_ms"].to_pylist(), summed["api"].to_pylist(), summed["stage"].to_pylist(), strict=True)
    return dict(zip(keys, summed["n_sum"].to_pylist(), strict=True))


def _costs(
    spent: Mapping[tuple[int, str, str], int],
    counts: Mapping[tuple[int, str, str], int],
    busy: Mapping[str, Busy],
    own_share: float,
    window_ms: int,
) -> tuple[Costs, dict[str, float]]:
    """Nanoseconds by cause and API; and those of each API in all."""
    costs: Costs = {}
    api_ns: dict[str, float] = {}

    def add(kind: str, api: str, ns: float) -> None:
        costs[kind, api] = costs.get((kind, api), 0.0) + ns

    for (window, api, stage), ns in spent.items():
        if stage == "active_total":
            api_ns[api] = api_ns.get(api, 0.0) + ns
        if stage not in KINDS:
            continue
        left = float(ns)
        if stage == "rx_wait":
            add("own_connection", api, left * own_share)
            left -= left * own_share
        each_ns = left / max(1, counts[window, api, stage])
        for kind, part in _shared_out(stage, busy, (window + window_ms) * 1_000_000, each_ns):
            add(kind, api, left * part)
    return costs, api_ns


def _shared_out(stage: str, busy: Mapping[str, Busy], until_ns: int, each_ns: float) -> list[tuple[str, float]]:
    """Kinds and their parts of a stage's time in one window; `each_ns`: of one request in it."""
    role = WAITED_FOR.get(stage)
    seen = busy[role].at(until_ns) if role else None
    if seen is None:
        return [(KINDS[stage], 1.0)]
    working, starved = seen
    no_core = starved / (working + starved) if starved >= MIN_STARVED else 0.0
    idle = working + starved < IDLE_BELOW and each_ns <= WAKE_MOST_NS
    rest = "wake_up" if idle else KINDS[stage]
    return [("no_core", no_core), (rest, 1 - no_core)]


def _sum(costs: Costs, kind: str) -> float:
    return sum(ns for (one, _), ns in costs.items() if one == kind)


def _sentence(
    kind: str,
    costs: Costs,
    api_ns: Mapping[str, float],
    requests: Mapping[str, int],
    used: pa.Table,
    found: Extent,
) -> str:
    if kind == "no_core":
        return _no_core_sentence(used, found)
    by_api = sorted(((api, ns) for (one, api), ns in costs.items() if one == kind), key=lambda item: -item[1])
    api, ns = by_api[0]
    others = [other for other, part in by_api[1:] if part > 0.25 * ns]
    each = f", {wording.duration(ns / requests[api])} each" if requests.get(api) else ""
    share = min(1.0, ns / max(1.0, api_ns.get(api, ns)))  # of those that were answered: others may have waited longer
    return (
        f"{api} requests spend {wording.share(share)} of their time{each}, {DOING[kind]}"
        + (f"; so do {wording.listed(others[:3])}" if others else "")
        + "."
    )


def _no_core_sentence(used: pa.Table, found: Extent) -> str:
    """Names the process that waited longest for a core."""
    means = utilisation.means(used, found.first_ns, found.last_ns + 2_000_000_000)
    name, (cpu, waited) = max(
        ((name, each) for name, each in means.items() if name.startswith(("processor", "handler"))),
        key=lambda item: item[1][1] or 0.0,
    )
    return (
        f"{name[:1].upper()}{name[1:]} was ready to run but had no core for {wording.share(waited or 0.0)} of the "
        f"time (it ran "
        f"{wording.share(cpu)}); requests waited meanwhile."
    )
