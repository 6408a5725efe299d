"""When transactions are looked at: each when its own time is over, all as often as the setting says, none too often."""

from types import SimpleNamespace

import pytest

from mpbroker.coordinator.effects import Now
from mpbroker.coordinator.transactions import transaction_times
from mpbroker.coordinator.transactions.transaction import State, Transaction
from mpbroker.coordinator.transactions.transaction_settings import TransactionSettings
from mpbroker.coordinator.transactions.transaction_shard import Entry
from mpbroker.coordinator.transactions.transitions import fence
from mpbroker.errors import ErrorCode

NOW, LEAST_MS = Now(1000, 50_000), transaction_times.LEAST_BETWEEN_LOOKS_MS
SETTINGS = TransactionSettings(abort_check_ms=700, expiration_check_ms=9000, expiration_ms=5000)


class Shard:
    """Notes what it is asked for; `asked`: deadlines, and what is called then."""

    def __init__(self, *found, look_ms=None, is_open=True):
        self.entries = {one.id: Entry(one) for one in found}
        self.look_ms, self.is_open = look_ms, is_open
        self.asked, self.recorded, self.marked, self.forgotten = [], [], [], []
        timers = SimpleNamespace(at=lambda ms, call, shard: self.asked.append((ms, call.__name__)))
        counts = SimpleNamespace(timed_out=0)
        self.env = SimpleNamespace(settings=SETTINGS, timers=timers, counts=counts, feature_level=lambda: 0)

    def record(self, entry, found, token, now, then):
        self.recorded.append((entry.found.id, found, token, then))

    def send_markers(self, entry):
        self.marked.append(entry.found.id)

    def append_tombstones(self, entries, now):
        self.forgotten.append([entry.found.id for entry in entries])


def transaction(name="a", state=State.ONGOING, start_ms=NOW.wall_ms, timeout_ms=300, **fields):
    return Transaction(name, 7, 3, timeout_ms, state, start_ms=start_ms, **fields)


def test_from_the_beginning_on_both_are_watched():
    shard = Shard()
    transaction_times.watch_times(shard, NOW)
    assert shard.asked == [(1000, "_abort_late"), (10_000, "_forget_unused")] and shard.look_ms == 1000


@pytest.mark.parametrize(
    ("timeout_ms", "start_ms", "look_ms", "due_ms"),
    [
        (300, 50_000, None, 1301),
        (300, 49_900, None, 1201),
        (300, 50_000, 1302, 1301),
        (300, 50_000, 1301, None),
        (300, 50_000, 1200, None),
        (98, 50_000, None, 1000 + LEAST_MS),
        (100, 50_000, None, 1101),
        (10, 40_000, None, 1000 + LEAST_MS),
    ],
    ids=["first", "begun before", "a later look", "at once with one", "an earlier look", "soon", "later", "over"],
)
def test_the_next_look_is_when_the_time_of_one_is_over(timeout_ms, start_ms, look_ms, due_ms):
    shard = Shard(look_ms=look_ms)
    transaction_times.watch_end(shard, transaction(timeout_ms=timeout_ms, start_ms=start_ms), NOW)
    assert shard.asked == ([] if due_ms is None else [(due_ms, "_abort_late")])
    assert shard.look_ms == (look_ms if due_ms is None else due_ms)


@pytest.mark.parametrize(("is_open", "look_ms"), [(False, 1000), (False, None), (True, None), (True, 1001)], ids=str)
def test_a_look_that_is_not_due_is_none(is_open, look_ms):
    shard = Shard(transaction(start_ms=1), is_open=is_open, look_ms=look_ms)
    transaction_times._abort_late(shard, NOW)
    assert (shard.asked, shard.recorded, shard.look_ms) == ([], [], look_ms)


@pytest.mark.parametrize(
    ("found", "next_ms"),
    [
        ([], 1700),
        ([transaction(timeout_ms=600)], 1601),
        ([transaction(timeout_ms=698)], 1699),
        ([transaction(timeout_ms=800)], 1700),
        ([transaction(timeout_ms=600), transaction("b", timeout_ms=200), transaction("c")], 1201),
        ([transaction(timeout_ms=20)], 1000 + LEAST_MS),
        ([transaction(state=State.COMPLETE_ABORT, timeout_ms=200)], 1700),
    ],
)
def test_after_a_look_the_next_one_is_known(found, next_ms):
    shard = Shard(*found, look_ms=1000)
    transaction_times._abort_late(shard, NOW)
    assert (shard.asked, shard.look_ms, shard.recorded) == ([(next_ms, "_abort_late")], next_ms, [])


def test_what_is_over_is_aborted_and_what_is_moving_is_looked_at_again_soon():
    late, moving = transaction("late", start_ms=49_699), transaction("moving", start_ms=49_000)
    shard = Shard(late, moving, transaction("just", start_ms=49_700), look_ms=900)
    shard.entries["moving"].is_moving = True
    transaction_times._abort_late(shard, NOW)
    [(name, found, token, then)] = shard.recorded
    assert (name, found, token) == ("late", fence(late, NOW.wall_ms, 0), None)
    assert shard.asked == [(1000 + LEAST_MS, "_abort_late")]
    then(ErrorCode.NONE, Now(1050, 50_050))
    assert (shard.env.counts.timed_out, shard.marked, len(shard.asked)) == (1, ["late"], 1)


def test_an_abort_that_is_not_recorded_is_tried_again_soon():
    shard = Shard(transaction("late", start_ms=49_000), look_ms=1000)
    transaction_times._abort_late(shard, NOW)
    [(_, _, _, then)] = shard.recorded
    assert shard.look_ms == 1700
    then(ErrorCode.NOT_ENOUGH_REPLICAS, Now(1200, 50_200))
    assert (shard.env.counts.timed_out, shard.marked, shard.look_ms) == (0, [], 1200 + LEAST_MS)


def test_ids_that_have_rested_for_long_are_forgotten(monkeypatch):
    monkeypatch.setattr(transaction_times, "TOMBSTONES_AT_ONCE", 2)
    rested = [transaction(name, State.EMPTY, last_update_ms=45_000) for name in "abcd"]
    used = [transaction("e", State.EMPTY, last_update_ms=45_001), transaction("f", last_update_ms=1)]
    shard = Shard(*rested, *used)
    shard.entries["b"].is_moving = True
    transaction_times._forget_unused(shard, NOW)
    assert (shard.forgotten, shard.asked) == ([["a", "c"], ["d"]], [(10_000, "_forget_unused")])
    shard.is_open = False
    transaction_times._forget_unused(shard, NOW)
    assert len(shard.forgotten) == 2 and len(shard.asked) == 1
