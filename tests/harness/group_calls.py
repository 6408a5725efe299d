"""Single requests to the logic, written shortly: who asks what, and what was heard."""

from __future__ import annotations

from typing import Any

from mpbroker.coordinator.group_settings import GroupSettings
from mpbroker.protocol.messages.describe_groups import DescribeGroupsRequest
from mpbroker.protocol.messages.heartbeat import HeartbeatRequest
from mpbroker.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from mpbroker.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from mpbroker.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from mpbroker.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from mpbroker.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.harness.group_world import GROUP, TOPIC, World

SESSION_MS, REBALANCE_MS = 6000, 60_000


class Heard:
    """What became of one request: `answer` stays None while it waits."""

    def __init__(self) -> None:
        self.answer: Any = None

    def hear(self, request: Any, answer: Any) -> None:
        assert self.answer is None
        self.answer = answer

    @property
    def code(self) -> int | None:
        return None if self.answer is None else self.answer.error_code


class Calls:
    """A world without initial delay, and requests to it."""

    def __init__(self, **settings: Any) -> None:
        self.world = World(GroupSettings(**{"initial_rebalance_delay_ms": 0} | settings))

    def shard(self, group_id: str = GROUP) -> Any:
        """The only one that has the group."""
        [found] = [one for one in self.world.coordinator._shards.values() if group_id in one.groups]
        return found

    def group(self, group_id: str = GROUP) -> Any:
        """As the logic has it now."""
        return self.shard(group_id).groups[group_id]

    def ask(self, message: Any, version: int) -> Heard:
        heard = Heard()
        self.world.send(heard, message, version)
        return heard

    def join(self, member_id: str = "", instance: str | None = None, group: str = GROUP, **fields: Any) -> Heard:
        """JoinGroup 5, in version 3 if it has neither id nor instance, so that it waits at once."""
        version = fields.pop("version", 5 if member_id or instance else 3)
        protocols = [JoinGroupRequestProtocol("range", fields.pop("metadata", b"m"))]
        session_ms = fields.pop("session_timeout_ms", SESSION_MS)
        heard = self.ask(
            JoinGroupRequest(group, session_ms, REBALANCE_MS, member_id, instance, "consumer", protocols), version
        )
        self.world.advance(0)
        return heard

    def sync(self, joined: Any, parts: dict[str, bytes] | None = None) -> Heard:
        """SyncGroup 3 of a member that heard `joined`."""
        rows = [SyncGroupRequestAssignment(name, part) for name, part in (parts or {}).items()]
        return self.ask(SyncGroupRequest(GROUP, joined.generation_id, joined.member_id, assignments=rows), 3)

    def beat(self, joined: Any) -> int:
        return self.ask(HeartbeatRequest(GROUP, joined.generation_id, joined.member_id), 3).code

    def leave(self, *member_ids: str) -> Heard:
        return self.ask(LeaveGroupRequest(GROUP, members=[MemberIdentity(name) for name in member_ids]), 5)

    def stable(self, members: int = 1, **fields: Any) -> list[Any]:
        """A stable group, its members one rebalance after the other; their last JoinGroup answers, the leader first."""
        joined: list[Any] = []
        for _ in range(members):
            new = self.join(**fields)
            again = [self.join(other.member_id, **fields) for other in joined]
            joined = [heard.answer for heard in (*again, new)]
        joined.sort(key=lambda answer: answer.member_id != answer.leader)
        parts = {answer.member_id: b"part of " + answer.member_id.encode() for answer in joined}
        for answer in joined:
            assert self.sync(answer, parts if answer is joined[0] else None).code == 0
        return joined

    def describe(self, group: str = GROUP) -> Any:
        return self.ask(DescribeGroupsRequest([group]), 5).answer.groups[0]

    def commit(self, offset: int, joined: Any = None, partitions: tuple[int, ...] = (0,), **fields: Any) -> Heard:
        rows = [OffsetCommitRequestPartition(number, offset) for number in partitions]
        request = OffsetCommitRequest(
            fields.pop("group", GROUP),
            -1 if joined is None else joined.generation_id,
            "" if joined is None else joined.member_id,
            topics=[OffsetCommitRequestTopic(fields.pop("topic", TOPIC), rows)],
        )
        return self.ask(request, 7)

    def commit_codes(self, *arguments: Any, **fields: Any) -> list[int]:
        answer = self.commit(*arguments, **fields).answer
        return [row.error_code for row in answer.topics[0].partitions]

    def fetch(self, partition: int = 0, require_stable: bool = False) -> tuple[int, int]:
        """(offset, code) of a partition."""
        topics = [OffsetFetchRequestTopic(TOPIC, [partition])]
        answer = self.ask(OffsetFetchRequest(GROUP, topics, require_stable=require_stable), 7).answer
        row = answer.topics[0].partitions[0]
        return row.committed_offset, row.error_code

    def die(self) -> None:
        """The coordinator is killed, and a successor is there."""
        self.world.start()
