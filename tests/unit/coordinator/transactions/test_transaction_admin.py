"""What administrators see of transactions: whole rows, filters with their bounds, and why one is not shown."""

from types import SimpleNamespace

import pytest

from mpbroker.coordinator.effects import Now
from mpbroker.coordinator.transactions.transaction import State, Transaction
from mpbroker.coordinator.transactions.transaction_admin import described, listed
from mpbroker.coordinator.transactions.transaction_shard import Entry
from mpbroker.errors import ErrorCode
from mpbroker.protocol.messages.describe_transactions import TopicData, TransactionState
from mpbroker.protocol.messages.list_transactions import ListTransactionsRequest

NOW = Now(5, 10_000)
ONGOING = Transaction(
    "a", 7, 3, 6000, State.ONGOING, frozenset({("u", 0), ("t", 2), ("t", 1)}), start_ms=9000, last_update_ms=9500
)
DONE = Transaction("b", 8, 0, 6000, State.COMPLETE_COMMIT, start_ms=9999)
FRESH = Transaction("c", 9, 0, 6000)
DEAD = Transaction("d", 10, 0, 6000, State.DEAD, start_ms=1)


def shard(*found, is_loading=False):
    return SimpleNamespace(entries={one.id: Entry(one) for one in found}, is_loading=is_loading)


HERE = [shard(ONGOING, DEAD), shard(DONE, FRESH)]


@pytest.mark.parametrize(
    ("filters", "ids"),
    [
        ({}, "abc"),
        ({"producer_id_filters": [8, 10]}, "b"),
        ({"state_filters": ["Ongoing", "Dead"]}, "a"),
        ({"state_filters": ["CompleteCommit", "Empty"]}, "bc"),
        ({"state_filters": ["Empty"], "producer_id_filters": [7, 9]}, "c"),
        ({"state_filters": ["Strange"]}, ""),
        ({"duration_filter": -1}, "abc"),
        ({"duration_filter": 0}, "abc"),
        ({"duration_filter": 1}, "ac"),
        ({"duration_filter": 999}, "ac"),
        ({"duration_filter": 1000}, "c"),
        ({"duration_filter": 1001}, "c"),
    ],
)
def test_which_are_listed(filters, ids):
    answer = listed(HERE, ListTransactionsRequest(**filters), NOW)
    assert "".join(one.transactional_id for one in answer.transaction_states) == ids
    strange = [name for name in filters.get("state_filters", ()) if name == "Strange"]
    assert (answer.error_code, answer.unknown_state_filters) == (0, strange)


def test_one_that_began_just_now_has_lasted_for_no_longer_than_nothing():
    now = shard(Transaction("e", 11, 0, 6000, State.ONGOING, start_ms=NOW.wall_ms))
    assert listed([now], ListTransactionsRequest(duration_filter=0), NOW).transaction_states == []
    [row] = listed([now], ListTransactionsRequest(duration_filter=-1), NOW).transaction_states
    assert (row.transactional_id, row.producer_id, row.transaction_state) == ("e", 11, "Ongoing")


def test_nothing_is_listed_while_a_part_is_loaded():
    answer = listed([*HERE, shard(is_loading=True)], ListTransactionsRequest(state_filters=["Strange"]), NOW)
    loading = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert (answer.error_code, answer.transaction_states, answer.unknown_state_filters) == (loading, [], [])


def test_one_is_described_with_its_partitions_in_order():
    assert described(HERE[0], "a") == TransactionState(
        error_code=0,
        transactional_id="a",
        transaction_state="Ongoing",
        transaction_timeout_ms=6000,
        transaction_start_time_ms=9000,
        producer_id=7,
        producer_epoch=3,
        topics=[TopicData("t", [1, 2]), TopicData("u", [0])],
    )


@pytest.mark.parametrize(
    ("place", "name", "code"),
    [
        (HERE[0], "d", ErrorCode.TRANSACTIONAL_ID_NOT_FOUND),
        (HERE[0], "b", ErrorCode.TRANSACTIONAL_ID_NOT_FOUND),
        (HERE[0], "", ErrorCode.INVALID_REQUEST),
        (None, "a", ErrorCode.NOT_COORDINATOR),
        (None, "", ErrorCode.INVALID_REQUEST),
        (shard(is_loading=True), "a", ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
    ],
)
def test_why_one_is_not_described(place, name, code):
    assert described(place, name) == TransactionState(error_code=code, transactional_id=name)
