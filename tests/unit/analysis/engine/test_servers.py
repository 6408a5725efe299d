"""Spells of busy servers beside a count of every nanosecond."""

import numpy as np
import pytest

from mpbroker.analysis.engine.mathematics import servers


def _intervals(seed, number=40, length=300):
    chance = np.random.default_rng(seed)
    begins = chance.integers(0, length, number)
    return begins, begins + chance.integers(0, 30, number)


def _running(begins, ends, length=400):
    return np.array([((begins <= at) & (at < ends)).sum() for at in range(length)])


@pytest.mark.parametrize("number", [1, 2, 5])
def test_spells_are_every_nanosecond_counted(number):
    begins, ends = _intervals(number)
    spells, held = servers.at_least(begins, ends, number), _running(begins, ends) >= number
    asked_from, asked_to = _intervals(9)
    naive = [held[a:b].sum() for a, b in zip(asked_from, asked_to, strict=True)]
    assert spells.within(asked_from, asked_to).tolist() == naive and sum(naive) > 0


def test_one_without_another():
    some, other = _intervals(1), _intervals(2)
    spells = servers.without(servers.at_least(*some, 1), servers.at_least(*other, 3))
    held = (_running(*some) >= 1) & ~(_running(*other) >= 3)
    assert spells.until(np.arange(0, 400)).tolist() == [held[:at].sum() for at in range(400)]


def test_nothing_holds_nowhere():
    nobody = np.empty(0, np.int64)
    spells = servers.without(servers.at_least(nobody, nobody, 1), servers.at_least(nobody, nobody, 1))
    assert spells.within(np.array([1]), np.array([5])).tolist() == [0]


def test_a_server_that_goes_straight_on_was_not_free():
    server, begins = np.array([0, 0, 1, 0]), np.array([10, 25, 22, 60])
    ends, enqueued = np.array([20, 30, 40, 70]), np.array([5, 19, 21, 55])
    assert servers.busy_until(server, begins, ends, enqueued).tolist() == [25, 30, 40, 70]
