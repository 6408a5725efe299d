"""Partitions of a transaction that another broker coordinates: which are guarded, and which are not here."""

from types import SimpleNamespace

import pytest

from mpbroker.coordinator.transactions.elsewhere_verifier import FIRST_GUARD, ElsewhereVerifier
from mpbroker.errors import ErrorCode

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
