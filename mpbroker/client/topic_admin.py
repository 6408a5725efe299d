"""Topics through the protocol: create, list, describe, add partitions, delete, settings. Any process; any broker."""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass, field
from typing import TypedDict

from mpbroker.client.config_admin import TOPIC, Resource, SettingDescription, read_configs
from mpbroker.client.network_client import NetworkClient
from mpbroker.errors import ErrorCode, KafkaError, MpbrokerError
from mpbroker.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from mpbroker.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from mpbroker.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from mpbroker.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)

ADMIN_TIMEOUT_MS = 30_000
LEADERS_TIMEOUT_S, LEADERS_PAUSE_S = 10.0, 0.02


class NoLeaders(MpbrokerError):
    """A topic has partitions that nobody leads."""


class PartitionDescription(TypedDict):
    """One partition: its number, and broker ids."""

    id: int
    leader: int
    replicas: list[int]
    isr: list[int]


@dataclass(frozen=True)
class TopicDescription:
    """One topic as metadata shows it, its partitions in order."""

    name: str
    internal: bool
    partitions: list[PartitionDescription] = field(default_factory=list)


def create_topic(
    client: NetworkClient, name: str, partitions: int, configs: dict[str, str], replication_factor: int = -1
) -> None:
    """Creates a topic; −1 is the broker's default. Raises KafkaError with the broker's reason."""
    topic = CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replication_factor,
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in configs.items()],
    )
    request = CreateTopicsRequest(topics=[topic], timeout_ms=ADMIN_TIMEOUT_MS)
    result = client.call(request, CreateTopicsResponse, 4).topics[0]
    if result.error_code:
        raise KafkaError(result.error_code, result.error_message or "", name)


def grow_topic(client: NetworkClient, name: str, partitions: int) -> None:
    """Raises a topic's number of partitions to `partitions`; KafkaError with the broker's reason."""
    topic = CreatePartitionsTopic(name=name, count=partitions, assignments=None)
    request = CreatePartitionsRequest(topics=[topic], timeout_ms=ADMIN_TIMEOUT_MS)
    result = client.call(request, CreatePartitionsResponse, 1).results[0]
    if result.error_code:
        raise KafkaError(result.error_code, result.error_message or "", name)


def delete_topic(client: NetworkClient, name: str) -> None:
    """Deletes a topic with its records; KafkaError."""
    request = DeleteTopicsRequest(topic_names=[name], timeout_ms=ADMIN_TIMEOUT_MS)
    result = client.call(request, DeleteTopicsResponse, 3).responses[0]
    if result.error_code:
        raise KafkaError(result.error_code, about=name)


def list_topics(client: NetworkClient) -> list[TopicDescription]:
    """All topics, by name."""
    return sorted((_describe(topic) for topic in _metadata(client, None).topics), key=lambda topic: topic.name)


def describe_topic(client: NetworkClient, name: str) -> TopicDescription:
    """One topic; never creates it."""
    topic = _metadata(client, [name]).topics[0]
    if topic.error_code:
        raise KafkaError(topic.error_code, about=name)
    return _describe(topic)


def topic_configs(client: NetworkClient, name: str) -> dict[str, SettingDescription]:
    """Setting → value and whether it is a default, from DescribeConfigs."""
    return read_configs(client, Resource(TOPIC, name))


def _metadata(client: NetworkClient, names: list[str] | None) -> MetadataResponse:
    topics = None if names is None else [MetadataRequestTopic(name=name) for name in names]
    return client.call(MetadataRequest(topics=topics, allow_auto_topic_creation=False), MetadataResponse, 8)


def _describe(topic: MetadataResponseTopic) -> TopicDescription:
    partitions: list[PartitionDescription] = [
        {"id": p.partition_index, "leader": p.leader_id, "replicas": p.replica_nodes, "isr": p.isr_nodes}
        for p in sorted(topic.partitions, key=lambda p: p.partition_index)
    ]
    return TopicDescription(topic.name or "", topic.is_internal, partitions)


def await_leaders(client: NetworkClient, name: str, timeout_s: float = LEADERS_TIMEOUT_S) -> TopicDescription:
    """The topic, once every partition has a leader; NoLeaders if that takes longer. For a topic just made, which other
    brokers need not know yet."""
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            topic = describe_topic(client, name)
            if all(partition["leader"] >= 0 for partition in topic.partitions):
                return topic
        except KafkaError as error:
            if not error.retriable:
                raise
        if time.monotonic() > deadline:
            raise NoLeaders(f"topic {name} has partitions without a leader after {timeout_s:g} s")
        time.sleep(LEADERS_PAUSE_S)


def ensure_partitions(client: NetworkClient, name: str, create: bool) -> int:
    """The topic's number of partitions. Creates it with the broker's defaults if asked to and it does not exist, and
    gives leaders some seconds to come; KafkaError."""
    if create:
        create_if_missing(client, name)
    topic = describe_topic(client, name)
    with contextlib.suppress(NoLeaders):  # those that have one can be used
        topic = await_leaders(client, name)
    return len(topic.partitions)


def create_if_missing(client: NetworkClient, name: str) -> None:
    """Creates a topic with the broker's defaults unless it exists already, whoever made it."""
    try:
        describe_topic(client, name)
        return
    except KafkaError as error:
        if error.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise
    try:
        create_topic(client, name, -1, {})
    except KafkaError as error:
        if error.code != ErrorCode.TOPIC_ALREADY_EXISTS:  # another client was faster
            raise
