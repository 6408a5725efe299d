"""OffsetFetch: how far groups have read, up to version 7 of one group. Runs in the coordinator process."""

from __future__ import annotations

from mpbroker.coordinator.any_group import AnyGroup
from mpbroker.coordinator.responses import NO_OFFSET
from mpbroker.coordinator.shard import Shard
from mpbroker.errors import ErrorCode
from mpbroker.protocol.messages.offset_fetch import (
    OffsetFetchRequestTopic,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)

Topics = list[OffsetFetchRequestTopic] | None


def committed_offsets(
    shard: Shard, group_id: str, topics: Topics, require_stable: bool
) -> list[OffsetFetchResponseTopic]:
    """The offsets of these partitions, each once; of all that have one if `topics` is None."""
    group = shard.any(group_id)
    if group is not None and group.is_dead:
        group = None
    if topics is None:
        found = group.offsets if group is not None else {}
        asked = {topic: list(partitions) for topic, partitions in found.items()}
    else:
        asked = {}
        for topic in topics:
            if topic.partition_indexes:
                asked.setdefault(topic.name, []).extend(topic.partition_indexes)
    return [
        OffsetFetchResponseTopic(
            name, [_partition(group, name, index, require_stable) for index in dict.fromkeys(partitions)]
        )
        for name, partitions in asked.items()
    ]


def _partition(
    group: AnyGroup | None, topic: str, partition: int, require_stable: bool
) -> OffsetFetchResponsePartition:
    if group is not None and require_stable and group.is_unstable((topic, partition)):
        return OffsetFetchResponsePartition(partition, NO_OFFSET, -1, "", ErrorCode.UNSTABLE_OFFSET_COMMIT)
    committed = group.committed(topic, partition) if group is not None else None
    if committed is None:
        return OffsetFetchResponsePartition(partition, NO_OFFSET, -1, "")
    return OffsetFetchResponsePartition(partition, committed.offset, committed.leader_epoch, committed.metadata)
