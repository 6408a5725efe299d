"""Formulas at the points where textbooks have them in closed form; the replay beside one that counts by hand."""

import numpy as np
import pytest

from mpbroker.analysis.engine.mathematics import queueing


def test_erlang_c_in_closed_form():
    assert queueing.erlang_c(1, 0.7) == pytest.approx(0.7)
    assert queueing.erlang_c(2, 1.0) == pytest.approx(1 / 3)
    assert queueing.erlang_c(3, 2.0) == pytest.approx(4 / 9)
    assert 0.99 < queueing.erlang_c(200, 199.9) < 1.0


def _gaps(mean_ns, n=50_000):
    """Exponential ones without chance: the quantiles of the distribution."""
    return np.asarray(-mean_ns * np.log1p(-(np.arange(n) + 0.5) / n), np.int64)


@pytest.mark.parametrize("load", [0.3, 0.8])
def test_one_server_is_pollaczek_and_khinchin(load):
    services = np.full(50_000, int(load * 10_000_000))
    told = queueing.predict(_gaps(10_000_000), services, 1)
    assert told.load == pytest.approx(load, rel=1e-3)
    assert told.poisson_ns == pytest.approx(load * services[0] / (2 * (1 - load)), rel=1e-2)
    assert told.general_ns == pytest.approx(told.poisson_ns, rel=1e-2)  # these arrivals are Poisson's


def test_regular_arrivals_wait_less_and_too_many_have_no_steady_state():
    services = np.full(1000, 900)
    told = queueing.predict(np.full(999, 1000), services, 1)
    assert told.general_ns == 0 < told.poisson_ns
    assert queueing.predict(np.full(999, 400), services, 2) == (pytest.approx(1.125), None, None)
    assert queueing.predict(np.zeros(9, np.int64), services, 2).poisson_ns is None
    assert queueing.predict(np.full(9, 5), np.zeros(10, np.int64), 2) == (0.0, 0.0, 0.0)


@pytest.mark.parametrize("servers", [1, 2, 5])
def test_a_replay_is_first_come_first_served(servers):
    chance = np.random.default_rng(servers)
    arrivals = np.sort(chance.integers(0, 10_000, 300))
    services = chance.integers(0, 120 * servers // 2, 300)
    free, waits = [0] * servers, []
    for arrival, service in zip(arrivals.tolist(), services.tolist(), strict=True):
        one = min(range(servers), key=lambda number: free[number])
        waits.append(max(0, free[one] - arrival))
        free[one] = max(arrival, free[one]) + service
    assert queueing.replay(arrivals, services, servers).tolist() == waits and max(waits) > 0
    assert queueing.replay(arrivals[:0], services[:0], servers).tolist() == []
