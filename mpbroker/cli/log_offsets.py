"""Records of `__consumer_offsets` in words, for `mpbroker log dump --offsets`. Pure; in the command's process."""

from __future__ import annotations

from typing import Any

from mpbroker.client.group_assignment import assigned_partitions
from mpbroker.coordinator.offsets_records import GroupValue, OffsetName, OffsetValue, read_group, read_key, read_offset


def decoded(key: bytes | None, value: bytes | None) -> dict[str, Any] | None:
    """A committed offset or a group as a dictionary, `deleted` if it is a tombstone; None for any other record, also
    one that cannot be read."""
    name = read_key(key) if key is not None else None
    if name is None:
        return None
    if isinstance(name, OffsetName):
        about = {"group": name.group, "topic": name.topic, "partition": name.partition}
        if value is None:
            return about | {"deleted": True}
        offset = read_offset(value)
        return None if offset is None else about | _commit(offset)
    if value is None:
        return {"group": name, "deleted": True}
    group = read_group(value)
    return None if group is None else {"group": name, **_group(group)}


def _commit(found: OffsetValue) -> dict[str, Any]:
    return {
        "committed": found.offset,
        "leader_epoch": found.leader_epoch,
        "metadata": found.metadata,
        "commit_timestamp": found.commit_timestamp,
    }


def _group(group: GroupValue) -> dict[str, Any]:
    members = [
        {
            "member_id": member.member_id,
            "instance_id": member.group_instance_id,
            "client_id": member.client_id,
            "host": member.client_host.removeprefix("/"),
            "partitions": [f"{topic}-{number}" for topic, number in assigned_partitions(member.assignment)],
        }
        for member in group.members
    ]
    return {
        "generation": group.generation,
        "protocol_type": group.protocol_type,
        "protocol": group.protocol,
        "leader": group.leader,
        "members": members,
    }
