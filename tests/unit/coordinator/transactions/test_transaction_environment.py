"""What shards of transactions share: producer ids that are waited for, questions to other coordinators, counts."""

from collections import Counter

import pytest

from mpbroker.coordinator.effects import AskCoordinator, Now, TakeProducerIds
from mpbroker.coordinator.transactions.transaction import State, Transaction
from mpbroker.coordinator.transactions.transaction_environment import (
    PRODUCER_ID_PATIENCE_MS,
    TransactionEnvironment,
)
from mpbroker.coordinator.transactions.transaction_settings import TransactionSettings


@pytest.fixture
def env():
    return TransactionEnvironment(TransactionSettings(), lambda topic, partition: True, len)


@pytest.fixture
def heard():
    return []


def take(env, heard, name, at_ms=0):
    env.take_producer_id(Now(at_ms, 0), lambda producer_id, now: heard.append((name, producer_id, now.ms)))


def test_states_are_recorded_as_the_feature_says(env):
    assert (env.value_version(), env.feature_level(), env.in_cluster) == (0, 0, False)
    for level, version in ((1, 1), (2, 1)):
        env.feature_level = lambda level=level: level
        assert env.value_version() == version


def test_ends_are_counted_by_what_they_were(env):
    for state, times in ((State.COMPLETE_COMMIT, 2), (State.COMPLETE_ABORT, 3)):
        for _ in range(times):
            env.count_end(Transaction("tx", 7, state=state))
    assert (env.counts.committed, env.counts.aborted) == (2, 3)


def test_one_block_is_asked_for_however_many_wait(env, heard):
    for name in "abc":
        take(env, heard, name)
    assert env.take_effects() == [TakeProducerIds()] and heard == []
    env.add_producer_ids(100, 2, Now(5, 0))
    assert heard == [("a", 100, 5), ("b", 101, 5)] and env.take_effects() == [TakeProducerIds()]
    env.add_producer_ids(200, 9, Now(6, 0))
    take(env, heard, "d", 7)
    assert heard[2:] == [("c", 200, 6), ("d", 201, 7)] and env.take_effects() == []


def test_who_waits_hears_when_there_are_none(env, heard):
    take(env, heard, "a")
    take(env, heard, "b")
    env.add_producer_ids(0, 0, Now(5, 0))
    assert heard == [("a", None, 5), ("b", None, 5)]
    assert env.take_effects() == [TakeProducerIds()]
    take(env, heard, "c")
    assert env.take_effects() == [TakeProducerIds()], "the next one asks again"


def test_nobody_waits_for_longer_than_his_patience(env, heard):
    take(env, heard, "a", 0)
    take(env, heard, "b", 1)
    assert env.timers.deadline_ms() == PRODUCER_ID_PATIENCE_MS
    env.timers.run(Now(PRODUCER_ID_PATIENCE_MS - 1, 0))
    assert heard == []
    env.timers.run(Now(PRODUCER_ID_PATIENCE_MS, 0))
    assert heard == [("a", None, PRODUCER_ID_PATIENCE_MS)]
    env.add_producer_ids(100, 5, Now(PRODUCER_ID_PATIENCE_MS, 0))
    assert heard[1:] == [("b", 100, PRODUCER_ID_PATIENCE_MS)]
    env.timers.run(Now(PRODUCER_ID_PATIENCE_MS + 1, 0))
    assert len(heard) == 2


def test_a_question_has_one_answer(env, heard):
    for name in ("tx", "ty"):
        partitions = frozenset({(name, 1)})
        env.ask_coordinator(
            name, (7, 3), partitions, name == "ty", lambda code, now, name=name: heard.append((name, code))
        )
    asked = env.take_effects()
    assert asked == [
        AskCoordinator(1, "tx", 7, 3, frozenset({("tx", 1)}), False),
        AskCoordinator(2, "ty", 7, 3, frozenset({("ty", 1)}), True),
    ]
    for number in (2, 1, 2, 9):
        env.asked(number, 40 + number, Now(1, 1))
    assert heard == [("ty", 42), ("tx", 41)]


def test_at_first_nothing_is_counted(env):
    counts = env.counts
    assert Counter(getattr(counts, name) for name in counts.__struct_fields__) == {0: 10}
