"""The requests that scripts send, with what most of them have in common filled in."""

from __future__ import annotations

import struct
from typing import Any

from mpbroker.protocol.messages.delete_groups import DeleteGroupsRequest
from mpbroker.protocol.messages.describe_groups import DescribeGroupsRequest
from mpbroker.protocol.messages.heartbeat import HeartbeatRequest
from mpbroker.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from mpbroker.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from mpbroker.protocol.messages.list_groups import ListGroupsRequest
from mpbroker.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from mpbroker.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from mpbroker.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
)
from mpbroker.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.conformance.group_scripts.stage import Stage


def subscription(*topics: str) -> bytes:
    """Metadata of a member of type consumer."""
    names = b"".join(struct.pack(">h", len(name)) + name for name in (topic.encode() for topic in topics))
    return struct.pack(">hi", 0, len(topics)) + names + struct.pack(">i", -1)


class Cast:
    """Clients on a stage. `versions` picks the highest version of each API that a client of that age would use."""

    def __init__(self, stage: Stage, join: int = 9) -> None:
        self.stage = stage
        self.join_version = join
        self.sync_version = {9: 5, 8: 5, 7: 5, 6: 4, 5: 3}.get(join, 1)
        self.beat_version = 4 if join >= 6 else 3 if join >= 5 else 1
        self.leave_version = 5 if join >= 8 else 4 if join >= 6 else 3 if join >= 5 else 1
        self.commit_version = 9 if join >= 9 else 8 if join >= 6 else 7 if join >= 5 else 2
        self.generation: dict[str, int] = {}
        self.instances: dict[str, str] = {}

    def join(self, client: str, member: str | None = None, **fields: Any) -> Any:
        """Join; `member`: an id, else the client's own, empty if it has none. Answers None if it waits."""
        protocols = fields.pop("protocols", {"range": b"m"})
        version = fields.pop("version", self.join_version)
        request = JoinGroupRequest(
            group_id=self.stage.group,
            session_timeout_ms=fields.pop("session_timeout_ms", 30_000),
            rebalance_timeout_ms=fields.pop("rebalance_timeout_ms", 20_000),
            member_id=self.id_of(client) if member is None else member,
            group_instance_id=self.instances.get(client),
            protocol_type=fields.pop("protocol_type", "consumer"),
            protocols=[JoinGroupRequestProtocol(name, metadata) for name, metadata in protocols.items()],
            **fields,
        )
        return self._note(client, self.stage.step(client, request, version))

    def id_of(self, client: str) -> str:
        return self.stage.ids.get(client, "")

    def _note(self, client: str, answer: Any) -> Any:
        if answer is not None and answer.error_code == 0:
            self.generation[client] = answer.generation_id
        return answer

    def wait(self, milliseconds: int) -> dict[str, Any]:
        """Let time pass, and remember the generations that members hear of."""
        return self._noted(self.stage.wait(milliseconds))

    def wait_for(self, *clients: str, most_ms: int = 8000) -> dict[str, Any]:
        """Let time pass until these were answered."""
        return self._noted(self.stage.wait_for(clients, most_ms))

    def _noted(self, found: dict[str, Any]) -> dict[str, Any]:
        for client, answer in found.items():
            if hasattr(answer, "generation_id"):
                self._note(client, answer)
        return found

    def enter(self, client: str, **fields: Any) -> Any:
        """Join, with the detour over an id if there is one."""
        answer = self.join(client, "", **fields)
        if answer is not None and answer.error_code == 79:
            answer = self.join(client, **fields)
        return answer

    def sync(self, client: str, parts: dict[str, bytes] | None = None, **fields: Any) -> Any:
        """Sync; `parts`: client → assignment, for the leader."""
        assignments = [
            SyncGroupRequestAssignment(self.id_of(name) or name, part) for name, part in (parts or {}).items()
        ]
        version = fields.pop("version", self.sync_version)
        request = SyncGroupRequest(
            group_id=self.stage.group,
            generation_id=fields.pop("generation_id", self.generation.get(client, -1)),
            member_id=fields.pop("member_id", self.id_of(client)),
            group_instance_id=fields.pop("group_instance_id", self.instances.get(client)),
            protocol_type=fields.pop("protocol_type", "consumer"),
            protocol_name=fields.pop("protocol_name", "range"),
            assignments=assignments,
        )
        return self.stage.step(client, request, version)

    def beat(self, client: str, **fields: Any) -> Any:
        """Heartbeat."""
        request = HeartbeatRequest(
            self.stage.group,
            fields.get("generation_id", self.generation.get(client, -1)),
            fields.get("member_id", self.id_of(client)),
            fields.get("group_instance_id", self.instances.get(client)),
        )
        return self.stage.step(client, request, fields.get("version", self.beat_version))

    def leave(self, client: str, *members: MemberIdentity, version: int | None = None) -> Any:
        """LeaveGroup, of the client itself if no members are named."""
        gone = list(members) or [MemberIdentity(self.id_of(client), self.instances.get(client))]
        request = LeaveGroupRequest(self.stage.group, self.id_of(client), gone)
        return self.stage.step(client, request, self.leave_version if version is None else version)

    def commit(self, client: str, offsets: dict[tuple[str, int], int], **fields: Any) -> Any:
        """OffsetCommit: (topic, partition) → offset."""
        by_topic: dict[str, list[OffsetCommitRequestPartition]] = {}
        text = fields.pop("metadata", "")
        for (topic, partition), offset in offsets.items():
            row = OffsetCommitRequestPartition(partition, offset, committed_metadata=text)
            by_topic.setdefault(topic, []).append(row)
        version = fields.pop("version", self.commit_version)
        request = OffsetCommitRequest(
            group_id=fields.pop("group_id", self.stage.group),
            generation_id_or_member_epoch=fields.pop("generation_id", self.generation.get(client, -1)),
            member_id=fields.pop("member_id", self.id_of(client)),
            group_instance_id=fields.pop("group_instance_id", self.instances.get(client)),
            topics=[OffsetCommitRequestTopic(topic, rows) for topic, rows in by_topic.items()],
            **fields,
        )
        return self.stage.step(client, request, version)

    def commit_alone(self, client: str, offsets: dict[tuple[str, int], int], **fields: Any) -> Any:
        """A commit without group management."""
        return self.commit(client, offsets, generation_id=-1, member_id="", group_instance_id=None, **fields)

    def fetch(self, client: str, topics: dict[str, list[int]] | None, version: int = 7, **fields: Any) -> Any:
        """OffsetFetch of the group; None: all."""
        rows = None if topics is None else [OffsetFetchRequestTopic(name, parts) for name, parts in topics.items()]
        groups = [OffsetFetchRequestGroup(self.stage.group, topics=rows)]
        return self.stage.step(client, OffsetFetchRequest(self.stage.group, rows, groups, **fields), version)

    def describe(self, client: str, version: int = 5) -> Any:
        """DescribeGroups of the group."""
        return self.stage.step(client, DescribeGroupsRequest([self.stage.group]), version)

    def delete(self, client: str, *groups: str, version: int = 2) -> Any:
        """DeleteGroups, of the group if none is named."""
        return self.stage.step(client, DeleteGroupsRequest(list(groups) or [self.stage.group]), version)

    def forget(self, client: str, topics: dict[str, list[int]]) -> Any:
        """OffsetDelete."""
        rows = [
            OffsetDeleteRequestTopic(name, [OffsetDeleteRequestPartition(number) for number in parts])
            for name, parts in topics.items()
        ]
        return self.stage.step(client, OffsetDeleteRequest(self.stage.group, rows), 0)

    def list(self, client: str, version: int = 5, **filters: Any) -> Any:
        """ListGroups, of which only this play's groups are written down."""
        return self.stage.step(client, ListGroupsRequest(**filters), version)

    def stable(self, *clients: str, **fields: Any) -> str:
        """A stable group of these clients, in one rebalance; returns who leads."""
        for client in clients:
            self.enter(client, **fields)
        found = self.wait_for(*clients)
        leader = next(client for client in clients if found[client].leader == found[client].member_id)
        parts = {client: f"part of {client}".encode() for client in clients}
        for client in clients:
            if client != leader:
                self.sync(client)
        self.sync(leader, parts)
        return leader
