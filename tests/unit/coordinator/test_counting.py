"""Amounts are stored, events added: a counter outlives the process that counted."""

from types import SimpleNamespace

from mpbroker.coordinator.counting import _EVENTS, _PRESENT, Counting
from mpbroker.coordinator.environment import Counts


def test_events_are_added_and_amounts_stored():
    stored, added = {}, []
    row = SimpleNamespace(set_counter=stored.__setitem__, count=lambda counter, by: added.append((counter, by)))
    counting, counts = Counting(row), Counts()
    counting.publish(counts)
    assert added == [] and set(stored) == set(_PRESENT.values()) and set(stored.values()) == {0}
    event, amount = next(iter(_EVENTS)), next(iter(_PRESENT))
    setattr(counts, event, 1)
    setattr(counts, amount, 5)
    counting.publish(counts)
    counting.publish(counts)
    assert added == [(_EVENTS[event], 1)] and stored[_PRESENT[amount]] == 5
    setattr(counts, event, 4)
    counting.publish(counts)
    assert added[1:] == [(_EVENTS[event], 3)]
