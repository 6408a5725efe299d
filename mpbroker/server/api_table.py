"""All APIs this broker serves: a new one is a handler file and a line here. Request handlers; fixed at import."""

from __future__ import annotations

from mpbroker.protocol.group_apis import HANDED_OVER
from mpbroker.server.apis import ApiTable
from mpbroker.server.handlers import (
    alter_configs,
    alter_partition_reassignments,
    alter_replica_log_dirs,
    api_versions,
    create_partitions,
    create_topics,
    delete_records,
    delete_topics,
    describe_cluster,
    describe_configs,
    describe_log_dirs,
    describe_producers,
    describe_topic_partitions,
    elect_leaders,
    fetch,
    find_coordinator,
    incremental_alter_configs,
    init_producer_id,
    list_config_resources,
    list_offsets,
    list_partition_reassignments,
    metadata,
    offset_for_leader_epoch,
    produce,
    update_features,
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
        delete_records.API,
        init_producer_id.API,
        describe_configs.API,
        alter_configs.API,
        create_partitions.API,
        alter_partition_reassignments.API,
        alter_replica_log_dirs.API,
        describe_cluster.API,
        describe_log_dirs.API,
        describe_producers.API,
        describe_topic_partitions.API,
        elect_leaders.API,
        list_partition_reassignments.API,
        offset_for_leader_epoch.API,
        incremental_alter_configs.API,
        update_features.API,
        list_config_resources.API,
    ),
    HANDED_OVER,
)
