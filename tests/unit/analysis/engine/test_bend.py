"""Bends and the law of scalability: what was put in is found, and where there is nothing, nothing is."""

import numpy as np
import pytest

from mpbroker.analysis.engine.mathematics import bend


def _curve(knee, slope, seed=1, noise=0.1):
    chance = np.random.default_rng(seed)
    loads = np.repeat(np.geomspace(500, 16_000, 12), 3) * chance.uniform(0.97, 1.03, 36)
    return loads, 2e6 * np.maximum(1, loads / knee) ** slope * np.exp(chance.normal(0, noise, 36))


def test_the_knee_that_was_put_in_is_found():
    loads, levels = _curve(6000, 4.0)
    found = bend.bend(loads, levels)
    low, high = bend.bend_interval(loads, levels)
    assert found.at == pytest.approx(6000, rel=0.1) and low <= 6000 <= high and high < 2 * low
    assert found.flat == pytest.approx(2e6, rel=0.1) and found.slope == pytest.approx(4, rel=0.25) and found.gain > 0.9


def test_a_flat_curve_has_none():
    assert bend.bend(*_curve(6000, 0.0)).gain < 0.3


@pytest.mark.parametrize(("contention", "coherence"), [(0.05, 0.002), (0.1, 0.0), (0.0, 0.01), (0.0, 0.0)])
def test_the_law_of_scalability_is_found(contention, coherence):
    n = np.array([1.0, 2, 4, 8, 16, 24])
    law = bend.scaling(n, bend.Scaling(1000, contention, coherence).at(n))
    assert law.gain == pytest.approx(1000) and law.contention == pytest.approx(contention, abs=1e-9)
    assert law.coherence == pytest.approx(coherence, abs=1e-9)


def test_intervals_hold_what_was_put_in_and_widen_with_noise():
    n, truth = np.array([1.0, 2, 4, 8, 16, 24]), bend.Scaling(1000, 0.05, 0.002)
    widths = []
    for noise in (0.005, 0.03):
        x = truth.at(n) * np.exp(np.random.default_rng(5).normal(0, noise, len(n)))
        [(low, high)] = bend.scaling_intervals(n, x, [lambda one: one.contention])
        assert low <= 0.05 <= high
        widths.append(high - low)
    assert widths[1] > 2 * widths[0]
