"""Amounts of transactions are stored, events added: a counter outlives the process that counted."""

from types import SimpleNamespace

import pytest

from mpbroker.coordinator.transactions.transaction_counting import _EVENTS, TransactionCounting
from mpbroker.coordinator.transactions.transaction_environment import TransactionCounts
from mpbroker.shm.counters import Counter


@pytest.fixture
def world():
    stored, added = {}, []
    row = SimpleNamespace(set_counter=stored.__setitem__, count=lambda counter, by: added.append((counter, by)))
    return SimpleNamespace(counting=TransactionCounting(row), counts=TransactionCounts(), stored=stored, added=added)


def test_amounts_are_stored_as_they_are(world):
    world.counts.transactional_ids, world.counts.partitions = 3, 4
    for _ in range(2):
        world.counting.publish(world.counts)
        assert world.stored == {Counter.TRANSACTIONAL_IDS: 3, Counter.TRANSACTION_PARTITIONS: 4}
    assert world.added == []


@pytest.mark.parametrize("event", list(_EVENTS))
def test_events_since_the_last_time_are_added(world, event):
    for total, added in ((1, 1), (1, None), (5, 4)):
        setattr(world.counts, event, total)
        world.counting.publish(world.counts)
        assert world.added == ([] if added is None else [(_EVENTS[event], added)])
        world.added.clear()
