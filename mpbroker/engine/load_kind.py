"""Whether clients wait for answers before they send more (closed loop), judged from the broker's side. Pure (numpy).

A closed loop sends right after an answer; an open one sends when it is time to. So, per connection: the median time from the
last answer sent to the next request's arrival, as a share of the mean time between arrivals. Poisson arrivals give 0.69, a
fixed rate 0.5 or more, a closed loop what its client needs to turn around. Below 0.35 a connection counts as closed.
A closed loop with long thinking cannot be told from an open one, nor does it matter then.
"""

from typing import NamedTuple

import numpy as np

from mpbroker.engine import moments, wording
from mpbroker.engine.engine import Engine, Where
from mpbroker.engine.histogram import Int64s
from mpbroker.engine.windows import Extent

CLOSED_BELOW = 0.35
LEAST_REQUESTS = 20  # of a connection
SAMPLE_REQUESTS = 20_000
_GROUP = ("run", "broker", "conn_id")


class LoadKind(NamedTuple):
    """`closed_share`: of the requests looked at, how many came on closed-loop connections; None when it cannot be told."""

    closed_share: float | None
    requests: int

    @property
    def is_closed(self) -> bool:
        """Whether most of the load is."""
        return self.closed_share is not None and self.closed_share > 0.5


def judge(engine: Engine, extent: Extent) -> LoadKind:
    """From a bounded slice out of the middle of the trace; sampled traces cannot be judged."""
    if engine.input.is_sampled or extent.n < 2 * LEAST_REQUESTS:
        return LoadKind(None, 0)
    length = max(1, extent.last_ns - extent.first_ns)
    half = int(min(length, length * SAMPLE_REQUESTS / extent.n)) // 2 + 1
    middle = (extent.first_ns + extent.last_ns) // 2
    table = engine.requests([*_GROUP, *moments.COLUMNS], Where(middle - half, middle + half, limit=4 * SAMPLE_REQUESTS))
    when = moments.of(table)
    closed = total = 0
    for _, rows in moments.groups(table, _GROUP):
        if len(rows) >= LEAST_REQUESTS:
            total += len(rows)
            closed += len(rows) if turn_share(when.arrival[rows], when.send_done[rows]) < CLOSED_BELOW else 0
    return LoadKind(closed / total if total else None, total)


def turn_share(arrivals: Int64s, answered: Int64s) -> float:
    """Median time from the last answer to an arrival, as a share of the mean time between arrivals. One connection."""
    arrivals, answered = np.sort(arrivals), np.sort(answered)
    before = np.searchsorted(answered, arrivals, side="right") - 1
    gaps = (arrivals - answered[before])[before >= 0]
    between = (arrivals[-1] - arrivals[0]) / max(1, len(arrivals) - 1)
    return float(np.median(gaps)) / between if len(gaps) and between > 0 else 1.0


def sentences(kind: LoadKind) -> list[str]:
    """What it means for the figures; nothing for an open loop, or when it cannot be told."""
    if not kind.is_closed:
        return []
    return [f"The load looks closed-loop ({wording.share(kind.closed_share or 0)} of {wording.count(kind.requests)} requests "
            "came on connections that send right after an answer): such clients send less while the broker is slow, so that "
            "these latencies are better than what an independent sender would see, and the rate is what they could get."]
