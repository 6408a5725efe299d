"""What a shard of transactions counts, tells and lets go of."""

import pytest

from mpbroker.coordinator.effects import Now
from mpbroker.coordinator.transactions.transaction import Transaction
from mpbroker.coordinator.transactions.transaction_environment import TransactionEnvironment
from mpbroker.coordinator.transactions.transaction_settings import TransactionSettings
from mpbroker.coordinator.transactions.transaction_shard import TransactionShard
from mpbroker.errors import ErrorCode

NOW = Now(5, 5)


def environment(level=0):
    return TransactionEnvironment(
        TransactionSettings(partitions=1, max_ids=2), lambda *_: True, lambda _: 0, lambda: level, False
    )


def found(name, *partitions):
    return Transaction(name, 7, partitions=frozenset(("t", number) for number in partitions))


def test_ids_and_their_partitions_are_counted_and_bounded():
    env = environment()
    shard = TransactionShard.__new__(TransactionShard)
    shard.env, shard.entries = env, {}
    assert shard.add(found("a", 0, 1)) and shard.add(found("b", 2))
    assert (env.counts.transactional_ids, env.counts.partitions, env.counts.ids_refused) == (2, 3, 0)
    assert shard.add(found("c")) is None and env.counts.ids_refused == 1
    shard.forget("a")
    shard.forget("a")
    assert (env.counts.transactional_ids, env.counts.partitions) == (1, 1) and shard.add(found("c"))
    shard.restore(found("d", 5))
    assert env.counts.transactional_ids == 3, "what is in the log is taken in"


def test_who_waits_when_a_shard_is_closed_hears_of_it():
    env, told = environment(), []
    shard = TransactionShard.__new__(TransactionShard)
    shard.env, shard.entries, shard.is_open = env, {}, True
    shard._then = {4: lambda code, now: told.append((code, now)), 5: lambda code, now: told.append((code, now))}
    shard.restore(found("a", 0))
    shard.close(NOW)
    assert told == [(ErrorCode.NOT_LEADER_OR_FOLLOWER, NOW)] * 2 and not shard.is_open
    assert shard.entries == {} and (env.counts.transactional_ids, env.counts.partitions) == (0, 0)
    shard.done(4, 0, NOW)
    assert len(told) == 2, "it is told once"


@pytest.mark.parametrize(("level", "version"), [(0, 0), (1, 1), (2, 1)])
def test_states_are_recorded_as_the_finalized_feature_says(level, version):
    assert environment(level).value_version() == version


def test_a_coordinator_on_another_broker_is_heard_once():
    env, told = environment(), []
    env.ask_coordinator("tx", (7, 3), frozenset(), True, lambda *words: told.append(words))
    number = max(env._asked)
    env.asked(number + 1, 0, NOW)
    assert told == []
    for _ in range(2):
        env.asked(number, 9, NOW)
    assert told == [(9, NOW)]


@pytest.mark.parametrize("code", [ErrorCode.NONE, ErrorCode.NOT_ENOUGH_REPLICAS])
def test_ids_move_while_their_tombstones_are_on_their_way(code):
    env = environment()
    shard = TransactionShard(3, 4, env)
    entries = [shard.restore(found(name, 0)) for name in "ab"]
    shard.append_tombstones(entries, NOW)
    [append] = env.take_effects()
    assert [value for _, value in append.records] == [None, None] and append.token is None
    assert [one.is_moving for one in entries] == [True, True] and set(shard.entries) == set("ab")
    shard.done(append.number, code, NOW)
    assert [one.is_moving for one in entries] == [False, False]
    assert (set(shard.entries), env.counts.ids_expired) == ((set(), 2) if code == 0 else (set("ab"), 0))
