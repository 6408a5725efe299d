"""All partitions once an interval, some each turn, and those that were busy again in a while."""

from types import SimpleNamespace

from mpbroker.log.keeper_context import BUSY_RETRY_MS, PartitionRound
from mpbroker.shm.clock import ManualClock

INTERVAL_MS = 100 * BUSY_RETRY_MS


def _world(count, most=64):
    clock = ManualClock()
    partitions = SimpleNamespace(all=[SimpleNamespace(ordinal=n, topic_id=bytes([n])) for n in range(count)])
    return clock, partitions, PartitionRound(clock, partitions, INTERVAL_MS, most_a_turn=most)


def _ordinals(taken):
    return [partition.ordinal for partition in taken]


def test_a_round_is_given_out_in_parts_once_an_interval():
    clock, _, turns = _world(5, most=2)
    assert turns.remaining_ms() == 0
    assert [_ordinals(turns.take()) for _ in range(4)] == [[0, 1], [2, 3], [4], []]
    assert turns.remaining_ms() == INTERVAL_MS
    clock.advance(INTERVAL_MS)
    assert _ordinals(turns.take()) == [0, 1] and turns.remaining_ms() == 0


def test_who_was_busy_comes_again_after_a_while_and_once():
    clock, _, turns = _world(3)
    first = turns.take()
    turns.again(first[2])
    turns.again(first[2])
    assert turns.take() == () and turns.remaining_ms() == BUSY_RETRY_MS
    clock.advance(BUSY_RETRY_MS - 1)
    turns.again(first[1])  # joins those that wait, and puts nobody off
    assert turns.take() == () and turns.remaining_ms() == 1
    clock.advance(1)
    assert _ordinals(turns.take()) == [2, 1]
    assert turns.take() == () and turns.remaining_ms() == INTERVAL_MS - BUSY_RETRY_MS


def test_who_was_busy_comes_before_the_next_round_and_not_when_it_is_gone():
    clock, partitions, turns = _world(3)
    first = turns.take()
    turns.again(first[0])
    turns.again(first[1])
    partitions.all = partitions.all[1:]
    clock.advance(INTERVAL_MS)
    assert _ordinals(turns.take()) == [1, 1, 2]
