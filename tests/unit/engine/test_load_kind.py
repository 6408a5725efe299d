"""Closed loops are told from open ones by when a connection sends."""

import numpy as np
import pytest

from mpbroker.engine import load_kind
from mpbroker.engine.load_kind import LoadKind


def _served(arrivals, service):
    """One after the other, each taking `service`."""
    answered, free = [], 0
    for at in arrivals:
        free = max(free, at) + service
        answered.append(free)
    return np.array(arrivals), np.array(answered)


def test_a_client_that_waits_for_its_answer():
    arrivals = np.arange(200) * 1000 + np.random.default_rng(1).integers(0, 50, 200)
    assert load_kind.turn_share(*_served(arrivals, 900)) < load_kind.CLOSED_BELOW


@pytest.mark.parametrize("service", [1, 100, 500])
def test_independent_senders(service):
    poisson = np.cumsum(np.random.default_rng(2).exponential(1000, 2000)).astype(np.int64)
    assert load_kind.turn_share(*_served(poisson, service)) > load_kind.CLOSED_BELOW


def test_only_a_closed_loop_gets_a_sentence():
    assert load_kind.sentences(LoadKind(None, 0)) == load_kind.sentences(LoadKind(0.2, 500)) == []
    assert "closed-loop" in load_kind.sentences(LoadKind(0.9, 500))[0]
