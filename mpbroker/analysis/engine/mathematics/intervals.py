"""Time integrals of queues from the intervals of those who waited in them. Pure (numpy); exact whole numbers.

All times are int64 nanoseconds of one clock. The number waiting at a moment is |begun| - |ended|, hence its integral
over a window is a difference of sums that two sorted arrays give at once, however many intervals there are.
"""

import numpy as np

from mpbroker.analysis.engine.mathematics.histogram import Int64s


def waited_until(edges: Int64s, begins: Int64s, ends: Int64s) -> Int64s:
    """Integral of the number waiting, from the beginning of all to each edge: nanoseconds of waiting."""
    origin = np.int64(min(edges.min(), begins.min())) if len(begins) else edges.min()
    return _elapsed(edges - origin, np.sort(begins - origin)) - _elapsed(edges - origin, np.sort(ends - origin))


def _elapsed(edges: Int64s, since: Int64s) -> Int64s:
    """Sum over all of `since` (sorted) of max(0, edge - since)."""
    sums = np.concatenate([np.zeros(1, np.int64), np.cumsum(since)])
    passed = np.searchsorted(since, edges, side="right")
    total: Int64s = passed * edges - sums[passed]
    return total


def waiting_in_windows(edges: Int64s, begins: Int64s, ends: Int64s) -> Int64s:
    """Nanoseconds of waiting within each window [edges[i], edges[i + 1])."""
    return np.diff(waited_until(edges, begins, ends))


def found_by_arrivals(begins: Int64s, ends: Int64s) -> Int64s:
    """How many were waiting when each of them came: begun before it, not ended by then. Of equal begins, one is before
    the other."""
    rank = np.empty(len(begins), np.int64)
    rank[np.argsort(begins, kind="stable")] = np.arange(len(begins))
    ended = np.searchsorted(np.sort(ends), begins, side="right") - (begins == ends)
    found: Int64s = np.maximum(0, rank - ended)
    return found
