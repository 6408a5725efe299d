"""Who was served while somebody waited: counts and handler time of others, for very many waits at once. Pure (numpy).

Times are int64 nanoseconds of one broker's monotonic clock.
"""

from typing import NamedTuple

import numpy as np

from mpbroker.analysis.engine.mathematics.histogram import Int64s


class Served(NamedTuple):
    """Requests that handlers took, by `dequeued`. `busy`: how long each held its handler."""

    arrival: Int64s
    dequeued: Int64s
    busy: Int64s

    def in_order(self) -> "Served":
        """Sorted by `dequeued`, as `during` needs it."""
        order = np.argsort(self.dequeued, kind="stable")
        return Served(self.arrival[order], self.dequeued[order], self.busy[order])


class During(NamedTuple):
    """Per wait: requests taken within it, their handler time, and how many of them had arrived after the one that
    waited."""

    served: Int64s
    busy: Int64s
    overtook: Int64s


def during(begins: Int64s, ends: Int64s, others: Served) -> During:
    """What was taken in [begin, end) of each wait; `others` in order."""
    first = np.searchsorted(others.dequeued, begins, side="left")
    last = np.maximum(first, np.searchsorted(others.dequeued, ends, side="left"))
    busy = np.concatenate([np.zeros(1, np.int64), np.cumsum(others.busy)])
    overtook = np.array(
        [
            np.count_nonzero(others.arrival[a:b] > begin)
            for a, b, begin in zip(first.tolist(), last.tolist(), begins.tolist(), strict=True)
        ],
        np.int64,
    )
    return During(last - first, busy[last] - busy[first], overtook)


def first_overlapping(begin: int, end: int, begins: Int64s, ends: Int64s) -> int | None:
    """The place of the earliest begun of the intervals that share a moment with [begin, end]; None without one."""
    places = np.flatnonzero((begins <= end) & (ends >= begin))
    return int(places[np.argmin(begins[places])]) if len(places) else None
