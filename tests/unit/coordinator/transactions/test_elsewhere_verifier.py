"""Partitions of a transaction that another broker coordinates: which are guarded, and which are not here."""

from types import SimpleNamespace

import pytest

from mpbroker.coordinator.effects import AskCoordinator
from mpbroker.coordinator.transactions.elsewhere_verifier import FIRST_GUARD, GUARDS, TAKE_BACK, ElsewhereVerifier
from mpbroker.errors import ErrorCode
from mpbroker.metadata.topic_names import TRANSACTIONS_TOPIC

TOPIC = SimpleNamespace(id=b"t" * 16, partitions=[7, 9])


@pytest.fixture
def verifier():
    made, made_calls = object.__new__(ElsewhereVerifier), []
    made.calls = made_calls
    made._metadata = SimpleNamespace(topic={"t": TOPIC}.get)
    made._logs = SimpleNamespace(
        log=SimpleNamespace(
            guard=lambda *words: made_calls.append(words) or (0, 5), verify=lambda *words: made_calls.append(words) or 3
        )
    )
    made._guards = 0
    return made


@pytest.mark.parametrize("one", [("t", 2), ("t", 3), ("unknown", 0)])
def test_a_partition_that_is_not_here_is_unknown(verifier, one):
    effect = SimpleNamespace(producer_id=4, producer_epoch=2)
    assert verifier._guard(one, effect) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0)
    assert verifier._tell(one, 4, 2, -8) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert verifier.calls == [] and verifier._guards == 0


def test_each_guard_is_another_one(verifier):
    effect = SimpleNamespace(producer_id=4, producer_epoch=2)
    assert [verifier._guard(("t", number), effect) for number in (0, 1)] == [(0, 5)] * 2
    assert verifier.calls == [(7, 4, 2, FIRST_GUARD - 1, TOPIC.id), (9, 4, 2, FIRST_GUARD - 2, TOPIC.id)]
    assert verifier._tell(("t", 1), 4, 2, -8) == 3 and verifier.calls[2] == (9, 4, 2, TOPIC.id, -8)


def test_guards_begin_anew_before_they_meet_an_epoch(verifier):
    """An epoch has 15 bits, and is never negative; -1 takes a guard back."""
    verifier._guards = GUARDS - 2
    effect = SimpleNamespace(producer_id=4, producer_epoch=2)
    for _ in range(3):
        verifier._guard(("t", 0), effect)
    guards = [call[3] for call in verifier.calls]
    assert guards == [FIRST_GUARD - GUARDS + 1, FIRST_GUARD, FIRST_GUARD - 1]
    assert (FIRST_GUARD, TAKE_BACK, min(guards)) == (-2, -1, -32_001)


class World:
    """`answers`: (code, guard) of each partition that is guarded; `told`: what a partition says to what it is told."""

    def __init__(self, answers, told=None):
        self.heard, self.asked, self.verified = [], [], []
        topic = SimpleNamespace(id=TOPIC.id, partitions=list(range(10, 10 + len(answers))))
        self.told = told or {}
        log = SimpleNamespace(
            guard=lambda ordinal, *words: answers[ordinal - 10],
            verify=self._verify,
        )
        others = SimpleNamespace(
            address=lambda topic, partition: ("address", topic, partition),
            ask=lambda effect, address, then: self.asked.append((effect, address, then)),
        )
        self.effect = AskCoordinator(5, "tx", 4, 2, tuple(("t", n) for n in range(len(answers))), False)
        verifier = ElsewhereVerifier(
            SimpleNamespace(log=log),
            SimpleNamespace(topic={"t": topic}.get),
            others,
            lambda name: len(name),
            lambda *words: self.heard.append(words),
        )
        verifier.ask(self.effect)

    def _verify(self, ordinal, producer_id, epoch, topic_id, guard):
        self.verified.append((ordinal - 10, producer_id, epoch, topic_id, guard))
        return self.told.get(ordinal - 10, 0)

    def answer(self, *codes):
        [(_, _, then)] = self.asked
        then({("t", number): code for number, code in enumerate(codes)})


NOT_LEADER, MOVING = ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.CONCURRENT_TRANSACTIONS


def test_the_coordinator_is_asked_of_guarded_partitions_alone():
    """One that lets the producer write already, and one that is not led here, are asked of nobody."""
    world = World([(0, FIRST_GUARD), (0, 2), (NOT_LEADER, 0), (0, FIRST_GUARD - 7), (0, FIRST_GUARD + 1)])
    [(effect, address, _)] = world.asked
    assert effect == world.effect._replace(partitions=frozenset({("t", 0), ("t", 3)}))
    assert address == ("address", TRANSACTIONS_TOPIC, 2) and not world.heard and not world.verified
    world.answer(0, None, None, 0)
    assert world.verified == [(0, 4, 2, TOPIC.id, FIRST_GUARD), (3, 4, 2, TOPIC.id, FIRST_GUARD - 7)]
    assert world.heard == [(5, 0)]


@pytest.mark.parametrize("answers", [[], [(0, 2)], [(NOT_LEADER, 0)], [(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0)]])
def test_where_nothing_is_guarded_nobody_is_asked(answers):
    world = World(answers)
    assert (world.heard, world.asked, world.verified) == ([(5, 0)], [], [])


def test_a_partition_that_cannot_be_guarded_ends_it():
    """The others get their guards back."""
    world = World([(0, FIRST_GUARD - 3), (0, 2), (ErrorCode.KAFKA_STORAGE_ERROR, 0), (0, FIRST_GUARD)])
    assert (world.heard, world.asked) == ([(5, ErrorCode.KAFKA_STORAGE_ERROR)], [])
    assert world.verified == [(0, 4, TAKE_BACK, TOPIC.id, FIRST_GUARD - 3)]


@pytest.mark.parametrize(
    ("codes", "told", "epochs", "heard"),
    [
        ((0, 0), {}, [2, 2], 0),
        ((MOVING, 0), {}, [TAKE_BACK, 2], MOVING),
        ((0, MOVING), {}, [2, TAKE_BACK], MOVING),
        ((MOVING, 3), {}, [TAKE_BACK, TAKE_BACK], MOVING),
        ((0, 0), {1: MOVING}, [2, 2], MOVING),
        ((0, 0), {0: NOT_LEADER, 1: 3}, [2, 2], 0),
        ((0, 3), {0: MOVING}, [2, TAKE_BACK], MOVING),
    ],
)
def test_the_first_error_counts_and_takes_its_guard_back(codes, told, epochs, heard):
    world = World([(0, FIRST_GUARD - 1), (0, FIRST_GUARD - 2)], told)
    world.answer(*codes)
    assert [one[2] for one in world.verified] == epochs and world.heard == [(5, heard)]
