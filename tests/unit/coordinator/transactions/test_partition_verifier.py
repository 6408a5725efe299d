"""Partitions of this broker are told who may write: those that are there, again where a lock was held."""

from types import SimpleNamespace

import pytest

from mpbroker.coordinator.effects import Verify
from mpbroker.coordinator.transactions.partition_verifier import BUSY, PATIENCE_MS, RETRY_MS, LocalVerifier
from mpbroker.errors import ErrorCode


@pytest.fixture
def world():
    """Topic `t` has two partitions: rows 10 and 11."""
    codes, told, watched, heard = {}, [], [], []

    def verify(ordinal, producer_id, epoch, topic_id):
        told.append((ordinal, producer_id, epoch, topic_id))
        return codes.get(ordinal, 0)

    topic = SimpleNamespace(id=b"T", partitions=[10, 11])
    verifier = LocalVerifier(
        SimpleNamespace(watch=watched.append),
        SimpleNamespace(log=SimpleNamespace(verify=verify)),
        SimpleNamespace(topic=lambda name: topic if name == "t" else None),
    )
    return SimpleNamespace(codes=codes, told=told, watched=watched, heard=heard, verifier=verifier)


def ask(world, *partitions):
    world.verifier.verify(Verify(0, 1, 7, 3, frozenset(partitions)), 100, world.heard.append)


def test_those_that_are_not_there_are_not_told(world):
    ask(world, ("t", 1), ("t", 2), ("gone", 0))
    assert world.heard == [ErrorCode.NONE] and world.told == [(11, 7, 3, b"T")]
    assert world.verifier.next_due_ms(5) is None


def test_one_whose_lock_is_held_is_told_later_and_no_other_again(world):
    world.codes[10] = BUSY
    ask(world, ("t", 0), ("t", 1))
    assert world.heard == [] and world.watched == [10] and world.verifier.next_due_ms(5) == 5 + RETRY_MS
    world.verifier.retry(100 + PATIENCE_MS - 1)
    assert world.heard == []
    world.codes.clear()
    world.told.clear()
    world.verifier.retry(100 + PATIENCE_MS)
    assert world.heard == [ErrorCode.NONE] and world.told == [(10, 7, 3, b"T")]


def test_nobody_waits_for_a_lock_for_ever(world):
    world.codes[10] = BUSY
    ask(world, ("t", 0))
    world.verifier.retry(100 + PATIENCE_MS)
    assert world.heard == [ErrorCode.CONCURRENT_TRANSACTIONS]
    world.verifier.retry(100 + PATIENCE_MS)
    assert len(world.heard) == 1


def test_without_a_row_for_the_producer_the_client_tries_again(world):
    world.codes[11] = ErrorCode.THROTTLING_QUOTA_EXCEEDED
    ask(world, ("t", 1))
    assert world.heard == [ErrorCode.CONCURRENT_TRANSACTIONS] and world.verifier.next_due_ms(0) is None
