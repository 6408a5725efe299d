"""The group table in shared memory: what a successor finds, and what it does when it is full."""

import pytest

from mpbroker.coordinator import shared_table
from mpbroker.coordinator.group_table import GroupRow, RowState, Seen
from mpbroker.coordinator.shared_table import SharedTable
from tests.harness.small_core import small_core


def test_a_successor_finds_what_was_stored():
    core = small_core().core
    table = SharedTable(core)
    assert table.group("g") is None and not table.has_member("g", "m")
    assert table.put_group("g", GroupRow(2**31 - 1, RowState.COMPLETING)) and table.put_group(
        "h", GroupRow(0, RowState.EMPTY)
    )
    assert table.put_member("g", "m") and table.put_member("g", "n")
    table.drop_group("h")
    table.drop_member("g", "n")
    successor = SharedTable(core)
    assert successor.group("g") == GroupRow(2**31 - 1, RowState.COMPLETING) and successor.group("h") is None
    assert successor.has_member("g", "m") and not successor.has_member("g", "n")
    assert not successor.has_member("gm", "")  # ids are not run together


def test_a_successor_finds_the_last_sign_of_life_of_those_that_are_there():
    core = small_core().core
    table = SharedTable(core)
    assert table.put_member("g", "m") and table.put_member("g", "silent") and table.put_member("g", "left")
    table.saw_member("g", "m", 4_000_000)
    table.saw_member("g", "left", 4_000_000)
    table.saw_member("g", "m", 5_000_999)
    table.drop_member("g", "left")
    table.saw_member("g", "left", 6_000_000)
    assert table.put_member("g", "m"), "stored again, as after a load, it keeps what was seen"
    for each in (table, SharedTable(core)):
        found = [each.last_seen("g", one) for one in ("m", "silent", "left", "stranger")]
        assert found == [Seen(5_000_000), None, None, None]
    table.grant("g", "m", 7_000_001)
    table.grant("g", "silent", -5)
    table.grant("g", "left", 7_000_000)
    for each in (table, SharedTable(core)):
        found = [each.last_seen("g", one) for one in ("m", "silent", "left")]
        assert found == [Seen(7_000_000, True), Seen(1000, True), None]
    table.saw_member("g", "m", 8_000_000)
    assert table.last_seen("g", "m") == Seen(8_000_000), "what was granted is over"


def test_members_that_did_not_come_back_are_forgotten():
    core = small_core().core
    before = SharedTable(core)
    for member in ("stays", "goes", "left"):
        before.put_member("g", member)
    table = SharedTable(core)
    table.put_member("g", "stays")
    table.put_member("g", "new")
    table.drop_member("g", "left")
    table.drop_unconfirmed_members()
    for each in (table, SharedTable(core)):
        assert [each.has_member("g", one) for one in ("stays", "new", "goes", "left")] == [True, True, False, False]


def test_a_full_table_says_so_and_rows_come_back():
    core = small_core(groups=2).core
    table = SharedTable(core)
    assert table.put_group("a", GroupRow(1, RowState.STABLE)) and table.put_group("b", GroupRow(1, RowState.STABLE))
    assert not table.put_group("c", GroupRow(1, RowState.STABLE))
    assert table.put_group("a", GroupRow(2, RowState.STABLE))  # is there already
    table.drop_group("b")
    assert table.put_group("c", GroupRow(3, RowState.EMPTY))
    successor = SharedTable(core)
    found = [successor.group(one) for one in "abc"]
    assert found == [GroupRow(2, RowState.STABLE), None, GroupRow(3, RowState.EMPTY)]
    successor.drop_group("a")
    assert successor.put_group("d", GroupRow(4, RowState.EMPTY)) and not successor.put_group(
        "e", GroupRow(5, RowState.EMPTY)
    )


class KeptRows:
    """Rows in memory: (row, key, word)."""

    def __init__(self, count, *rows):
        self.count, self._rows, self.put_in = count, rows, []

    def rows(self):
        return self._rows

    def put(self, place, key, word):
        self.put_in.append((place, key, word))

    def drop(self, place):
        self.put_in.append(place)


@pytest.mark.parametrize(
    ("rows", "places"),
    [((), [0, 1, 2]), (((0, b"a", 1), (2, b"b", 1)), [1, 3]), (((1, b"a", 1),), [0, 2, 3])],
)
def test_a_successor_fills_the_rows_that_are_free(rows, places):
    kept = KeptRows(4, *rows)
    table = shared_table._Rows(kept)
    for number in range(len(places)):
        assert table.put(b"new %d" % number, 7)
    assert [place for place, *_ in kept.put_in] == places
    if places[-1] == 3:
        assert not table.put(b"one too many", 7)
