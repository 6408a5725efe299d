"""Log buckets, 32 to an octave: durations as integers that add up over time, brokers, runs and engines. Pure (numpy).

    bucket = floor(32 * log2(ns + 1))

A percentile is the middle of its bucket, at most 1.1 % off. The boundaries are computed in whole numbers, and a bucket
taken from a floating-point logarithm is put right by comparing with them, so that every machine and engine finds the
same. mpbroker.trace.statistics.bucket_of is the same for one number, without numpy.
"""

from collections.abc import Sequence
from functools import cache
from math import isqrt

import numpy as np
import numpy.typing as npt

from mpbroker.trace.record import TICK_SHIFT
from mpbroker.trace.statistics import BUCKETS_PER_OCTAVE

Int64s = npt.NDArray[np.int64]

BUCKETS = 40 * BUCKETS_PER_OCTAVE  # up to 2**40 ns; the longest sum of two durations has less than 2**39
_TABLE_TICKS = 1 << 16


def boundary(bucket: int) -> int:
    """The least ns + 1 of a bucket: the least whole number whose 32nd power is at least 2**bucket."""
    root = 1 << bucket
    for _ in range(5):  # the 32nd root, by five square roots; rounding down each time leaves the floor of the whole
        root = isqrt(root)
    return root if root**BUCKETS_PER_OCTAVE >= 1 << bucket else root + 1


@cache
def boundaries() -> Int64s:
    """boundary(0) … boundary(BUCKETS), read-only."""
    found = np.array([boundary(bucket) for bucket in range(BUCKETS + 1)], np.int64)
    found.flags.writeable = False
    return found


def buckets_of_ns(ns: Int64s) -> Int64s:
    """The bucket of each duration in nanoseconds, 0 … 2**40 - 2."""
    value = ns + 1
    found = np.minimum((np.log2(value.astype(np.float64)) * BUCKETS_PER_OCTAVE).astype(np.int64), BUCKETS - 1)
    edges = boundaries()
    found -= value < edges[found]
    found += value >= edges[found + 1]
    return found


@cache
def _short() -> Int64s:
    return buckets_of_ns(np.arange(_TABLE_TICKS, dtype=np.int64) << TICK_SHIFT)


def buckets_of_ticks(ticks: Int64s) -> Int64s:
    """The bucket of each duration in ticks of 64 ns; most are short, and stand in a table."""
    long = ticks >= _TABLE_TICKS
    if not long.any():
        return _short()[ticks]
    found = _short()[np.where(long, 0, ticks)]
    found[long] = buckets_of_ns(ticks[long] << TICK_SHIFT)
    return found


def middle_ns(bucket: float) -> float:
    """The middle of a bucket, in nanoseconds."""
    return float(2 ** ((bucket + 0.5) / BUCKETS_PER_OCTAVE) - 1)


def percentile(
    buckets: Sequence[int] | Int64s, counts: Sequence[int] | Int64s, q: float, max_ns: int | None = None
) -> float | None:
    """Nanoseconds that a share q (0 … 1) of the durations does not exceed: the middle of the bucket, at most `max_ns`.

    Buckets in any order, a bucket may come several times. None when there are no counts.
    """
    order = np.argsort(np.asarray(buckets, np.int64), kind="stable")
    sums = np.cumsum(np.asarray(counts, np.int64)[order])
    if len(sums) == 0 or sums[-1] == 0:
        return None
    place = int(np.searchsorted(sums, max(1.0, q * float(sums[-1])) - 1e-9))
    found = middle_ns(int(np.asarray(buckets)[order[min(place, len(order) - 1)]]))
    return found if max_ns is None else min(found, float(max_ns))


def merge(*histograms: tuple[Sequence[int] | Int64s, Sequence[int] | Int64s]) -> tuple[Int64s, Int64s]:
    """(buckets, counts) of several added up, buckets rising."""
    buckets = np.concatenate([np.asarray(one[0], np.int64) for one in histograms] or [np.empty(0, np.int64)])
    counts = np.concatenate([np.asarray(one[1], np.int64) for one in histograms] or [np.empty(0, np.int64)])
    found, places = np.unique(buckets, return_inverse=True)
    total = np.zeros(len(found), np.int64)
    np.add.at(total, places, counts)
    return found, total
