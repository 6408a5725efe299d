"""What `mpbroker group` shows of a group. Runs in the command's process."""

from __future__ import annotations

from itertools import groupby
from typing import Any

from mpbroker.cli.topic_text import partitions
from mpbroker.client.consumer import LATEST, offsets_now
from mpbroker.client.group_admin import GroupMember, Partition, committed_offsets, existing_group
from mpbroker.client.network_client import ConnectionLost, NetworkClient
from mpbroker.client.partition_leaders import PartitionLeaders
from mpbroker.errors import KafkaError


def look_at(client: NetworkClient, coordinator: NetworkClient, name: str) -> dict[str, Any]:
    """A group with its members and how far it has read. An offset nobody committed, the end of a partition that is
    gone, and a lag without both are None."""
    group = existing_group(coordinator, name)
    committed = committed_offsets(coordinator, [name])[name]
    readers = {partition: member for member in group.members for partition in member.partitions}
    where = sorted({*committed, *readers})
    with PartitionLeaders(client) as leaders:
        ends = _ends(leaders, where)
    rows = [_row(at, committed.get(at), ends.get(at), readers.get(at)) for at in where]
    return {
        "name": name,
        "state": group.state,
        "protocol_type": group.protocol_type,
        "protocol": group.protocol,
        "type": group.type,
        "epoch": group.epoch,
        "target_epoch": group.target_epoch,
        "members": [_member(member) for member in group.members],
        "partitions": rows,
    }


def _member(member: GroupMember) -> dict[str, Any]:
    assigned = [{"topic": topic, "partition": number} for topic, number in member.partitions]
    return {
        "member_id": member.id,
        "instance_id": member.instance_id,
        "client_id": member.client_id,
        "host": member.host,
        "partitions": assigned,
    }


def _row(at: Partition, committed: int | None, end: int | None, reader: GroupMember | None) -> dict[str, Any]:
    return {
        "topic": at[0],
        "partition": at[1],
        "committed": committed,
        "end": end,
        "lag": None if committed is None or end is None else max(0, end - committed),
        "member_id": reader.id if reader else None,
        "client_id": reader.client_id if reader else None,
        "host": reader.host if reader else None,
    }


def _ends(leaders: PartitionLeaders, where: list[Partition]) -> dict[Partition, int]:
    """Where these partitions end, as far as that is known."""
    found: dict[Partition, int] = {}
    for topic, rows in groupby(where, key=lambda at: at[0]):
        found |= _ends_of_topic(leaders, topic, [number for _, number in rows])
    return found


def _ends_of_topic(leaders: PartitionLeaders, topic: str, numbers: list[int]) -> dict[Partition, int]:
    try:
        return {(topic, number): end for number, end in offsets_now(leaders, topic, numbers, LATEST).items()}
    except (KafkaError, ConnectionLost):
        leaders.look_again()
        if len(numbers) == 1:
            return {}
    single = [_ends_of_topic(leaders, topic, [number]) for number in numbers]
    return {at: end for one in single for at, end in one.items()}


def as_text(found: dict[str, Any]) -> str:
    """The same for people."""
    lags = [row["lag"] for row in found["partitions"] if row["lag"] is not None]
    count = len(found["members"])
    about = [found["state"], f"{count} member{'' if count == 1 else 's'}"]
    if found["epoch"] is None:
        about += [f"protocol {found['protocol']}"] if found["protocol"] else []
    else:
        about += [f"assignor {found['protocol']}", f"epoch {found['epoch']}, target of {found['target_epoch']}"]
    about += [f"lag {sum(lags)}"] if lags else []
    lines = [f"{found['name']}: {', '.join(about)}"]
    for member in found["members"]:
        static = f", instance {member['instance_id']}" if member["instance_id"] else ""
        lines.append(
            f"  member {member['member_id']}: client {member['client_id']}, host {member['host']}{static}, "
            f"{partitions(len(member['partitions']))}"
        )
    lines += [_row_text(row) for row in found["partitions"]]
    return "\n".join(lines)


def _row_text(row: dict[str, Any]) -> str:
    committed = "nothing committed" if row["committed"] is None else f"committed {row['committed']}"
    end = "no such partition" if row["end"] is None else f"end {row['end']}"
    lag = "" if row["lag"] is None else f", lag {row['lag']}"
    reader = "" if row["member_id"] is None else f", read by {row['client_id']} on {row['host']}"
    return f"  {row['topic']}-{row['partition']}: {committed}, {end}{lag}{reader}"
