"""What a member of a group and a transactional producer say, one request at a time: the next one follows from the last
answer. Pure: messages in, messages out; a generator process owns one conversation per connection.

The versions are old ones that every broker still speaks. Answers that belong to the conversation (a rebalance goes on,
the last transaction is not finished yet) are no errors; after any other one it begins anew.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from mpbroker.analysis.lab.generator_plan import GeneratorPlan
from mpbroker.client import prepared_request
from mpbroker.errors import ErrorCode
from mpbroker.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from mpbroker.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequestTopicPartitions,
    ConsumerGroupHeartbeatResponse,
)
from mpbroker.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from mpbroker.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from mpbroker.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from mpbroker.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from mpbroker.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from mpbroker.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from mpbroker.protocol.messages.produce import ProduceResponse
from mpbroker.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from mpbroker.protocol.types import Struct

#: Short, so that a member who waits for one that is silent in this phase is let go within its drain time.
SESSION_MS, REBALANCE_MS, TRANSACTION_MS = 6_000, 2_000, 60_000
NO_ERROR = 0
Owned = list[ConsumerGroupHeartbeatRequestTopicPartitions]
#: What a conversation expects to hear now and then.
ORDINARY = frozenset((ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.CONCURRENT_TRANSACTIONS))
SEQUENCES = 1 << 31
_PER_PARTITION = (("responses", "partition_responses"), ("results_by_topic_v3_and_below", "results_by_partition"))
_TEXT = struct.Struct(">hih")


class Ask(NamedTuple):
    """The next request, the version it is sent in, and the shape of its answer."""

    message: Struct
    version: int
    answer: type[Struct]


class Conversation(Protocol):
    """One connection's part."""

    def ask(self) -> Ask:
        """What is to be said next; the same again if the last answer changed nothing."""

    def hear(self, answer: Any) -> int:
        """Take in the answer; its error code, 0 for an ordinary one."""


def conversation_of(plan: GeneratorPlan, number: int) -> Conversation:
    """Of one client, whose number counts all of the group."""
    return TALKS[plan.api](plan, number)


class _FindsItsCoordinator:
    """A conversation whose first question is who coordinates its key."""

    def __init__(self, key: str, key_type: int) -> None:
        self._key, self._key_type = key, key_type
        self._next: Callable[[], Ask] = self._find

    def ask(self) -> Ask:
        """What is to be said next."""
        return self._next()

    def hear(self, answer: Any) -> int:
        """Take in the answer."""
        error = _error(answer)
        if error == NO_ERROR:
            self._go_on(answer)
        elif error not in ORDINARY:
            self._begin_anew()
        else:
            self._wait(error)
        return NO_ERROR if error in ORDINARY else error

    def _find(self) -> Ask:
        return Ask(FindCoordinatorRequest(key=self._key, key_type=self._key_type), 2, FindCoordinatorResponse)

    def _go_on(self, answer: Any) -> None:
        raise NotImplementedError

    def _begin_anew(self) -> None:
        raise NotImplementedError

    def _wait(self, error: int) -> None:
        """An ordinary answer that is not the one that was hoped for: ask again."""


class ClassicMember(_FindsItsCoordinator):
    """Joins, gets its assignment, says `turns` times that it lives, leaves, joins again. When others join or leave, its
    next heartbeat tells it to join again, as they do."""

    def __init__(self, plan: GeneratorPlan, number: int) -> None:
        self._group, self._topic, self._turns = group_of(plan, number), plan.topic, plan.turns
        super().__init__(self._group, 0)
        self._member, self._generation, self._beats = "", -1, 0
        self._members: list[str] = []

    def _join(self) -> Ask:
        offered = JoinGroupRequestProtocol(name="range", metadata=_subscription(self._topic))
        return Ask(
            JoinGroupRequest(
                group_id=self._group,
                session_timeout_ms=SESSION_MS,
                rebalance_timeout_ms=REBALANCE_MS,
                member_id=self._member,
                protocol_type="consumer",
                protocols=[offered],
            ),
            3,
            JoinGroupResponse,
        )

    def _sync(self) -> Ask:
        """The leader gives everybody the bytes of an empty assignment: nothing is read here."""
        parts = [SyncGroupRequestAssignment(member_id=one, assignment=_NO_PARTITIONS) for one in self._members]
        request = SyncGroupRequest(
            group_id=self._group, generation_id=self._generation, member_id=self._member, assignments=parts
        )
        return Ask(request, 2, SyncGroupResponse)

    def _beat(self) -> Ask:
        request = HeartbeatRequest(group_id=self._group, generation_id=self._generation, member_id=self._member)
        return Ask(request, 2, HeartbeatResponse)

    def _leave(self) -> Ask:
        return Ask(LeaveGroupRequest(group_id=self._group, member_id=self._member), 2, LeaveGroupResponse)

    def _go_on(self, answer: Any) -> None:
        if self._next == self._find:
            self._next = self._join
        elif self._next == self._join:
            self._member, self._generation = answer.member_id, answer.generation_id
            self._members = [one.member_id for one in answer.members]
            self._next = self._sync
        elif self._next == self._leave:
            self._begin_anew()
        else:
            self._beats += self._next == self._beat
            self._next = self._beat if self._beats < self._turns else self._leave

    def _begin_anew(self) -> None:
        self._member, self._beats = "", 0
        self._next = self._join

    def _wait(self, error: int) -> None:
        self._next = self._join


class ConsumerMember(_FindsItsCoordinator):
    """The same by KIP-848: joining, living and leaving are heartbeats, and the broker assigns. It has at once what it
    is assigned, and gives up at once what it is not any more."""

    def __init__(self, plan: GeneratorPlan, number: int) -> None:
        self._group, self._topic, self._turns = group_of(plan, number), plan.topic, plan.turns
        super().__init__(self._group, 0)
        self._member, self._epoch, self._beats = "", 0, 0
        self._owned: Owned | None = []

    def _join(self) -> Ask:
        return Ask(
            ConsumerGroupHeartbeatRequest(
                group_id=self._group,
                member_epoch=0,
                rebalance_timeout_ms=REBALANCE_MS,
                subscribed_topic_names=[self._topic],
                topic_partitions=[],
            ),
            0,
            ConsumerGroupHeartbeatResponse,
        )

    def _beat(self) -> Ask:
        return self._heartbeat(self._epoch, self._owned)

    def _leave(self) -> Ask:
        return self._heartbeat(-1, None)

    def _heartbeat(self, epoch: int, owned: Owned | None) -> Ask:
        request = ConsumerGroupHeartbeatRequest(
            group_id=self._group, member_id=self._member, member_epoch=epoch, topic_partitions=owned
        )
        return Ask(request, 0, ConsumerGroupHeartbeatResponse)

    def _go_on(self, answer: Any) -> None:
        if self._next == self._find:
            self._next = self._join
            return
        if self._next == self._leave:
            self._begin_anew()
            return
        self._beats += self._next == self._beat
        self._member, self._epoch, self._owned = answer.member_id or self._member, answer.member_epoch, None
        if answer.assignment is not None:
            self._owned = [
                ConsumerGroupHeartbeatRequestTopicPartitions(topic_id=one.topic_id, partitions=one.partitions)
                for one in answer.assignment.topic_partitions
            ]
        self._next = self._beat if self._beats < self._turns else self._leave

    def _begin_anew(self) -> None:
        self._member, self._epoch, self._beats, self._owned = "", 0, 0, []
        self._next = self._join


class Transactions(_FindsItsCoordinator):
    """One transaction after the other: a partition is added, `turns` Produce requests go there, all is committed."""

    def __init__(self, plan: GeneratorPlan, number: int) -> None:
        self._id = f"{plan.client_id}-{number}"
        super().__init__(self._id, 1)
        self._topic, self._partition = plan.topic, number % plan.partitions
        self._values = [b"x" * plan.value_bytes] * plan.records
        self._turns, self._produced = plan.turns, 0
        self._producer, self._epoch, self._sequence = -1, -1, 0

    def _init(self) -> Ask:
        return Ask(
            InitProducerIdRequest(transactional_id=self._id, transaction_timeout_ms=TRANSACTION_MS),
            1,
            InitProducerIdResponse,
        )

    def _add(self) -> Ask:
        return Ask(
            AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=self._id,
                v3_and_below_producer_id=self._producer,
                v3_and_below_producer_epoch=self._epoch,
                v3_and_below_topics=[AddPartitionsToTxnTopic(name=self._topic, partitions=[self._partition])],
            ),
            2,
            AddPartitionsToTxnResponse,
        )

    def _produce(self) -> Ask:
        producer = prepared_request.Producer(self._id, self._producer, self._epoch, self._sequence)
        request = prepared_request.transactional(producer, self._topic, self._partition, self._values)
        return Ask(request, prepared_request.PRODUCE_VERSION, ProduceResponse)

    def _end(self) -> Ask:
        request = EndTxnRequest(
            transactional_id=self._id, producer_id=self._producer, producer_epoch=self._epoch, committed=True
        )
        return Ask(request, 2, EndTxnResponse)

    def _go_on(self, answer: Any) -> None:
        if self._next == self._find:
            self._next = self._init
        elif self._next == self._init:
            self._producer, self._epoch, self._sequence = answer.producer_id, answer.producer_epoch, 0
            self._next = self._add
        elif self._next == self._add:
            self._produced, self._next = 0, self._produce
        elif self._next == self._produce:
            self._sequence = (self._sequence + len(self._values)) % SEQUENCES
            self._produced += 1
            self._next = self._produce if self._produced < self._turns else self._end
        else:
            self._next = self._add

    def _begin_anew(self) -> None:
        self._next = self._init


def group_of(plan: GeneratorPlan, number: int) -> str:
    """The consumer group of one client: `group_size` clients share one, or all of them."""
    return f"{plan.client_id}-{number // plan.group_size if plan.group_size else 0}"


def _error(answer: Any) -> int:
    """The first error in an answer, wherever its shape has it."""
    for name, inner in (
        ("responses", "partition_responses"),
        ("results_by_topic_v3_and_below", "results_by_partition"),
    ):
        for topic in getattr(answer, name, ()):
            for one in getattr(topic, inner):
                code = int(getattr(one, "error_code", 0) or getattr(one, "partition_error_code", 0))
                if code:
                    return code
    return int(getattr(answer, "error_code", 0))


def _subscription(topic: str) -> bytes:
    """Kafka's ConsumerProtocolSubscription, version 0: one topic, no user data."""
    name = topic.encode()
    return _TEXT.pack(0, 1, len(name)) + name + struct.pack(">i", -1)


#: ConsumerProtocolAssignment, version 0: no topic, no user data.
_NO_PARTITIONS = struct.pack(">hii", 0, 0, -1)
TALKS: dict[str, Callable[[GeneratorPlan, int], Conversation]] = {
    "classic_member": ClassicMember,
    "consumer_member": ConsumerMember,
    "transaction": Transactions,
}
