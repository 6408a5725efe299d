"""AlterPartitionReassignments and ListPartitionReassignments as jobs of the elected controller (KIP-455). Pure.

A move begins with the assignment target and original together and a new leader epoch, in one transaction. When the
target is in sync, elections.py ends it: leader and ISR within the target, and the assignment is the target. Whatever
state a dead controller left a move in, the topic's record says what is still to come.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from mpbroker.cluster.cluster_image import Assignment, ClusterImage, PartitionId, Topic
from mpbroker.cluster.elections import with_topic
from mpbroker.cluster.jobs import Job, Step, StepBuilder
from mpbroker.cluster.leader_election import Surroundings, narrowed_state
from mpbroker.cluster.partition_states import wrong_write
from mpbroker.errors import ERRORS, ErrorCode
from mpbroker.metadata.cluster_records import PartitionRecord
from mpbroker.metadata.meta_store import Put
from mpbroker.metadata.topic_record import encode_record
from mpbroker.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from mpbroker.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)


class Refused(NamedTuple):
    """Why a partition is not moved."""

    code: int
    sentence: str


class Move(NamedTuple):
    """The first step of a move."""

    assignment: Assignment
    record: PartitionRecord


class ReassignmentJobs:
    """Makes the jobs."""

    def __init__(self, *, image: ClusterImage, around: Callable[[], Surroundings], max_operations: int) -> None:
        self._image = image
        self._around = around
        self._max_operations = max_operations

    def alter(self, request: AlterPartitionReassignmentsRequest) -> Job:
        """Begin, change or cancel moves; each partition has its own result."""
        answer = AlterPartitionReassignmentsResponse()
        for asked in request.topics:
            wanted = {partition.partition_index: partition.replicas for partition in asked.partitions}
            results: dict[int, Refused | None] = {}
            while True:
                step = self._step(asked.name, wanted, results)
                if step is None:
                    break
                yield step
            rows = [_result(partition.partition_index, results) for partition in asked.partitions]
            answer.responses.append(ReassignableTopicResponse(name=asked.name, partitions=rows))
        return answer

    def _step(self, name: str, wanted: dict[int, list[int] | None], results: dict[int, Refused | None]) -> Step | None:
        """The next transaction of one topic, None: all is done. Fills in results of what is done or refused."""
        topic = self._image.topic(name)
        builder = StepBuilder(self._image, self._max_operations)
        begun: dict[int, Assignment] = {}
        for index, replicas in wanted.items():
            if index in results and results[index] is not None:
                continue
            judged = self._judge(topic, index, replicas, index in results)
            if judged is None or isinstance(judged, Refused):
                results[index] = judged
                continue
            assert topic is not None
            key = self._image.keys.partition(topic.id, index)
            ops = [Put(key, encode_record(judged.record))]
            if not begun:
                ops.append(Put(self._image.keys.topic(topic.id), b""))
            if not builder.add(ops, judged.record.isr):
                break
            begun[index] = judged.assignment
            results[index] = None
        step = builder.step()
        if topic is None or not begun:
            return None
        return with_topic(step, self._image.keys.topic(topic.id), topic, begun)

    def _judge(self, topic: Topic | None, index: int, replicas: list[int] | None, begun: bool) -> Move | Refused | None:
        """How to begin a move; None: it is under way, or there is nothing to do."""
        assignment = topic.assignments[index] if topic and 0 <= index < len(topic.assignments) else None
        if assignment is None:
            return Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The partition does not exist.")
        if replicas is None and not (assignment.adding or assignment.removing):
            return (
                None
                if begun
                else Refused(
                    ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, ERRORS[ErrorCode.NO_REASSIGNMENT_IN_PROGRESS].sentence
                )
            )
        original = assignment.original
        target = original if replicas is None else tuple(replicas)
        refused = self._refuse(target) if replicas is not None else None
        if refused:
            return refused
        if target == assignment.target and not (replicas is None and assignment.adding):
            return None
        return self._begin(PartitionId(topic.id, index) if topic else None, assignment, target)

    def _refuse(self, target: tuple[int, ...]) -> Refused | None:
        sentence = None
        if not target:
            sentence = "Empty replica list specified in partition reassignment."
        elif len(set(target)) != len(target):
            sentence = f"Duplicate replica ids in partition reassignment replica list: {list(target)}"
        elif min(target) < 0:
            sentence = f"Invalid broker id in replica list: {list(target)}"
        elif not set(target) <= set(self._image.brokers):
            sentence = f"Replica assignment has brokers that are not alive. Replica list: {list(target)}"
        return None if sentence is None else Refused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, sentence)

    def _begin(self, partition: PartitionId | None, assignment: Assignment, target: tuple[int, ...]) -> Move | Refused:
        state = self._image.partitions.get(partition) if partition else None
        original = assignment.original
        adding = tuple(broker for broker in target if broker not in original)
        removing = tuple(broker for broker in original if broker not in target)
        now = Assignment((*target, *removing), adding, removing)
        record = None
        if partition is not None and state is not None:
            record = narrowed_state(state, now, self._around().of(partition))
        if record is None or wrong_write(state, record, now):
            return Refused(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT, "None of the replicas that would stay is alive and in sync."
            )
        return Move(now, record)

    def list(self, request: ListPartitionReassignmentsRequest) -> ListPartitionReassignmentsResponse:
        """Moves under way."""
        answer = ListPartitionReassignmentsResponse()
        for topic, indexes in self._asked(request):
            rows = [
                OngoingPartitionReassignment(
                    partition_index=index,
                    replicas=[*assignment.replicas],
                    adding_replicas=[*assignment.adding],
                    removing_replicas=[*assignment.removing],
                )
                for index, assignment in enumerate(topic.assignments)
                if (indexes is None or index in indexes) and (assignment.adding or assignment.removing)
            ]
            if rows:
                answer.topics.append(OngoingTopicReassignment(name=topic.name, partitions=rows))
        return answer

    def _asked(self, request: ListPartitionReassignmentsRequest) -> Iterator[tuple[Topic, set[int] | None]]:
        if request.topics is None:
            yield from ((topic, None) for topic in sorted(self._image.topics.values(), key=lambda topic: topic.name))
            return
        for asked in request.topics:
            topic = self._image.topic(asked.name)
            if topic:
                yield topic, set(asked.partition_indexes)


def _result(index: int, results: dict[int, Refused | None]) -> ReassignablePartitionResponse:
    refused = results.get(index)
    if refused is None:
        return ReassignablePartitionResponse(partition_index=index)
    return ReassignablePartitionResponse(partition_index=index, error_code=refused.code, error_message=refused.sentence)
