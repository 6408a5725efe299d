"""All APIs this broker serves: a new one is a handler file and a line here. Request handlers; fixed at import.

Handlers of what clients ask for all the time are imported here, before the processes are forked that share them. The
others would cost each start a tenth of its time: they are imported at their first request, which takes some
milliseconds more. A test holds their versions here against their rows.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, Final

from mpbroker.protocol.api_keys import API_NAMES, ApiKey
from mpbroker.protocol.group_versions import HANDED_OVER
from mpbroker.server.apis import Api, ApiTable
from mpbroker.server.handlers import (
    api_versions,
    fetch,
    find_coordinator,
    init_producer_id,
    list_offsets,
    metadata,
    produce,
)

SELDOM: Final[dict[int, tuple[int, int]]] = {
    ApiKey.CREATE_TOPICS: (0, 7),
    ApiKey.DELETE_TOPICS: (0, 6),
    ApiKey.DELETE_RECORDS: (0, 2),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: (0, 4),
    ApiKey.DESCRIBE_CONFIGS: (0, 4),
    ApiKey.ALTER_CONFIGS: (0, 2),
    ApiKey.ALTER_REPLICA_LOG_DIRS: (0, 2),
    ApiKey.DESCRIBE_LOG_DIRS: (0, 4),
    ApiKey.CREATE_PARTITIONS: (0, 3),
    ApiKey.ELECT_LEADERS: (0, 2),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: (0, 1),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: (0, 0),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: (0, 0),
    ApiKey.UPDATE_FEATURES: (0, 1),
    ApiKey.DESCRIBE_CLUSTER: (0, 1),
    ApiKey.DESCRIBE_PRODUCERS: (0, 0),
    ApiKey.LIST_CONFIG_RESOURCES: (0, 1),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: (0, 0),
    ApiKey.SHARE_GROUP_HEARTBEAT: (1, 1),
    ApiKey.SHARE_GROUP_DESCRIBE: (1, 1),
    ApiKey.SHARE_FETCH: (1, 2),
    ApiKey.SHARE_ACKNOWLEDGE: (1, 2),
    ApiKey.SASL_HANDSHAKE: (0, 1),
    ApiKey.SASL_AUTHENTICATE: (0, 2),
    ApiKey.DESCRIBE_ACLS: (0, 3),
    ApiKey.CREATE_ACLS: (0, 3),
    ApiKey.DELETE_ACLS: (0, 3),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: (0, 1),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: (0, 0),
}
"""API key → oldest and newest version."""

BETWEEN_BROKERS: Final[dict[int, tuple[int, int]]] = {
    ApiKey.LEADER_AND_ISR: (0, 7),
    ApiKey.STOP_REPLICA: (0, 4),
    ApiKey.UPDATE_METADATA: (0, 8),
    ApiKey.CONTROLLED_SHUTDOWN: (0, 3),
    ApiKey.ALTER_PARTITION: (0, 3),
    ApiKey.ALLOCATE_PRODUCER_IDS: (0, 0),
}
"""The same of those that brokers of a cluster send each other: whoever reaches them deposes leaders."""


def _load(key: int) -> Api[Any]:
    """From the file of its name."""
    name = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in API_NAMES[key])
    api: Api[Any] = import_module(f"mpbroker.server.handlers.{name.lstrip('_')}").API
    return api


API_TABLE = ApiTable(
    (
        produce.API,
        fetch.API,
        list_offsets.API,
        metadata.API,
        find_coordinator.API,
        api_versions.API,
        init_producer_id.API,
    ),
    HANDED_OVER,
    SELDOM,
    _load,
    BETWEEN_BROKERS,
)
