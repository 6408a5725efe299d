"""All APIs this broker serves: a new one is a handler file and a line here. Request handlers; fixed at import."""

from __future__ import annotations

from mpbroker.protocol.group_apis import BY_KEY as GROUP_APIS
from mpbroker.server.apis import ApiTable
from mpbroker.server.handlers import (
    api_versions,
    create_partitions,
    create_topics,
    delete_topics,
    describe_configs,
    fetch,
    find_coordinator,
    init_producer_id,
    list_offsets,
    metadata,
    produce,
)

API_TABLE = ApiTable(
    (
        produce.API,
        fetch.API,
        list_offsets.API,
        metadata.API,
        find_coordinator.API,
        api_versions.API,
        create_topics.API,
        delete_topics.API,
        init_producer_id.API,
        describe_configs.API,
        create_partitions.API,
    ),
    {key: api.versions for key, api in GROUP_APIS.items()},
)
