"""What a broker answers to LeaderAndIsr, StopReplica and UpdateMetadata, and what is to be done: Kafka's fencing by the
epochs of controller, broker and leader (KIP-380, 497, 570). Pure: the agent looks and acts, this decides.

A role that is found as it is wanted counts as done when nobody has asked for it in this process yet: a predecessor set
it and died before it could answer. Otherwise the same leader epoch again is refused, as Kafka does.
"""

from collections.abc import Sequence
from enum import Enum
from typing import Final, NamedTuple

from mpbroker.errors import ErrorCode
from mpbroker.protocol.types import ZERO_UUID

UNKNOWN_EPOCH: Final = -1
DURING_DELETE: Final = -2
"""Leader and leader epoch of a topic that is being deleted."""


class Epochs(NamedTuple):
    """What this broker knows: the latest controller's epoch, its own registration's (-1: none yet)."""

    controller: int
    broker: int


class Hosted(NamedTuple):
    """A replica as it is here. `has_role`: a controller has spoken since the logs were loaded; `untouched`: not in the
    life of this process; `partition_epoch`: also of the last answer to AlterPartition."""

    topic_id: bytes
    leader_epoch: int
    partition_epoch: int
    has_role: bool
    is_leader: bool
    online: bool
    untouched: bool


class Wanted(NamedTuple):
    """A partition as LeaderAndIsr has it."""

    topic_id: bytes
    leader: int
    leader_epoch: int
    partition_epoch: int
    replicas: Sequence[int]
    is_new: bool


class Role(Enum):
    """What is to be done with a partition of LeaderAndIsr."""

    NOTHING = 0
    LEADER = 1
    FOLLOWER = 2


class Verdict(NamedTuple):
    """A Kafka error code, and what is to be done with it. `create`: the log is to be made first."""

    code: int
    role: Role = Role.NOTHING
    create: bool = False


def fence(known: Epochs, controller_epoch: int, broker_epoch: int) -> int:
    """The code for a whole request. A higher broker epoch than ours is accepted: the controller may have seen the
    registration before we did. Before we have registered, whatever comes is meant for our last life: a role that it had
    then may be more than its logs are good for now."""
    if broker_epoch != UNKNOWN_EPOCH and (known.broker == UNKNOWN_EPOCH or broker_epoch < known.broker):
        return ErrorCode.STALE_BROKER_EPOCH
    return ErrorCode.STALE_CONTROLLER_EPOCH if controller_epoch < known.controller else ErrorCode.NONE


def judge_leader_and_isr(self_id: int, hosted: Hosted | None, wanted: Wanted, can_create: bool) -> Verdict:
    """`hosted` None: there is no log of the partition here. `can_create`: a log directory takes partitions."""
    if hosted is not None:
        code = _refusal(hosted, wanted)
        if code:
            return Verdict(code)
    if self_id not in wanted.replicas:
        return Verdict(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if hosted is None and not can_create:
        return Verdict(ErrorCode.KAFKA_STORAGE_ERROR)
    role = Role.LEADER if wanted.leader == self_id else Role.FOLLOWER
    return Verdict(ErrorCode.NONE, role, hosted is None)


def _refusal(hosted: Hosted, wanted: Wanted) -> int:
    if not hosted.online:
        return ErrorCode.KAFKA_STORAGE_ERROR
    if wanted.topic_id not in (ZERO_UUID, hosted.topic_id):
        return ErrorCode.INCONSISTENT_TOPIC_ID
    if wanted.leader_epoch < hosted.leader_epoch:
        return ErrorCode.STALE_CONTROLLER_EPOCH
    if wanted.leader_epoch > hosted.leader_epoch or not hosted.has_role or hosted.untouched:
        return ErrorCode.NONE
    return ErrorCode.STALE_CONTROLLER_EPOCH


def is_done(self_id: int, hosted: Hosted, wanted: Wanted) -> bool:
    """Whether a predecessor of this process has set the wanted role already."""
    same = hosted.has_role and hosted.leader_epoch == wanted.leader_epoch
    return same and hosted.untouched and hosted.is_leader == (wanted.leader == self_id)


def judge_stop_replica(hosted: Hosted | None, leader_epoch: int) -> int:
    """The code; what is not hosted is stopped already."""
    if hosted is None:
        return ErrorCode.NONE
    if not hosted.online:
        return ErrorCode.KAFKA_STORAGE_ERROR
    accepted = leader_epoch in (UNKNOWN_EPOCH, DURING_DELETE) or leader_epoch >= hosted.leader_epoch
    return ErrorCode.NONE if accepted else ErrorCode.FENCED_LEADER_EPOCH
