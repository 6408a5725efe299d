"""Buckets: the same whole numbers whatever computes them; percentiles within half a bucket."""

import numpy as np
import pytest

from mpbroker.analysis.engine.mathematics import histogram
from mpbroker.trace.statistics import Histogram, bucket_of

LAST = 39 * 32


def _around_boundaries() -> list[int]:
    return sorted({max(0, histogram.boundary(bucket) - 1 + by) for bucket in range(LAST + 1) for by in (-1, 0, 1)})


def _exact(ns: int) -> int:
    """floor(32 * log2(ns + 1)) in whole numbers: how often 2 divides out of the 32nd power."""
    return ((ns + 1) ** 32).bit_length() - 1


def test_every_boundary_up_to_2_to_39_is_exact_in_both_definitions():
    values = _around_boundaries()
    assert values[-1] >= 2**39
    exact = [_exact(ns) for ns in values]
    assert [bucket_of(ns) for ns in values] == exact
    assert histogram.buckets_of_ns(np.array(values)).tolist() == exact


def test_a_plain_float64_logarithm_is_exact_too_and_float32_is_not():
    """Other engines may use their own log2 in float64, if it passes the same walk."""
    values = np.array(_around_boundaries())
    exact = np.array([_exact(int(ns)) for ns in values])
    assert (np.floor(np.log2(values.astype(np.float64) + 1) * 32) == exact).all()
    assert (np.floor(np.log2(values.astype(np.float32) + 1) * 32) != exact).any()


def test_a_logarithm_that_is_wrong_is_put_right(monkeypatch):
    values = np.array(_around_boundaries())
    right = histogram.buckets_of_ns(values)
    true_log2 = np.log2
    monkeypatch.setattr(histogram.np, "log2", lambda x: np.maximum(true_log2(x) - 1e-13, 0))
    assert (histogram.buckets_of_ns(values) == right).all()
    monkeypatch.setattr(histogram.np, "log2", lambda x: true_log2(x) + 1e-13)
    assert (histogram.buckets_of_ns(values) == right).all()


def test_ticks_use_the_same_buckets():
    ticks = np.array([0, 1, 2, 65535, 65536, 65537, (1 << 31) - 1])
    assert histogram.buckets_of_ticks(ticks).tolist() == [_exact(int(one) << 6) for one in ticks]
    assert histogram.buckets_of_ticks(ticks[:3]).tolist() == [_exact(int(one) << 6) for one in ticks[:3]]


@pytest.mark.parametrize("q", [0.0, 0.5, 0.9, 0.99, 0.999, 1.0])
def test_percentiles_are_those_of_the_plain_statistics(q):
    one = Histogram()
    for n in range(1, 2000):
        one.add(n * n, weight=1 + n % 3)
    buckets = sorted(one.buckets)
    found = histogram.percentile(buckets, [one.buckets[bucket] for bucket in buckets], q, one.greatest_ns)
    assert found == pytest.approx(one.percentile(100 * q), rel=0.012)
    backwards = buckets[::-1]
    assert histogram.percentile(backwards, [one.buckets[bucket] for bucket in backwards], q, one.greatest_ns) == found


def test_percentile_is_within_a_hundredth_of_the_truth():
    values = np.sort(np.random.default_rng(1).lognormal(12, 2, 100_001).astype(np.int64))
    buckets, counts = np.unique(histogram.buckets_of_ns(values), return_counts=True)
    for q in (0.5, 0.9, 0.99, 0.999):
        assert histogram.percentile(buckets, counts, q) == pytest.approx(
            values[int(np.ceil(q * len(values))) - 1], rel=0.0115
        )


def test_no_percentile_is_above_the_largest_duration():
    for ns in (1, 1000, 123_456_789):
        (bucket,) = histogram.buckets_of_ns(np.array([ns], np.int64)).tolist()
        largest = int(histogram.middle_ns(bucket)) - 1  # below the middle of its bucket
        for q in (0.5, 0.99, 1.0):
            assert histogram.percentile([bucket], [10], q, largest) == largest
            assert histogram.percentile([bucket], [10], q) > largest


def test_nothing_has_no_percentile():
    assert histogram.percentile([], [], 0.5) is None
    assert histogram.percentile([3], [0], 0.5) is None


def test_merge_adds_whole_numbers():
    buckets, counts = histogram.merge(([1, 5], [1 << 60, 2]), ([5, 7], [3, 4]), ([], []))
    assert buckets.tolist() == [1, 5, 7] and counts.tolist() == [1 << 60, 5, 4]
    assert [one.tolist() for one in histogram.merge()] == [[], []]
