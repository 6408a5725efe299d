"""Settings of topics and brokers through the protocol: look at them, change them. Any process; any broker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypedDict

from mpbroker.client.network_client import NetworkClient
from mpbroker.errors import KafkaError
from mpbroker.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from mpbroker.protocol.messages.incremental_alter_configs import (
    IncrementalAlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
    IncrementalAlterConfigsResponse,
)

TOPIC, BROKER = 2, 4
SET, DELETE = 0, 1


class Resource(NamedTuple):
    """What has settings: `kind` TOPIC with its name, or BROKER with its id (empty: what holds for every
    broker)."""

    kind: int
    name: str


class SettingDescription(TypedDict):
    """One setting: its value, and where that comes from (1: the topic's own, 2: the broker's
    own, 3: every broker's, 4: the broker's file, 5: a default)."""

    value: str | None
    source: int


def read_configs(
    client: NetworkClient, resource: Resource, names: Sequence[str] | None = None
) -> dict[str, SettingDescription]:
    """Setting → value and source; only those named, None: all. Unknown names are left out. KafkaError."""
    asked = DescribeConfigsResource(
        resource_type=resource.kind,
        resource_name=resource.name,
        configuration_keys=None if names is None else list(names),
    )
    result = client.call(DescribeConfigsRequest(resources=[asked]), DescribeConfigsResponse, 2).results[0]
    if result.error_code:
        raise KafkaError(result.error_code, result.error_message or "", resource.name)
    return {row.name: {"value": row.value, "source": row.config_source} for row in result.configs}


def change_configs(client: NetworkClient, resource: Resource, changes: Mapping[str, str | None]) -> None:
    """Sets settings, or with None gives them their default again; all of them or, with a KafkaError, none."""
    asked = IncrementalAlterConfigsResource(
        resource_type=resource.kind,
        resource_name=resource.name,
        configs=[
            IncrementalAlterableConfig(name=name, config_operation=DELETE if value is None else SET, value=value)
            for name, value in changes.items()
        ],
    )
    request = IncrementalAlterConfigsRequest(resources=[asked])
    result = client.call(request, IncrementalAlterConfigsResponse, 0).responses[0]
    if result.error_code:
        raise KafkaError(result.error_code, result.error_message or "", resource.name)
