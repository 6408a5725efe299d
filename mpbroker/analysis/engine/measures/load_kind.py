"""Whether clients wait for answers before they send more (closed loop), judged from the broker's side. Pure (numpy).

A client that keeps at most c requests in flight sends number i only after the answer to number i - c: when that took
long, the two are far apart. So, per connection: the rank correlation between the time from arrival i - c to arrival i
and the latency of i - c, where c is the greatest number in flight that was seen. In models it is 0.4 to 1 for closed
loops, however long they think, and within 0.1 of 0 for open ones, Poisson or at a fixed rate, up to 90 % of what a
server can do.
"""

from typing import NamedTuple

import numpy as np

from mpbroker.analysis.engine.engines.engine import Engine, Where
from mpbroker.analysis.engine.mathematics import moments
from mpbroker.analysis.engine.mathematics.histogram import Int64s
from mpbroker.analysis.engine.mathematics.windows import Extent
from mpbroker.analysis.engine.running import wording

CLOSED_ABOVE = 0.2
NOTED_LATE = 0.03
MIN_REQUESTS = 20  # of a connection
SAMPLE_REQUESTS = 20_000
_GROUP = ("run", "broker", "conn_id")


class LoadKind(NamedTuple):
    """`closed_share`: of the requests looked at, how many came on closed-loop connections; None when it cannot be
    told."""

    closed_share: float | None
    requests: int

    @property
    def is_closed(self) -> bool:
        """Whether most of the load is."""
        return self.closed_share is not None and self.closed_share > 0.5


def judge(engine: Engine, extent: Extent) -> LoadKind:
    """From a bounded slice out of the middle of the trace; sampled traces cannot be judged."""
    if engine.input.is_sampled or not engine.keeps_requests or extent.n < 2 * MIN_REQUESTS:
        return LoadKind(None, 0)
    length = max(1, extent.last_ns - extent.first_ns)
    half = int(min(length, length * SAMPLE_REQUESTS / extent.n)) // 2 + 1
    middle = (extent.first_ns + extent.last_ns) // 2
    table = engine.requests([*_GROUP, *moments.COLUMNS], Where(middle - half, middle + half, limit=4 * SAMPLE_REQUESTS))
    when = moments.of(table)
    closed = total = 0
    for _, rows in moments.groups(table, _GROUP):
        if len(rows) >= MIN_REQUESTS:
            total += len(rows)
            closed += len(rows) if waits_for_answers(when.arrival[rows], when.send_done[rows]) else 0
    return LoadKind(closed / total if total else None, total)


def waits_for_answers(arrivals: Int64s, answered: Int64s) -> bool:
    """Whether one connection looks like a closed loop; beyond what chance does to so few requests."""
    return bool(correlation(arrivals, answered) > max(CLOSED_ABOVE, 3 / np.sqrt(len(arrivals))))


def correlation(arrivals: Int64s, answered: Int64s) -> float:
    """Of distances between arrivals with latencies, as above; 0 when either does not vary."""
    arrivals, answered = np.sort(arrivals), np.sort(answered)
    most = most_in_flight(arrivals, answered)
    if len(arrivals) - most < 2:
        return 0.0
    distance, latency = arrivals[most:] - arrivals[:-most], answered[:-most] - arrivals[:-most]
    if np.ptp(distance) == 0 or np.ptp(latency) == 0:
        return 0.0
    return float(np.corrcoef(_ranks(distance), _ranks(latency))[0, 1])


def most_in_flight(arrivals: Int64s, answered: Int64s) -> int:
    """How many of a connection's requests had come and were not answered, at most; but for the few of which a processor
    without a core noted that it had answered when the client had sent the next one already."""
    arrivals, answered = np.sort(arrivals), np.sort(answered)
    in_flight = np.arange(1, len(arrivals) + 1) - np.searchsorted(answered, arrivals, side="right")
    return max(1, int(np.quantile(in_flight, 1 - NOTED_LATE)))


def _ranks(values: Int64s) -> Int64s:
    return np.argsort(np.argsort(values, kind="stable"), kind="stable")


def sentences(kind: LoadKind) -> list[str]:
    """What it means for the figures; nothing for an open loop, or when it cannot be told."""
    if not kind.is_closed:
        return []
    return [
        f"The load is closed-loop: {wording.share(kind.closed_share or 0)} of {wording.count(kind.requests)} "
        f"requests came "
        "on connections that wait for an answer before they send more. Such clients send less while the broker is "
        "slow: "
        "the rate is what they could get, and independent senders would see higher latencies."
    ]
