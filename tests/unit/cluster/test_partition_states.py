"""States of partitions that are never written, whatever led to them, and the ways between states."""

from types import SimpleNamespace

import pytest

from mpbroker.cluster.cluster_image import Assignment
from mpbroker.cluster.partition_states import (
    NO_LEADER,
    PartitionState,
    ReplicaState,
    partition_state,
    path,
    replica_state,
    wrong_write,
)

ASSIGNED = Assignment((1, 2, 3))


def record(leader: int, epoch: int, *isr: int):
    return SimpleNamespace(leader=leader, leader_epoch=epoch, isr=list(isr))


def before(leader: int, epoch: int, *isr: int):
    return SimpleNamespace(record=record(leader, epoch, *isr))


@pytest.mark.parametrize(
    ("was", "becomes", "word"),
    [
        (None, record(1, 0, 1, 2), None),
        (None, record(1, 0), "is not part of the replicas"),
        (None, record(1, 0, 1, 4), "is not part of the replicas"),
        (None, record(3, 0, 1, 2), "is not in the ISR"),
        (None, record(NO_LEADER, 0, 1), None),
        (before(1, 5, 1, 2), record(1, 4, 1, 2), "leader epoch 4 after 5"),
        (before(1, 5, 1, 2), record(1, 5, 1), None),
        (before(1, 5, 1, 2), record(2, 5, 2), "in the epoch of leader 1"),
        (before(1, 5, 1, 2), record(2, 6, 2), None),
        (before(0, 5, 1, 2), record(0, 5, 1), "is not in the ISR"),
    ],
)
def test_what_is_never_written(was, becomes, word):
    found = wrong_write(was, becomes, ASSIGNED)
    assert found is None if word is None else word in found


def test_states_are_those_that_were_told():
    view = SimpleNamespace(leader=0, replicas=[1, 2], offline=[2])
    assert partition_state(None) is PartitionState.NON_EXISTENT and partition_state(view) is PartitionState.ONLINE
    assert partition_state(SimpleNamespace(leader=NO_LEADER)) is PartitionState.OFFLINE
    assert replica_state(None, 1) is replica_state(view, 3) is ReplicaState.NON_EXISTENT
    assert replica_state(view, 1) is ReplicaState.ONLINE and replica_state(view, 2) is ReplicaState.OFFLINE


def test_the_shortest_allowed_way():
    allowed = {"b": {"a"}, "c": {"b"}, "d": {"a", "c"}, "a": {"a"}}
    assert path("a", "c", allowed) == [("a", "b"), ("b", "c")]
    assert path("a", "d", allowed) == [("a", "d")] and path("d", "a", allowed) == []
    assert path("a", "a", allowed) == [("a", "a")] and path("b", "b", allowed) == []
