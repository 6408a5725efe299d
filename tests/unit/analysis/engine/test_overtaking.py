"""Who was served during a wait, against brute force."""

import numpy as np

from mpbroker.analysis.engine.mathematics import overtaking
from mpbroker.analysis.engine.mathematics.overtaking import Served


def test_against_counting_one_by_one():
    random = np.random.default_rng(5)
    arrival = random.integers(0, 5000, 400)
    dequeued = arrival + random.integers(0, 2000, 400)
    busy = random.integers(1, 50, 400)
    begins = random.integers(0, 6000, 30)
    ends = begins + random.integers(0, 1500, 30)
    found = overtaking.during(begins, ends, Served(arrival, dequeued, busy).in_order())
    for place, (begin, end) in enumerate(zip(begins, ends, strict=True)):
        inside = (dequeued >= begin) & (dequeued < end)
        assert found.served[place] == inside.sum()
        assert found.busy[place] == busy[inside].sum()
        assert found.overtook[place] == (inside & (arrival > begin)).sum()


def test_the_earliest_overlapping_wait():
    begins, ends = np.array([30, 10, 50]), np.array([40, 35, 60])
    assert overtaking.first_overlapping(32, 33, begins, ends) == 1
    assert overtaking.first_overlapping(36, 70, begins, ends) == 0
    assert overtaking.first_overlapping(41, 49, begins, ends) is None
    assert overtaking.first_overlapping(0, 1, np.empty(0), np.empty(0)) is None
