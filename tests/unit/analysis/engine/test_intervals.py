"""Integrals of waiting, against counting by hand and against brute force."""

import numpy as np

from mpbroker.analysis.engine.mathematics import intervals


def _random_waits(number=300):
    random = np.random.default_rng(1)
    begins = np.sort(random.integers(0, 10_000, number)) + 10**15
    return begins, begins + random.integers(1, 900, number)


def test_waiting_in_windows():
    begins, ends = np.array([0, 5, 20]), np.array([10, 25, 21])
    assert intervals.waiting_in_windows(np.array([0, 10, 20, 30]), begins, ends).tolist() == [15, 10, 6]
    assert intervals.waiting_in_windows(np.array([-5, 0]), begins, ends).tolist() == [0]


def test_all_windows_together_are_all_waiting():
    begins, ends = _random_waits()
    edges = np.linspace(begins.min(), ends.max(), 7).astype(np.int64)
    assert intervals.waiting_in_windows(edges, begins, ends).sum() == (ends - begins).sum()


def test_what_arrivals_found():
    begins, ends = _random_waits()
    first = np.unique(begins, return_index=True)[1]
    begins, ends = begins[first], ends[first]
    expected = [int(np.count_nonzero((begins < at) & (ends > at))) for at in begins]
    assert intervals.found_by_arrivals(begins, ends).tolist() == expected


def test_arrivals_at_one_moment_find_each_other():
    at = np.full(4, 50)
    assert sorted(intervals.found_by_arrivals(at, at + 10).tolist()) == [0, 1, 2, 3]
    assert intervals.found_by_arrivals(np.array([1, 5]), np.array([1, 5])).tolist() == [0, 0]


def test_nothing_waits_in_an_empty_ring():
    none = np.empty(0, np.int64)
    assert intervals.waiting_in_windows(np.array([0, 10]), none, none).tolist() == [0]
    assert intervals.found_by_arrivals(none, none).tolist() == []
