"""Weighted percentiles, Jain's index and least squares, beside what one would write by hand."""

import random

import numpy as np
import pytest

from mpbroker.analysis.engine.mathematics import weighted


def test_a_percentile_is_that_of_every_value_written_out():
    chance = random.Random(4)
    values = np.array([chance.randrange(1000) for _ in range(200)], np.int64)
    weights = np.array([chance.choice((1, 1, 4, 8)) for _ in values], np.int64)
    every = sorted(
        value for value, weight in zip(values.tolist(), weights.tolist(), strict=True) for _ in range(weight)
    )
    for q in (0.01, 0.5, 0.9, 0.99, 1.0):
        place = next(n for n in range(len(every)) if n + 1 >= q * len(every))
        assert weighted.percentile(values, weights, q) == every[place]
    assert weighted.percentile(values[:0], weights[:0], 0.5) == 0


def test_jain():
    assert weighted.jain([5, 5, 5]) == 1.0 and weighted.jain([9, 0, 0]) == pytest.approx(1 / 3)
    assert weighted.jain([0, 0]) == 1.0 and weighted.jain([1, 3]) == pytest.approx(16 / 20)


def test_a_line_is_found_whatever_the_order_of_its_rows():
    chance = np.random.default_rng(3)
    size, parts = chance.integers(100, 100_000, 400), chance.integers(1, 30, 400)
    noise = chance.integers(-500, 500, 400)
    values, weights = 9_000 + 3 * size + 700 * parts + noise, chance.choice([1, 2], 400)
    line = weighted.least_squares([size, parts, 2 * parts], values, weights)
    assert line.slopes[0] == pytest.approx(9_000, abs=150) and line.slopes[1] == pytest.approx(3, abs=0.01)
    assert line.slopes[2] == pytest.approx(700, abs=10) and line.slopes[3] is None, "twice the same tells nothing"
    assert 0 < line.errors[2] < 5 and line.explained > 0.99
    order = chance.permutation(400)
    again = weighted.least_squares([each[order] for each in (size, parts, 2 * parts)], values[order], weights[order])
    assert again == line
