"""Closed loops are told from open ones by when a connection sends."""

import numpy as np
import pytest

from mpbroker.analysis.engine.mathematics import windows
from mpbroker.analysis.engine.measures import load_kind
from mpbroker.analysis.engine.measures.load_kind import LoadKind
from tests.harness.golden_trace import CALM, golden


def _served(arrivals, services):
    """Answers of one server that takes one after the other."""
    answered, free = [], 0
    for at, service in zip(arrivals, services, strict=True):
        free = max(free, at) + service
        answered.append(free)
    return np.array(arrivals), np.array(answered)


@pytest.mark.parametrize("in_flight", [1, 4, 16])
@pytest.mark.parametrize("think_ns", [50, 500])
def test_clients_that_wait_for_answers(in_flight, think_ns):
    random = np.random.default_rng(in_flight)
    arrivals, free = [0] * in_flight, 0
    services = random.exponential(500, 400).astype(int) + 1
    for place, service in enumerate(services.tolist()):
        free = max(free, arrivals[place]) + service
        arrivals.append(free + int(random.exponential(think_ns)))
    assert load_kind.waits_for_answers(*_served(sorted(arrivals[:400]), services))


def test_answers_that_are_noted_late_now_and_then_hide_no_closed_loop():
    """One request at a time; some seem to be under way still when the next three have come."""
    random = np.random.default_rng(5)
    services, thinking = random.exponential(500, 3000).astype(int) + 1, random.exponential(1500, 3000).astype(int)
    answered = np.cumsum(services + thinking) - thinking
    arrivals = answered - services
    answered[::150] += 4 * 2000
    assert load_kind.most_in_flight(arrivals, answered) == 1
    assert load_kind.waits_for_answers(arrivals, answered)


@pytest.mark.parametrize("load", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("poisson", [True, False])
def test_independent_senders(load, poisson):
    random = np.random.default_rng(2)
    apart = random.exponential(1000, 1000) if poisson else random.normal(1000, 50, 1000)
    arrivals = np.cumsum(np.maximum(apart, 1)).astype(np.int64)
    assert not load_kind.waits_for_answers(*_served(arrivals, random.exponential(1000 * load, 1000).astype(int) + 1))


def test_the_models_load_is_open(tmp_path):
    with golden(tmp_path, CALM) as (engine, _):
        kind = load_kind.judge(engine, windows.extent(engine.activity(0)))
    assert kind.requests > 1000 and kind.closed_share < 0.3 and not kind.is_closed


def test_only_a_closed_loop_gets_a_sentence():
    assert load_kind.sentences(LoadKind(None, 0)) == load_kind.sentences(LoadKind(0.2, 500)) == []
    assert "closed-loop" in load_kind.sentences(LoadKind(0.9, 500))[0]
