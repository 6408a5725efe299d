"""What a topic may be: names, counts, assignments, settings, with Kafka 3.9's error codes and sentences.

Runs in the controller process, in a cluster in the elected one's. Pure functions over what exists; nothing is
changed. The order of the checks is Kafka's: names, existence and collisions, settings, then counts or assignment, so
that of several faults a client is told the same one.
"""

from collections.abc import Callable, Collection, Mapping
from typing import Final, NamedTuple

from mpbroker.config.topic_config import validate_topic_configs
from mpbroker.errors import ErrorCode
from mpbroker.metadata.commands import DEFAULT_COUNT, NewTopic, PartitionCount
from mpbroker.metadata.topic_names import CLUSTER_METADATA_TOPIC, illegal_name_sentence

MAX_PARTITIONS_PER_REQUEST: Final = 10_000
BIGGEST_BLOB_BYTES: Final = 3584  # MPB_TOPIC_BLOB: the settings of one topic as JSON


class Refusal(NamedTuple):
    """A Kafka error code and the sentence for the client."""

    code: int
    sentence: str | None


class TopicPlan(NamedTuple):
    """A topic that may be created: broker ids per partition, settings in Kafka's spelling."""

    name: str
    replicas: list[list[int]]
    configs: dict[str, str]


class Defaults(NamedTuple):
    """The broker's settings for new topics."""

    num_partitions: int
    replication_factor: int


def refuse_name(name: str, existing: Collection[str], colliding: Mapping[str, str]) -> Refusal | None:
    """Names that cannot be created. `colliding`: names in the way of this one, by themselves."""
    if name == CLUSTER_METADATA_TOPIC:
        return Refusal(ErrorCode.INVALID_REQUEST, f"Creation of internal topic {name} is prohibited.")
    sentence = illegal_name_sentence(name)
    if sentence:
        return Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, sentence)
    if name in existing:
        return Refusal(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
    if name in colliding:
        return Refusal(
            ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic '{name}' collides with existing topic: {colliding[name]}"
        )
    return None


def place_replicas(first: int, count: int, factor: int, brokers: list[int]) -> list[list[int]]:
    """Replicas of partitions first … first + count - 1, leaders going round the brokers."""
    ring = range(first, first + count)
    return [[brokers[(partition + k) % len(brokers)] for k in range(factor)] for partition in ring]


Place = Callable[[int, int, int, list[int]], list[list[int]]]
"""Like `place_replicas`; the factor is at most the number of brokers."""


def plan_topic(
    new: NewTopic, brokers: list[int], defaults: Defaults, place: Place = place_replicas
) -> TopicPlan | Refusal:
    """Settings and partitions of a topic whose name may be used. `brokers`: ids of the registered ones."""
    configs, sentence = validate_topic_configs(new.configs)
    if sentence:
        return Refusal(ErrorCode.INVALID_CONFIG, sentence)
    replicas = _assigned(new, brokers) if new.assignments else _spread(new, brokers, defaults, place)
    return replicas if isinstance(replicas, Refusal) else TopicPlan(new.name, replicas, configs)


def _assigned(new: NewTopic, brokers: list[int]) -> list[list[int]] | Refusal:
    refusal = _assigned_and_counted(new)
    if refusal:
        return refusal
    by_partition: dict[int, list[int]] = {}
    for partition, replicas in new.assignments:
        if partition in by_partition:
            sentence = f"Found multiple manual partition assignments for partition {partition}"
            return Refusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, sentence)
        refusal = _refuse_replicas(replicas, brokers, factor=len(new.assignments[0][1]))
        if refusal:
            return refusal
        by_partition[partition] = replicas
    if sorted(by_partition) != list(range(len(by_partition))):
        sentence = "partitions should be a consecutive 0-based integer sequence"
        return Refusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, sentence)
    return [by_partition[partition] for partition in sorted(by_partition)]


def _assigned_and_counted(new: NewTopic) -> Refusal | None:
    for given, what in ((new.replication_factor, "replication factor"), (new.num_partitions, "numPartitions")):
        if given != DEFAULT_COUNT:
            sentence = f"A manual partition assignment was specified, but {what} was not set to -1."
            return Refusal(ErrorCode.INVALID_REQUEST, sentence)
    return None


def _refuse_replicas(replicas: list[int], brokers: list[int], factor: int) -> Refusal | None:
    sentence = None
    if not replicas:
        sentence = "The manual partition assignment includes an empty replica list."
    for broker in replicas:
        if sentence is None and broker not in brokers:
            sentence = f"The manual partition assignment includes broker {broker}, but no such broker is registered."
        if sentence is None and replicas.count(broker) > 1:
            sentence = f"The manual partition assignment includes the broker {broker} more than once."
    if sentence is None and len(replicas) != factor:
        sentence = (
            f"The manual partition assignment includes a partition with {len(replicas)} replica(s), but this is "
            f"not consistent with previous partitions, which have {factor} replica(s)."
        )
    return None if sentence is None else Refusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, sentence)


def _spread(new: NewTopic, brokers: list[int], defaults: Defaults, place: Place) -> list[list[int]] | Refusal:
    if new.replication_factor < DEFAULT_COUNT or new.replication_factor == 0:
        sentence = "Replication factor must be larger than 0, or -1 to use the default value."
        return Refusal(ErrorCode.INVALID_REPLICATION_FACTOR, sentence)
    if new.num_partitions < DEFAULT_COUNT or new.num_partitions == 0:
        return Refusal(ErrorCode.INVALID_PARTITIONS, "Number of partitions was set to an invalid non-positive value.")
    partitions = defaults.num_partitions if new.num_partitions == DEFAULT_COUNT else new.num_partitions
    factor = defaults.replication_factor if new.replication_factor == DEFAULT_COUNT else new.replication_factor
    return _placed(0, partitions, factor, brokers, place)


def _placed(first: int, count: int, factor: int, brokers: list[int], place: Place) -> list[list[int]] | Refusal:
    if factor > len(brokers):
        sentence = (
            f"Unable to replicate the partition {factor} time(s): The target replication factor of {factor} cannot "
            f"be reached because only {len(brokers)} broker(s) are registered."
        )
        return Refusal(ErrorCode.INVALID_REPLICATION_FACTOR, sentence)
    return place(first, count, factor, brokers)


def plan_partitions(
    wanted: PartitionCount, replicas: list[list[int]] | None, brokers: list[int], place: Place = place_replicas
) -> list[list[int]] | Refusal:
    """Broker ids of the partitions to add to a topic that has `replicas` (None: there is no such topic)."""
    if replicas is None:
        return Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None)
    name, present = wanted.name, len(replicas)
    if wanted.count == present:
        return Refusal(ErrorCode.INVALID_PARTITIONS, f"Topic already has {present} partition(s).")
    if wanted.count < present:
        sentence = f"The topic {name} currently has {present} partition(s); {wanted.count} would not be an increase."
        return Refusal(ErrorCode.INVALID_PARTITIONS, sentence)
    added = wanted.count - present
    if added > MAX_PARTITIONS_PER_REQUEST:
        return Refusal(ErrorCode.UNKNOWN_SERVER_ERROR, None)  # what Kafka answers
    if wanted.assignments is None:
        return _placed(present, added, len(replicas[0]), brokers, place)
    return _added(wanted.assignments, added, len(replicas[0]), brokers)


def _added(assignments: list[list[int]], added: int, factor: int, brokers: list[int]) -> list[list[int]] | Refusal:
    if len(assignments) != added:
        sentence = (
            f"Attempted to add {added} additional partition(s), but only {len(assignments)} assignment(s) were "
            "specified."
        )
        return Refusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, sentence)
    for replicas in assignments:
        refusal = _refuse_replicas(replicas, brokers, factor)
        if refusal:
            return refusal
    return assignments


def too_many_partitions(topics: list[NewTopic], defaults: Defaults) -> bool:
    """Whether one CreateTopics request asks for more partitions than Kafka creates at once."""
    total = 0
    for new in topics:
        given = len(new.assignments) or new.num_partitions
        total += defaults.num_partitions if given == DEFAULT_COUNT else max(given, 0)
    return total > MAX_PARTITIONS_PER_REQUEST
