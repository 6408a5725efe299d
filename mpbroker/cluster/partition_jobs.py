"""AlterPartition, ControlledShutdown, ElectLeaders and AllocateProducerIds as jobs of the elected controller. Pure.

Answers are those of Kafka 3.9's controller. What a request asked for and the image already shows is answered as done:
so a repeated request, or a step that has to be computed again, is harmless.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from mpbroker.cluster.cluster_config import PRODUCER_ID_BLOCK
from mpbroker.cluster.cluster_image import ClusterImage, Partition, PartitionId, Topic
from mpbroker.cluster.elections import Elections
from mpbroker.cluster.jobs import NOTHING, Job, StepBuilder
from mpbroker.cluster.leader_election import Surroundings, preferred_state, unclean_state
from mpbroker.errors import ERRORS, ErrorCode
from mpbroker.metadata.cluster_records import PartitionRecord
from mpbroker.metadata.commands import ProducerIds
from mpbroker.metadata.meta_store import Committed, Put
from mpbroker.metadata.topic_record import ProducerIdBlock, decode_record, encode_record
from mpbroker.protocol.messages.alter_partition import (
    AlterPartitionPartition,
    AlterPartitionPartitionResult,
    AlterPartitionRequest,
    AlterPartitionResponse,
    AlterPartitionTopic,
    AlterPartitionTopicResult,
    BrokerState,
)
from mpbroker.protocol.messages.controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    RemainingPartition,
)
from mpbroker.protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from mpbroker.protocol.types import ZERO_UUID

RECOVERED, RECOVERING = 0, 1
PREFERRED, UNCLEAN = 0, 1
MAX_PRODUCER_ID: Final = 2**63 - 1
Judged = PartitionRecord | int
"""What to write for a partition, or the code to answer (0: it is so already)."""


class PartitionJobs:
    """Makes the jobs. `stop_follower(broker, partition)`: tell a broker that shuts down to give a replica up."""

    def __init__(
        self,
        *,
        image: ClusterImage,
        elections: Elections,
        around: Callable[[], Surroundings],
        max_operations: int,
        shutting_down: set[int],
        stop_follower: Callable[[int, PartitionId], None],
    ) -> None:
        self._image = image
        self._elections = elections
        self._around = around
        self._max_operations = max_operations
        self._shutting_down = shutting_down
        self._stop_follower = stop_follower

    def alter_partition(self, request: AlterPartitionRequest) -> Job:
        """A leader's changes of in-sync replicas."""
        while True:
            live = self._image.brokers.get(request.broker_id)
            if live is None or live.epoch != request.broker_epoch:
                return AlterPartitionResponse(error_code=ErrorCode.STALE_BROKER_EPOCH)
            builder, room = StepBuilder(self._image, self._max_operations), True
            for partition, wanted in self._named(request):
                judged = self._judge(partition, wanted, request.broker_id)
                if room and partition and isinstance(judged, PartitionRecord):
                    room = builder.add([self._put(partition, judged)], judged.isr)
            step = builder.step()
            if not step.ops:
                return self._altered(request)
            yield step

    def _named(self, request: AlterPartitionRequest) -> Iterator[tuple[PartitionId | None, AlterPartitionPartition]]:
        for topic in request.topics:
            found = self._topic_of(topic)
            for wanted in topic.partitions:
                yield (PartitionId(found.id, wanted.partition_index) if found else None), wanted

    def _topic_of(self, topic: AlterPartitionTopic) -> Topic | None:
        if topic.topic_id != ZERO_UUID:
            return self._image.topics.get(topic.topic_id)
        return self._image.topic(topic.topic_name)

    def _altered(self, request: AlterPartitionRequest) -> AlterPartitionResponse:
        answer = AlterPartitionResponse()
        for topic in request.topics:
            found, results = self._topic_of(topic), []
            for wanted in topic.partitions:
                if found is None:
                    by_id = topic.topic_id != ZERO_UUID
                    code = ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                    results.append(_altered_partition(wanted, code, None))
                    continue
                partition = PartitionId(found.id, wanted.partition_index)
                judged = self._judge(partition, wanted, request.broker_id)
                code = judged if isinstance(judged, int) else ErrorCode.UNKNOWN_SERVER_ERROR
                results.append(_altered_partition(wanted, code, self._image.partitions.get(partition)))
            answer.topics.append(
                AlterPartitionTopicResult(topic_name=topic.topic_name, topic_id=topic.topic_id, partitions=results)
            )
        return answer

    def _judge(self, partition: PartitionId | None, wanted: AlterPartitionPartition, broker: int) -> Judged:
        """In Kafka's order: what the controller does not know yet, what is old, what is so already, the rest."""
        state = self._image.partitions.get(partition) if partition else None
        assignment = self._image.assignment(partition) if partition else None
        if state is None or assignment is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        record, isr = state.record, new_isr(wanted)
        if wanted.leader_epoch > record.leader_epoch or wanted.partition_epoch > state.epoch:
            return ErrorCode.NOT_CONTROLLER
        if wanted.leader_epoch < record.leader_epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        recovering = wanted.leader_recovery_state == RECOVERING
        if set(isr) == set(record.isr) and recovering == record.recovering:
            return ErrorCode.NONE
        if wanted.partition_epoch < state.epoch:
            return ErrorCode.INVALID_UPDATE_VERSION
        illegal = broker != record.leader or broker not in isr or not set(isr) <= set(assignment.replicas)
        if illegal or (recovering and (len(isr) > 1 or not record.recovering)):
            return ErrorCode.INVALID_REQUEST
        around = self._around().of(partition) if partition else self._around()
        if not all(_eligible(around, member) for member in _members(wanted)):
            return ErrorCode.INELIGIBLE_REPLICA
        ordered = [replica for replica in assignment.replicas if replica in isr]
        return PartitionRecord(record.leader, record.leader_epoch, ordered, self._around().controller_epoch, recovering)

    def controlled_shutdown(self, request: ControlledShutdownRequest) -> Job:
        """A broker wants to stop: others lead what it led; answered with what it still leads and somebody may lead
        soon. What nobody else could lead however long it waits (all others are away, or stop too) is left out: Kafka
        names it, and lets the last broker of a cluster wait in vain."""
        live = self._image.brokers.get(request.broker_id)
        if live is None:
            return ControlledShutdownResponse(error_code=ErrorCode.BROKER_NOT_AVAILABLE)
        if request.broker_epoch not in (-1, live.epoch):
            return ControlledShutdownResponse(error_code=ErrorCode.STALE_BROKER_EPOCH)
        self._shutting_down.add(request.broker_id)
        hosted = sorted(self._image.hosted[request.broker_id])
        self._elections.look_at(hosted)
        yield NOTHING
        now = self._image.brokers.get(request.broker_id)
        if now is None or now.epoch != live.epoch:  # it stopped, and started again perhaps: not to be stopped again
            return ControlledShutdownResponse(error_code=ErrorCode.STALE_BROKER_EPOCH)
        remaining = []
        for partition in hosted:
            state, assignment = self._image.partitions.get(partition), self._image.assignment(partition)
            if state is None or assignment is None or len(assignment.replicas) == 1:
                continue
            if state.record.leader == request.broker_id:
                if not any(map(self._around().of(partition).can_lead, assignment.replicas)):
                    continue
                name = self._image.topics[partition.topic_id].name
                remaining.append(RemainingPartition(topic_name=name, partition_index=partition.number))
            else:
                self._stop_follower(request.broker_id, partition)
        return ControlledShutdownResponse(remaining_partitions=remaining)

    def elect_leaders(self, request: ElectLeadersRequest) -> Job:
        """Elections that somebody asks for (KIP-460)."""
        everything = request.topic_partitions is None
        asked = self._asked(request)
        done: set[PartitionId] = set()
        while True:
            builder, room, codes = StepBuilder(self._image, self._max_operations), True, {}
            for name, index, partition in asked:
                judged = self._judge_election(partition, request.election_type)
                if isinstance(judged, int):
                    codes[name, index] = ErrorCode.NONE if partition in done else judged
                elif room and partition:
                    room = builder.add([self._put(partition, judged)], judged.isr)
                    if room:
                        done.add(partition)
            step = builder.step()
            if not step.ops:
                return _elected(codes, everything)
            yield step

    def elect_preferred(self, partitions: Iterable[PartitionId]) -> Job:
        """Give partitions back to their preferred replicas, where that is possible now."""
        left = list(partitions)
        while left:
            builder = StepBuilder(self._image, self._max_operations)
            while left:
                judged = self._judge_election(left[-1], PREFERRED)
                if isinstance(judged, PartitionRecord) and not builder.add([self._put(left[-1], judged)], judged.isr):
                    break
                left.pop()
            step = builder.step()
            if step.ops:
                yield step  # what conflicts is looked at again with the next check of the balance

    def _asked(self, request: ElectLeadersRequest) -> list[tuple[str, int, PartitionId | None]]:
        if request.topic_partitions is None:
            topics = sorted(self._image.topics.values(), key=lambda topic: topic.name)
            return [(t.name, p.number, p) for t in topics for p in self._image.partitions_of(t)]
        asked: list[tuple[str, int, PartitionId | None]] = []
        for wanted in request.topic_partitions:
            topic = self._image.topic(wanted.topic)
            asked += [(wanted.topic, n, PartitionId(topic.id, n) if topic else None) for n in wanted.partitions]
        return asked

    def _judge_election(self, partition: PartitionId | None, kind: int) -> Judged:
        state = self._image.partitions.get(partition) if partition else None
        assignment = self._image.assignment(partition) if partition else None
        if partition is None or assignment is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if state is None:
            return ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE if kind else ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
        around, leader = self._around().of(partition), state.record.leader
        if kind == UNCLEAN:
            if leader in around.brokers:
                return ErrorCode.ELECTION_NOT_NEEDED
            return unclean_state(state, assignment, around) or ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
        if leader == assignment.target[0] and leader in around.brokers:
            return ErrorCode.ELECTION_NOT_NEEDED
        return preferred_state(state, assignment, around) or ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE

    def allocate_producer_ids(self) -> Job:
        """A block that nobody else gets. An outcome nobody knows costs a block: 2^63 are enough."""
        key = self._image.keys.producer_id_block
        while True:
            entry = self._image.producer_id_block
            first = 0 if entry is None else decode_record(ProducerIdBlock, entry.value, key).next_id
            if first > MAX_PRODUCER_ID - PRODUCER_ID_BLOCK:
                return ProducerIds(error_code=ErrorCode.UNKNOWN_SERVER_ERROR)
            builder = StepBuilder(self._image, self._max_operations)
            builder.add([Put(key, encode_record(ProducerIdBlock(first + PRODUCER_ID_BLOCK)))])
            outcome = yield builder.step()
            if isinstance(outcome, Committed):
                return ProducerIds(first, PRODUCER_ID_BLOCK)

    def _put(self, partition: PartitionId, record: PartitionRecord) -> Put:
        return Put(self._image.keys.partition(*partition), encode_record(record))


def _eligible(around: Surroundings, member: BrokerState) -> bool:
    """Whether a replica may be in sync: alive, staying, and in the life that the leader heard of (KIP-841, 903)."""
    live = around.brokers.get(member.broker_id)
    return live is not None and around.can_lead(member.broker_id) and member.broker_epoch in (-1, live.epoch)


def new_isr(wanted: AlterPartitionPartition) -> list[int]:
    """The in-sync replicas asked for, whichever version asks."""
    return [member.broker_id for member in _members(wanted)]


def _members(wanted: AlterPartitionPartition) -> list[BrokerState]:
    return wanted.new_isr_with_epochs or [BrokerState(broker_id=broker) for broker in wanted.new_isr]


def _altered_partition(
    wanted: AlterPartitionPartition, code: int, state: Partition | None
) -> AlterPartitionPartitionResult:
    result = AlterPartitionPartitionResult(partition_index=wanted.partition_index, error_code=code)
    if code == ErrorCode.NONE and state:
        result.leader_id = state.record.leader
        result.leader_epoch = state.record.leader_epoch
        result.isr = list(state.record.isr)
        result.leader_recovery_state = RECOVERING if state.record.recovering else RECOVERED
        result.partition_epoch = state.epoch
    return result


def _elected(codes: dict[tuple[str, int], int], everything: bool) -> ElectLeadersResponse:
    """The answer; of all partitions only those that an election was needed for."""
    topics: dict[str, ReplicaElectionResult] = {}
    for (name, index), code in codes.items():
        if everything and code == ErrorCode.ELECTION_NOT_NEEDED:
            continue
        topic = topics.setdefault(name, ReplicaElectionResult(topic=name))
        sentence = None if code == ErrorCode.NONE else ERRORS[code].sentence
        topic.partition_result.append(PartitionResult(partition_id=index, error_code=code, error_message=sentence))
    return ElectLeadersResponse(replica_election_results=list(topics.values()))
