"""CreateTopics, CreatePartitions, DeleteTopics and AlterConfigs of topics as jobs of the elected controller. Pure.

A topic exists from the moment its name's key does. The states of its partitions are written before, in as many
transactions as it takes; what a dead controller left of them is swept by the next one. Every answer is made from what
the image shows in the end, so a step whose outcome is unknown is simply computed again: the topic's id tells whether
it was ours.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from random import Random
from typing import NamedTuple

import msgspec

from mpbroker.cluster.cluster_image import Assignment, ClusterImage, PartitionId, Topic
from mpbroker.cluster.elections import with_assignments
from mpbroker.cluster.jobs import Job, Step, StepBuilder, Steps
from mpbroker.cluster.leader_election import Surroundings, first_state
from mpbroker.cluster.replica_placement import place
from mpbroker.config.topic_changes import NotAList, changed_topic_configs
from mpbroker.config.topic_config import validate_topic_configs
from mpbroker.errors import ErrorCode
from mpbroker.metadata.commands import (
    AlterConfigs,
    ConfigChanges,
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    NewTopic,
    TopicResult,
    TopicResults,
)
from mpbroker.metadata.meta_store import Conflict, Delete, DeletePrefix, Op, Put
from mpbroker.metadata.topic_names import illegal_name_sentence
from mpbroker.metadata.topic_record import TopicConfigRecord, TopicRecord, encode_record
from mpbroker.metadata.topic_validation import (
    BIGGEST_BLOB_BYTES,
    Defaults,
    Refusal,
    TopicPlan,
    plan_partitions,
    plan_topic,
    refuse_name,
    too_many_partitions,
)

DUPLICATE = "Duplicate topic name."
TOPIC = 2
"""Resource type of AlterConfigs; a broker's settings are not the elected controller's."""
MAX_TRIES = 20
"""A change that conflicts so often is given up: nobody else writes these keys."""


class NewState(NamedTuple):
    """A topic that is being created."""

    id: bytes
    plan: TopicPlan
    record: TopicRecord


class TopicJobs:
    """Makes the jobs. `new_id`: 16 random bytes; `random`: where placements begin; `now_ms()`: wall clock."""

    def __init__(
        self,
        *,
        image: ClusterImage,
        around: Callable[[], Surroundings],
        max_operations: int,
        defaults: Defaults,
        deletion_allowed: bool,
        new_id: Callable[[], bytes],
        random: Random,
        now_ms: Callable[[], int],
    ) -> None:
        self._image = image
        self._around = around
        self._max_operations = max_operations
        self._defaults = defaults
        self._deletion_allowed = deletion_allowed
        self._new_id = new_id
        self._random = random
        self._now_ms = now_ms

    def create_topics(self, command: CreateTopics) -> Job:
        """Create what may be created; each topic has its own result."""
        names, duplicates = _once(topic.name for topic in command.topics)
        results: dict[str, TopicResult] = {}
        wanted = [topic for topic in command.topics if topic.name in names]
        if too_many_partitions(wanted, self._defaults):
            refusal = Refusal(ErrorCode.POLICY_VIOLATION, "Excessively large number of partitions per request.")
            return _answer({topic.name: TopicResult(topic.name, *refusal) for topic in wanted}, duplicates)
        plans: list[NewState] = []
        for new in wanted:
            plan = self._judge(new)
            results[new.name] = _judged(new.name, plan)
            if isinstance(plan, TopicPlan) and not command.validate_only:
                topic_id = self._new_id()
                record = TopicRecord(topic_id.hex(), plan.name, plan.replicas, self._now_ms())
                plans.append(NewState(topic_id, plan, record))
        yield from self._create(plans)
        results.update({new.plan.name: self._created(new) for new in plans})
        return _answer(results, duplicates)

    def _judge(self, new: NewTopic) -> TopicPlan | Refusal:
        other = self._image.colliding(new.name)
        refusal = refuse_name(new.name, self._image.by_name, {} if other is None else {new.name: other})
        return refusal or plan_topic(new, sorted(self._available()), self._defaults, self._place)

    def _create(self, plans: list[NewState]) -> Steps:
        """Of each topic the partitions first, the name last; as many topics in a transaction as fit."""
        for _ in range(MAX_TRIES + sum(len(new.record.replicas) + 1 for new in plans)):
            builder = StepBuilder(self._image, self._max_operations)
            left = [new for new in plans if self._image.topic(new.plan.name) is None]
            for new in left:
                states = enumerate(Assignment(tuple(replicas)) for replicas in new.record.replicas)
                if not self._add_states(builder, new.id, states) or not builder.add(self._naming(new)):
                    break
            if not left:
                return
            yield builder.step()

    def _created(self, new: NewState) -> TopicResult:
        found, name = self._image.topic(new.plan.name), new.plan.name
        if found is None or found.id != new.id:
            return TopicResult(name, ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
        return msgspec.structs.replace(_judged(name, new.plan), topic_id=new.id)

    def _naming(self, new: NewState) -> list[Op]:
        keys, name, configs = self._image.keys, new.plan.name, new.plan.configs
        ops: list[Op] = [Put(keys.topic_name(name), new.record.id.encode())]
        ops.append(Put(keys.topic(new.id), encode_record(new.record)))
        if configs:
            ops.append(Put(keys.topic_config(name), encode_record(TopicConfigRecord(configs))))
        return ops

    def _add_states(self, builder: StepBuilder, topic_id: bytes, assignments: Iterable[tuple[int, Assignment]]) -> bool:
        """First states of partitions that have none; False: there was no room for all of them. One whose replicas
        have all gone stays without, and is elected when one of them comes back."""
        for index, assignment in assignments:
            partition = PartitionId(topic_id, index)
            record = first_state(assignment, self._around())
            if partition in self._image.partitions or record is None:
                continue
            put = Put(self._image.keys.partition(topic_id, index), encode_record(record))
            if not builder.add([put], record.isr):
                return False
        return True

    def _available(self) -> dict[int, str | None]:
        around = self._around()
        found = {broker.id: broker.record.rack for broker in around.brokers.values() if around.can_lead(broker.id)}
        return found or {broker.id: broker.record.rack for broker in around.brokers.values()}

    def _place(self, first: int, count: int, factor: int, brokers: list[int]) -> list[list[int]]:
        racks = self._available()
        usable = {broker: racks[broker] for broker in brokers}
        start, shift = self._random.randrange(len(usable)), self._random.randrange(len(usable))
        return place(first, count, factor, usable, start, shift)

    def create_partitions(self, command: CreatePartitions) -> Job:
        """Add partitions to topics; each topic has its own result."""
        names, duplicates = _once(topic.name for topic in command.topics)
        results = {}
        for wanted in (topic for topic in command.topics if topic.name in names):
            topic = self._image.topic(wanted.name)
            replicas = None if topic is None else [list(assignment.target) for assignment in topic.assignments]
            plan = plan_partitions(wanted, replicas, sorted(self._available()), self._place)
            if isinstance(plan, Refusal):
                results[wanted.name] = TopicResult(wanted.name, *plan)
                continue
            if topic and not command.validate_only:
                yield from self._extend(topic, plan)
            results[wanted.name] = TopicResult(wanted.name)
        return _answer(results, duplicates)

    def _extend(self, topic: Topic, added: list[list[int]]) -> Steps:
        first, count = len(topic.assignments), len(topic.assignments) + len(added)
        new = [(first + k, Assignment(tuple(replicas))) for k, replicas in enumerate(added)]
        for _ in range(MAX_TRIES + len(added)):
            now = self._image.topics.get(topic.id)
            if now is None or len(now.assignments) >= count:
                return
            builder = StepBuilder(self._image, self._max_operations)
            if self._add_states(builder, topic.id, new):
                longer = now._replace(assignments=(*now.assignments, *(assignment for _, assignment in new)))
                builder.add([Put(self._image.keys.topic(topic.id), encode_record(with_assignments(longer, {})))])
            yield builder.step()

    def delete_topics(self, command: DeleteTopics) -> Job:
        """Delete topics; when this is answered they can be created again, empty."""
        names, duplicates = _once(command.names)
        if not self._deletion_allowed:
            disabled = Refusal(ErrorCode.TOPIC_DELETION_DISABLED, "Topic deletion is disabled.")
            return TopicResults([TopicResult(name, *disabled) for name in names])
        results = {}
        for name in names:
            topic = self._image.topic(name)
            if topic is None or command.ids.get(name, topic.id) != topic.id:
                unknown = ErrorCode.UNKNOWN_TOPIC_ID if name in command.ids else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                results[name] = TopicResult(name, unknown)
                continue
            yield from self._delete(topic)
            results[name] = TopicResult(name)
        return _answer(results, duplicates)

    def _delete(self, topic: Topic) -> Steps:
        for _ in range(MAX_TRIES):
            if topic.id not in self._image.topics:
                return
            builder, keys = StepBuilder(self._image, self._max_operations), self._image.keys
            ops: list[Op] = [Delete(keys.topic_name(topic.name)), Delete(keys.topic(topic.id))]
            builder.add([*ops, Delete(keys.topic_config(topic.name)), DeletePrefix(keys.partitions_of(topic.id))])
            yield builder.step()

    def sweep(self) -> Steps:
        """Remove what a creation that its controller did not live to finish has left."""
        for topic_id in sorted({partition.topic_id for partition in self._image.orphans()} - set(self._image.topics)):
            yield Step((), (DeletePrefix(self._image.keys.partitions_of(topic_id)),))
        while orphans := self._image.orphans():
            builder = StepBuilder(self._image, self._max_operations)
            for partition in orphans:
                if not builder.add([Delete(self._image.keys.partition(*partition))]):
                    break
            yield builder.step()

    def alter_configs(self, command: AlterConfigs) -> Job:
        """Change what may be changed of topics' settings; one result for each resource."""
        results = []
        for wanted in command.resources:
            after = self._judge_configs(wanted, command.replace)
            while not isinstance(after, Refusal) and not command.validate_only:
                if after == self._image.configs_of(wanted.name):
                    break
                builder, key = (
                    StepBuilder(self._image, self._max_operations),
                    self._image.keys.topic_config(wanted.name),
                )
                builder.add([Put(key, encode_record(TopicConfigRecord(dict(after)))) if after else Delete(key)])
                if isinstance((yield builder.step()), Conflict):
                    after = self._judge_configs(wanted, command.replace)
            results.append(TopicResult(wanted.name, *(after if isinstance(after, Refusal) else ())))
        return TopicResults(results)

    def _judge_configs(self, wanted: ConfigChanges, replace: bool) -> Mapping[str, str] | Refusal:
        """The settings a topic is to have; checked in Kafka's order, its existence last."""
        if wanted.resource_type != TOPIC:
            return Refusal(ErrorCode.INVALID_REQUEST, "The cluster's controller changes settings of topics only.")
        own = {} if replace else dict(self._image.configs_of(wanted.name))
        try:
            changed = changed_topic_configs(own, wanted.changes)
        except NotAList as error:
            return Refusal(ErrorCode.INVALID_CONFIG, str(error))
        if not wanted.name:
            return Refusal(ErrorCode.INVALID_REQUEST, "Default topic resources are not allowed.")
        illegal = illegal_name_sentence(wanted.name)
        if illegal:
            return Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, illegal)
        configs, sentence = validate_topic_configs(changed)
        if sentence:
            return Refusal(ErrorCode.INVALID_CONFIG, sentence)
        if self._image.topic(wanted.name) is None:
            return Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{wanted.name}' does not exist.")
        if len(msgspec.json.encode(configs)) > BIGGEST_BLOB_BYTES:
            sentence = f"There is no room for so many settings of one topic ({BIGGEST_BLOB_BYTES} bytes are kept)."
            return Refusal(ErrorCode.POLICY_VIOLATION, sentence)
        return configs


def _once(names: Iterable[str]) -> tuple[list[str], list[str]]:
    """(names given once, names given more than once), in order."""
    counted = Counter(names)
    return [name for name, n in counted.items() if n == 1], [name for name, n in counted.items() if n > 1]


def _judged(name: str, plan: TopicPlan | Refusal) -> TopicResult:
    if isinstance(plan, Refusal):
        return TopicResult(name, *plan)
    return TopicResult(name, 0, None, bytes(16), len(plan.replicas), len(plan.replicas[0]))


def _answer(results: dict[str, TopicResult], duplicates: list[str]) -> TopicResults:
    repeated = [TopicResult(name, ErrorCode.INVALID_REQUEST, DUPLICATE) for name in duplicates]
    return TopicResults([*results.values(), *repeated])
