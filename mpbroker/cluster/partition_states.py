"""The states of partitions and replicas as Kafka's controller names them, and which may follow which. Pure.

Nothing keeps a state: it is seen from what the store has and who lives, so it cannot disagree with them. What must
never be written, whatever led to it, is checked here too.
"""

from enum import Enum
from typing import Final, TypeVar

from mpbroker.cluster.cluster_image import NO_LEADER, Assignment, Partition
from mpbroker.cluster.wanted_state import PartitionView
from mpbroker.metadata.cluster_records import PartitionRecord


class PartitionState(Enum):
    """Of a partition."""

    NEW = "NewPartition"
    ONLINE = "OnlinePartition"
    OFFLINE = "OfflinePartition"
    NON_EXISTENT = "NonExistentPartition"


class ReplicaState(Enum):
    """Of a replica. A deletion is not waited for (a broker that is away drops what it should not have when it comes
    back), so DeletionSuccessful is passed through at once and DeletionIneligible does not occur."""

    NEW = "NewReplica"
    ONLINE = "OnlineReplica"
    OFFLINE = "OfflineReplica"
    DELETION_STARTED = "ReplicaDeletionStarted"
    DELETION_SUCCESSFUL = "ReplicaDeletionSuccessful"
    DELETION_INELIGIBLE = "ReplicaDeletionIneligible"
    NON_EXISTENT = "NonExistentReplica"


State = TypeVar("State", PartitionState, ReplicaState)
_UP: Final = {PartitionState.NEW, PartitionState.ONLINE, PartitionState.OFFLINE}
PARTITION_PREDECESSORS: Final[dict[PartitionState, set[PartitionState]]] = {
    PartitionState.NEW: {PartitionState.NON_EXISTENT},
    PartitionState.ONLINE: _UP,
    PartitionState.OFFLINE: _UP,
    PartitionState.NON_EXISTENT: {PartitionState.OFFLINE},
}
_LIVING: Final = {
    ReplicaState.NEW,
    ReplicaState.ONLINE,
    ReplicaState.OFFLINE,
    ReplicaState.DELETION_INELIGIBLE,
}
REPLICA_PREDECESSORS: Final[dict[ReplicaState, set[ReplicaState]]] = {
    ReplicaState.NEW: {ReplicaState.NON_EXISTENT},
    ReplicaState.ONLINE: _LIVING,
    ReplicaState.OFFLINE: _LIVING,
    ReplicaState.DELETION_STARTED: {ReplicaState.OFFLINE},
    ReplicaState.DELETION_SUCCESSFUL: {ReplicaState.DELETION_STARTED},
    ReplicaState.DELETION_INELIGIBLE: {ReplicaState.OFFLINE, ReplicaState.DELETION_STARTED},
    ReplicaState.NON_EXISTENT: {ReplicaState.DELETION_SUCCESSFUL},
}


def partition_state(view: PartitionView | None) -> PartitionState:
    """The state of a partition that somebody was told of."""
    if view is None:
        return PartitionState.NON_EXISTENT
    return PartitionState.OFFLINE if view.leader == NO_LEADER else PartitionState.ONLINE


def replica_state(view: PartitionView | None, broker: int) -> ReplicaState:
    """The state of one replica."""
    if view is None or broker not in view.replicas:
        return ReplicaState.NON_EXISTENT
    return ReplicaState.OFFLINE if broker in view.offline else ReplicaState.ONLINE


def path(before: State, after: State, predecessors: dict[State, set[State]]) -> list[tuple[State, State]]:
    """The shortest way from one state to another over transitions that are allowed; of the same state to itself the
    one step, where that is allowed."""
    here = [before]
    came_from: dict[State, State] = {}
    while here and after not in came_from:
        reached = [(one, other) for one in here for other, allowed in predecessors.items() if one in allowed]
        here = [other for _, other in reached if other not in came_from]
        for one, other in reached:
            came_from.setdefault(other, one)
    steps: list[tuple[State, State]] = []
    state = after
    while state in came_from and (not steps or state != before):
        steps.insert(0, (came_from[state], state))
        state = came_from[state]
    return steps if state == before else []


def wrong_write(before: Partition | None, after: PartitionRecord, assignment: Assignment) -> str | None:
    """Why a state must never be written, whatever led to it; None: it may be."""
    if not after.isr or not set(after.isr) <= set(assignment.replicas):
        return f"ISR {after.isr} is not part of the replicas {list(assignment.replicas)}"
    if after.leader >= 0 and after.leader not in after.isr:
        return f"leader {after.leader} is not in the ISR {after.isr}"
    if before is None:
        return None
    if after.leader_epoch < before.record.leader_epoch:
        return f"leader epoch {after.leader_epoch} after {before.record.leader_epoch}"
    if after.leader != before.record.leader and after.leader_epoch == before.record.leader_epoch:
        return f"leader {after.leader} in the epoch of leader {before.record.leader}"
    return None
