"""Which partitions need another leader or ISR after what happened, and the transactions that give it to them. Pure.

Partitions are looked at when something happened that may concern them: they stand in `dirty` until what is decided
for them is in the image. What is decided depends on the image alone (leader_election.py).
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from mpbroker.cluster.cluster_image import Assignment, ClusterImage, Partition, PartitionId, Topic
from mpbroker.cluster.jobs import Outcome, Step, StepBuilder
from mpbroker.cluster.leader_election import Surroundings, first_state, next_state, reassigned_state
from mpbroker.cluster.partition_states import wrong_write
from mpbroker.errors import MpbrokerError
from mpbroker.metadata.cluster_records import PartitionRecord
from mpbroker.metadata.meta_store import Committed, Op, Put
from mpbroker.metadata.topic_record import TopicRecord, encode_record

_UNCLEAN = "unclean.leader.election.enable"


class BrokenRule(MpbrokerError):
    """The controller was about to write what must never be written; the process ends its term."""


class Decision(NamedTuple):
    """What to write for a partition; `ends_move`: its assignment becomes the target in the same transaction."""

    record: PartitionRecord
    ends_move: bool = False


class Elections:
    """Decides for dirty partitions. `around()`: brokers as they are now."""

    def __init__(
        self,
        image: ClusterImage,
        around: Callable[[], Surroundings],
        unclean_by_default: bool,
        max_operations: int,
    ) -> None:
        self._image = image
        self._around = around
        self._unclean_by_default = unclean_by_default
        self._max_operations = max_operations
        self._dirty: dict[PartitionId, None] = {}
        self._in_step: list[PartitionId] = []

    @property
    def settled(self) -> bool:
        """Whether every partition has been looked at."""
        return not self._dirty and not self._in_step

    def look_at(self, partitions: Iterable[PartitionId]) -> None:
        """Something happened that may concern these."""
        self._dirty.update(dict.fromkeys(partitions))

    def surroundings(self, topic: Topic) -> Surroundings:
        """What decisions about a topic's partitions look at."""
        own = self._image.configs_of(topic.name).get(_UNCLEAN)
        return self._around()._replace(unclean=self._unclean_by_default if own is None else own == "true")

    def next_step(self) -> Step | None:
        """A transaction for as many dirty partitions as fit; None: nothing is to be done."""
        builder = StepBuilder(self._image, self._max_operations)
        ending: Topic | None = None
        ended: dict[int, Assignment] = {}
        while self._dirty:
            partition = next(iter(self._dirty))
            decision = self.decide(partition)
            if decision is None:
                del self._dirty[partition]
                continue
            topic = self._image.topics[partition.topic_id]
            if decision.ends_move and ending not in (None, topic):
                break  # another topic's record is already in this transaction
            ops = [self._put(partition, decision.record)]
            if decision.ends_move and ending is None:
                ops.append(Put(self._image.keys.topic(topic.id), b""))
            if not builder.add(ops, decision.record.isr):
                break
            if decision.ends_move:
                ending = topic
                ended[partition.number] = Assignment(self._assignment(partition).target)
            del self._dirty[partition]
            self._in_step.append(partition)
        step = builder.step()
        if not step.ops:
            return None
        return step if ending is None else with_topic(step, self._image.keys.topic(ending.id), ending, ended)

    def finished(self, outcome: Outcome) -> None:
        """The step was tried. What it was for is looked at again unless it is done."""
        again, self._in_step = self._in_step, []
        if not isinstance(outcome, Committed):
            self.look_at(again)

    def decide(self, partition: PartitionId) -> Decision | None:
        """What a partition needs; None: it may stay as it is."""
        topic = self._image.topics.get(partition.topic_id)
        if topic is None or partition.number >= len(topic.assignments):
            return None
        around, assignment = self.surroundings(topic).of(partition), topic.assignments[partition.number]
        state = self._image.partitions.get(partition)
        decision = _decide(state, assignment, around)
        if decision:
            final = Assignment(assignment.target) if decision.ends_move else assignment
            wrong = wrong_write(state, decision.record, final)
            if wrong:
                raise BrokenRule(f"{topic.name}-{partition.number}: {wrong}")
        return decision

    def _assignment(self, partition: PartitionId) -> Assignment:
        return self._image.topics[partition.topic_id].assignments[partition.number]

    def _put(self, partition: PartitionId, record: PartitionRecord) -> Op:
        return Put(self._image.keys.partition(*partition), encode_record(record))


def _decide(state: Partition | None, assignment: Assignment, around: Surroundings) -> Decision | None:
    if state is None:
        first = first_state(assignment, around)
        return None if first is None else Decision(first)
    needed = next_state(state, assignment, around)
    if needed:
        return Decision(needed)
    if assignment.adding or assignment.removing:
        ended = reassigned_state(state, assignment, around)
        return None if ended is None else Decision(ended, ends_move=True)
    return None


def with_topic(step: Step, key: str, topic: Topic, changed: dict[int, Assignment]) -> Step:
    """The step with the topic's record in its place as it is with other assignments of some partitions."""
    value = encode_record(with_assignments(topic, changed))
    ops = [Put(key, value) if isinstance(op, Put) and op.key == key else op for op in step.ops]
    return Step(step.checks, tuple(ops))


def with_assignments(topic: Topic, changed: dict[int, Assignment]) -> TopicRecord:
    """The topic's record with other assignments of some partitions."""
    now = [changed.get(index, assignment) for index, assignment in enumerate(topic.assignments)]
    moving = any(assignment.adding or assignment.removing for assignment in now)
    record = topic.record
    return TopicRecord(
        id=record.id,
        name=record.name,
        replicas=[list(assignment.replicas) for assignment in now],
        created_ms=record.created_ms,
        directories=record.directories,
        adding=[list(assignment.adding) for assignment in now] if moving else [],
        removing=[list(assignment.removing) for assignment in now] if moving else [],
    )
