"""The steady part of a load: warm-up cut, drift refused, chance let be."""

import numpy as np
import pytest

from mpbroker.analysis.engine.mathematics import steady_state

RANDOM = np.random.default_rng(7)


def test_a_warm_up_is_cut():
    rates = np.concatenate([np.linspace(100, 1000, 20), RANDOM.normal(1000, 20, 180)])
    found = steady_state.find(rates)
    assert found.found and 15 <= found.first <= 30 and found.end == 200


def test_a_steady_series_is_not_cut():
    cuts = [steady_state.find(np.random.default_rng(seed).poisson(300, 100)) for seed in range(20)]
    assert all(one.found for one in cuts)
    assert sum(one.first == 0 for one in cuts) >= 16


def test_a_ramp_is_no_steady_state():
    found = steady_state.find(np.linspace(100, 1000, 60))
    assert not found.found and "still changes" in found.reason


def test_a_falling_rate_is_no_steady_state():
    found = steady_state.find(np.linspace(1000, 500, 60) + np.random.default_rng(3).normal(0, 5, 60))
    assert not found.found and found.drift < 0 and "still changes by -" in found.reason


def test_a_queue_that_empties_is_no_steady_state():
    chance = np.random.default_rng(4)
    levels = np.linspace(500, 100, 60) + chance.normal(0, 5, 60)
    assert "in flight still change by -" in steady_state.find(chance.normal(1000, 20, 60), levels).reason


def test_a_growing_queue_is_no_steady_state():
    levels = np.linspace(1, 500, 60) + RANDOM.normal(0, 5, 60)
    assert "in flight" in steady_state.find(RANDOM.normal(1000, 20, 60), levels).reason
    assert steady_state.find(RANDOM.normal(1000, 20, 60), RANDOM.normal(50, 5, 60)).found


@pytest.mark.parametrize("count", [0, 1, 5])
def test_few_windows_are_said(count):
    found = steady_state.find(np.full(count, 10.0))
    assert not found.found and str(count) in found.reason


def test_an_idle_series_is_steady():
    assert steady_state.find(np.zeros(30)).found


def test_a_burst_before_a_trickle_is_no_warm_up():
    rates = np.concatenate([np.full(20, 500.0), RANDOM.poisson(20, 80)])
    assert "busier" in steady_state.find(rates).reason
