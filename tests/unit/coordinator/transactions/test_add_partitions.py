"""Partitions that another broker asks to have verified: each answer by what the transaction is and has."""

from types import SimpleNamespace

import pytest

from mpbroker.coordinator.effects import Now
from mpbroker.coordinator.transactions.add_partitions import _too_many, verify_added
from mpbroker.coordinator.transactions.transaction import State, Transaction
from mpbroker.coordinator.transactions.transitions import Producer
from mpbroker.errors import ErrorCode

NOW = Now(5, 5)
HAS = frozenset({("t", 0), ("t", 1)})


def ask(shard, partitions=HAS, producer=None):
    """(codes that were told, partitions that were verified)."""
    told, verified = [], []
    if shard is not None:
        shard.verify = lambda entry, which, then: verified.append(which)
    verify_added(shard, "tx", producer or Producer(7, 3), partitions, NOW, lambda code, now: told.append(code))
    return told, verified


def shard_of(**fields):
    found = Transaction("tx", 7, epoch=3, state=State.ONGOING, partitions=HAS)
    entry = SimpleNamespace(found=found, **{"is_moving": False} | fields)
    return SimpleNamespace(entries={"tx": entry})


def test_partitions_that_were_added_are_told():
    assert ask(shard_of()) == ([], [HAS])
    assert ask(shard_of(), frozenset({("t", 1)})) == ([], [frozenset({("t", 1)})])


@pytest.mark.parametrize(
    ("shard", "partitions", "producer", "code"),
    [
        (None, HAS, None, ErrorCode.NOT_COORDINATOR),
        (SimpleNamespace(entries={}), HAS, None, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        (shard_of(is_moving=True), HAS, None, ErrorCode.CONCURRENT_TRANSACTIONS),
        (shard_of(), HAS | {("t", 2)}, None, ErrorCode.TRANSACTION_ABORTABLE),
        (shard_of(), HAS, Producer(8, 3), ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        (shard_of(), HAS, Producer(7, 2), ErrorCode.PRODUCER_FENCED),
    ],
    ids=["another's", "unknown", "moving", "one is not in it", "another producer", "fenced"],
)
def test_what_is_not_so_is_told_and_nothing_verified(shard, partitions, producer, code):
    assert ask(shard, partitions, producer) == ([code], [])


@pytest.mark.parametrize(("most", "refused"), [(11, True), (12, False), (13, False)])
def test_all_transactions_together_have_no_more_partitions_than_there_is_room_for(most, refused):
    counts = SimpleNamespace(partitions=10, partitions_refused=0)
    shard = SimpleNamespace(env=SimpleNamespace(counts=counts, settings=SimpleNamespace(max_partitions=most)))
    before, after = SimpleNamespace(partitions="ab"), SimpleNamespace(partitions="abcd")
    assert _too_many(shard, before, after) is refused and counts.partitions_refused == refused
