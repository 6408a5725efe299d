"""What `mpbroker group reset` would change, and the change. Runs in the command's process.

As in kafka-consumer-groups: only groups without members, nothing without --execute, no offset outside the partition.
"""

from __future__ import annotations

import argparse
from typing import Any, NamedTuple

from mpbroker.cli.topic_text import partitions
from mpbroker.client.consumer import EARLIEST, LATEST, offsets_for
from mpbroker.client.group_admin import DEAD, EMPTY, Partition, commit_offsets, committed_offsets, describe_groups
from mpbroker.client.network_client import NetworkClient
from mpbroker.client.partition_leaders import PartitionLeaders
from mpbroker.client.topic_admin import describe_topic
from mpbroker.errors import ErrorCode, KafkaError, MpbrokerError

_HAS_MEMBERS = {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION, ErrorCode.REBALANCE_IN_PROGRESS}


class GroupInUse(MpbrokerError):
    """Members read in the group: what is set now they would overwrite."""

    def __init__(self, group: str) -> None:
        super().__init__(f"group {group} has members: stop its consumers first, only an empty group can be reset")


class NothingToReset(MpbrokerError):
    """The group has committed nothing that could be meant."""


class Move(NamedTuple):
    """One partition: the offset committed now, the one meant, and the one it gets, which lies in the partition."""

    topic: str
    partition: int
    committed: int | None
    meant: int
    offset: int


def plan(client: NetworkClient, coordinator: NetworkClient, arguments: argparse.Namespace) -> list[Move]:
    """The moves asked for, by partition; KafkaError, GroupInUse, NothingToReset."""
    group = arguments.group
    [found] = describe_groups(coordinator, [group])
    if found.state not in (EMPTY, DEAD):
        raise GroupInUse(group)
    if found.state == DEAD and not arguments.topic:
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, about=group)
    committed = committed_offsets(coordinator, [group])[group]
    chosen = _chosen(client, arguments.topic) or sorted(committed)
    if not chosen:
        raise NothingToReset(f"group {group} has committed nothing: name topics with --topic")
    by_topic: dict[str, list[int]] = {}
    for topic, number in chosen:
        by_topic.setdefault(topic, []).append(number)
    with PartitionLeaders(client) as leaders:
        rows = [_moves(leaders, arguments, topic, numbers, committed) for topic, numbers in by_topic.items()]
    return [move for moves in rows for move in moves]


def _chosen(client: NetworkClient, topics: list[tuple[str, list[int]]]) -> list[Partition]:
    """The partitions that --topic names; without numbers all of the topic."""
    return sorted(
        {
            (topic, number)
            for topic, numbers in topics
            for number in numbers or [row["id"] for row in describe_topic(client, topic).partitions]
        }
    )


def _moves(
    leaders: PartitionLeaders,
    arguments: argparse.Namespace,
    topic: str,
    numbers: list[int],
    committed: dict[Partition, int],
) -> list[Move]:
    first, end = (offsets_for(leaders, topic, numbers, which) for which in (EARLIEST, LATEST))
    meant = _meant(leaders, arguments, topic, first, end, committed)
    return [
        Move(topic, at, committed.get((topic, at)), meant[at], min(max(meant[at], first[at]), end[at]))
        for at in numbers
    ]


def _meant(
    leaders: PartitionLeaders,
    arguments: argparse.Namespace,
    topic: str,
    first: dict[int, int],
    end: dict[int, int],
    committed: dict[Partition, int],
) -> dict[int, int]:
    """Partition → offset, which may lie outside."""
    if arguments.to_earliest:
        return first
    if arguments.to_latest:
        return end
    if arguments.to_offset is not None:
        return dict.fromkeys(first, arguments.to_offset)
    if arguments.to_datetime is not None:
        return offsets_for(leaders, topic, list(first), arguments.to_datetime)
    missing = [number for number in first if (topic, number) not in committed]
    if missing:
        raise NothingToReset(f"group {arguments.group} has committed nothing in {topic}-{missing[0]} to shift from")
    return {number: committed[topic, number] + arguments.shift_by for number in first}


def execute(coordinator: NetworkClient, group: str, moves: list[Move]) -> None:
    """Commit them; KafkaError, or GroupInUse when a member has come meanwhile."""
    try:
        commit_offsets(coordinator, group, {(move.topic, move.partition): move.offset for move in moves})
    except KafkaError as error:
        if error.code in _HAS_MEMBERS:
            raise GroupInUse(group) from error
        raise


def as_dict(group: str, moves: list[Move], executed: bool) -> dict[str, Any]:
    """For --json."""
    rows = [
        {"topic": move.topic, "partition": move.partition, "from": move.committed, "to": move.offset} for move in moves
    ]
    return {"name": group, "executed": executed, "partitions": rows}


def as_text(group: str, moves: list[Move], executed: bool) -> str:
    """The same for people."""
    lines = [_move_text(move) for move in moves]
    count = partitions(len(moves))
    done = f"{group}: {count} reset" if executed else f"{group}: {count} would be reset; --execute does it"
    return "\n".join([*lines, done])


def _move_text(move: Move) -> str:
    before = "nothing" if move.committed is None else str(move.committed)
    side = "end" if move.meant > move.offset else "start"
    bounded = "" if move.meant == move.offset else f" ({move.meant} lies beyond the {side} of the partition)"
    return f"{move.topic}-{move.partition}: {before} to {move.offset}{bounded}"
