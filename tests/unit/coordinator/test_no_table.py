"""A table that keeps nothing takes everything and knows nothing."""

from mpbroker.coordinator.group_table import GroupRow, NoTable, RowState, Seen


def test_it_refuses_nobody_and_remembers_nobody():
    table = NoTable()
    assert table.put_group("g", GroupRow(3, RowState.STABLE)) is True and table.put_member("g", "m") is True
    table.saw_member("g", "m", 5)
    table.grant("g", "m", 5)
    assert (table.group("g"), table.has_member("g", "m"), table.last_seen("g", "m")) == (None, False, None)


def test_time_is_granted_to_nobody_unless_it_is_said():
    assert Seen(5) == Seen(5, False) and Seen(5, True).is_granted


def test_the_numbers_of_states_are_those_of_earlier_processes():
    """A successor, perhaps of a later version, reads them out of memory."""
    assert [(one.name, one.value) for one in RowState] == [
        ("EMPTY", 0),
        ("PREPARING", 1),
        ("COMPLETING", 2),
        ("STABLE", 3),
    ]
