"""Topics through the protocol: create, list, describe, delete, settings. Any process; any broker."""

from __future__ import annotations

from dataclasses import dataclass, field

from mpbroker.client.network_client import NetworkClient
from mpbroker.errors import ErrorCode, KafkaError
from mpbroker.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from mpbroker.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from mpbroker.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from mpbroker.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse

TOPIC_RESOURCE = 2
ADMIN_TIMEOUT_MS = 30_000


@dataclass(frozen=True)
class TopicDescription:
    """One topic as metadata shows it. `partitions`: dicts with id, leader, replicas, isr."""

    name: str
    internal: bool
    partitions: list[dict] = field(default_factory=list)


def create_topic(client: NetworkClient, name: str, partitions: int, configs: dict[str, str]) -> None:
    """Creates a topic; `partitions` −1 is the broker's default. Raises KafkaError with the broker's reason."""
    topic = CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=1 if partitions > 0 else -1,
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in configs.items()],
    )
    request = CreateTopicsRequest(topics=[topic], timeout_ms=ADMIN_TIMEOUT_MS)
    result = client.call(request, CreateTopicsResponse, 4).topics[0]
    if result.error_code:
        raise KafkaError(result.error_code, result.error_message or "", name)


def delete_topic(client: NetworkClient, name: str) -> None:
    request = DeleteTopicsRequest(topic_names=[name], timeout_ms=ADMIN_TIMEOUT_MS)
    result = client.call(request, DeleteTopicsResponse, 3).responses[0]
    if result.error_code:
        raise KafkaError(result.error_code, about=name)


def list_topics(client: NetworkClient) -> list[TopicDescription]:
    return sorted((_describe(topic) for topic in _metadata(client, None).topics), key=lambda topic: topic.name)


def describe_topic(client: NetworkClient, name: str) -> TopicDescription:
    """One topic; never creates it."""
    topic = _metadata(client, [name]).topics[0]
    if topic.error_code:
        raise KafkaError(topic.error_code, about=name)
    return _describe(topic)


def topic_configs(client: NetworkClient, name: str) -> dict[str, dict]:
    """Setting → value and whether it is a default, from DescribeConfigs."""
    resource = DescribeConfigsResource(resource_type=TOPIC_RESOURCE, resource_name=name, configuration_keys=None)
    result = client.call(DescribeConfigsRequest(resources=[resource]), DescribeConfigsResponse, 2).results[0]
    if result.error_code:
        raise KafkaError(result.error_code, result.error_message or "", name)
    return {row.name: {"value": row.value, "source": row.config_source} for row in result.configs}


def _metadata(client: NetworkClient, names: list[str] | None) -> MetadataResponse:
    topics = None if names is None else [MetadataRequestTopic(name=name) for name in names]
    return client.call(MetadataRequest(topics=topics, allow_auto_topic_creation=False), MetadataResponse, 8)


def _describe(topic) -> TopicDescription:
    partitions = [
        {"id": p.partition_index, "leader": p.leader_id, "replicas": p.replica_nodes, "isr": p.isr_nodes}
        for p in sorted(topic.partitions, key=lambda p: p.partition_index)
    ]
    return TopicDescription(topic.name, topic.is_internal, partitions)


def ensure_partitions(client: NetworkClient, name: str, create: bool) -> int:
    """The topic's partition count; creates it with the broker's defaults if asked to and it does not exist."""
    try:
        return len(describe_topic(client, name).partitions)
    except KafkaError as error:
        if not create or error.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise
    create_topic(client, name, -1, {})
    return len(describe_topic(client, name).partitions)
