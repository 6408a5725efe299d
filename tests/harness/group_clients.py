"""Clients for `group_world`: what a consumer does, and the book that says what it may hear."""

from __future__ import annotations

from typing import Any

from mpbroker.errors import ErrorCode
from mpbroker.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from mpbroker.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from mpbroker.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from mpbroker.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from mpbroker.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from tests.harness.group_world import GROUP, TOPIC, World

SESSION_MS, REBALANCE_MS = 6000, 9000
FORGETS_ID = {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID}


class Book:
    """What everybody heard."""

    def __init__(self) -> None:
        self.generation = 0
        self.leaders: dict[int, str] = {}
        self.assignments: dict[int, dict[str, bytes]] = {}
        self.offset = -1  # the last that was acknowledged
        self.sent_offset = 0
        self.instances: dict[str, set[str]] = {}

    def joined(self, answer: JoinGroupResponse) -> None:
        """A generation was shown."""
        assert answer.generation_id >= self.generation, "a generation fell"
        self.generation = answer.generation_id
        if answer.members and not answer.skip_assignment:
            leader = self.leaders.setdefault(answer.generation_id, answer.member_id)
            assert leader == answer.member_id, "two leaders of one generation"
            assert answer.leader == answer.member_id

    def synced(self, generation: int, names: set[str], assignment: bytes) -> None:
        """An assignment was shown to a member; `names`: its ids, also those of whom it replaced."""
        sent = self.assignments.get(generation, {})
        meant = [sent[name] for name in names if name in sent]
        assert assignment in (meant or [b""]), "not the leader's bytes"


class Client:
    """One consumer, with one request in progress at most. A diligent one does what it should whenever it is asked to
    go on (`act`), and must never be called unknown, unless it was so rude as to leave."""

    def __init__(
        self, world: World, book: Book, name: str, join_version: int, instance_id: str | None, is_diligent: bool
    ) -> None:
        self.world, self.book, self.name = world, book, name
        self.join_version = join_version
        self.sync_version = {9: 5, 8: 5, 7: 5, 5: 3}.get(join_version, 1)
        self.instance_id = instance_id if join_version >= 5 else None
        self.is_diligent = is_diligent
        self.protocols = ["range", "sticky"]
        self.member_id = ""
        self.generation = -1
        self.next = "join"
        self.is_busy = False
        self.members: list[str] = []
        self.leads = False
        self.was_member = False

    def act(self) -> None:
        """Do what comes next, if nothing is in progress."""
        if not self.is_busy:
            getattr(self, self.next)()

    def _send(self, message: Any, version: int) -> None:
        self.is_busy = True
        self.world.send(self, message, version)

    def join(self) -> None:
        protocols = [JoinGroupRequestProtocol(name, self.name.encode()) for name in self.protocols]
        self._send(
            JoinGroupRequest(GROUP, SESSION_MS, REBALANCE_MS, self.member_id, self.instance_id, "consumer", protocols),
            self.join_version,
        )

    def sync(self) -> None:
        parts = []
        if self.leads:
            made = {member: f"{self.generation} {member}".encode() for member in self.members[:4]}
            chosen = self.book.assignments.setdefault(self.generation, made)
            parts = [SyncGroupRequestAssignment(member, part) for member, part in chosen.items()]
        self._send(
            SyncGroupRequest(
                GROUP, self.generation, self.member_id, self.instance_id, "consumer", self.protocol, parts
            ),
            self.sync_version,
        )

    def beat(self) -> None:
        self._send(HeartbeatRequest(GROUP, self.generation, self.member_id, self.instance_id), 4)

    def leave(self) -> None:
        """Leave, if in a group."""
        if self.member_id and not self.is_busy:
            self._send(LeaveGroupRequest(GROUP, members=[MemberIdentity(self.member_id, self.instance_id)]), 5)

    def commit(self) -> None:
        """Commit an offset that nobody committed yet."""
        if not self.is_busy and self.next == "beat":
            self.book.sent_offset += 1
            rows = [OffsetCommitRequestPartition(0, self.book.sent_offset)]
            topics = [OffsetCommitRequestTopic(TOPIC, rows)]
            self._send(OffsetCommitRequest(GROUP, self.generation, self.member_id, self.instance_id, -1, topics), 9)

    def hear(self, request: Any, answer: Any) -> None:
        """An answer came."""
        self.is_busy = False
        if isinstance(answer, JoinGroupResponse):
            self._joined(answer)
        elif isinstance(answer, SyncGroupResponse):
            self._synced(request, answer)
        elif isinstance(answer, HeartbeatResponse):
            self._fail(answer.error_code)
        elif isinstance(answer, LeaveGroupResponse):
            self._forget()
        elif isinstance(answer, OffsetCommitResponse):
            code = answer.topics[0].partitions[0].error_code
            if code == ErrorCode.NONE:
                offset = request.topics[0].partitions[0].committed_offset
                self.book.offset = max(self.book.offset, offset)
            self._fail(code)

    def _joined(self, answer: JoinGroupResponse) -> None:
        if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = answer.member_id
            return
        if answer.error_code != ErrorCode.NONE:
            self._fail(answer.error_code)
            return
        self.book.joined(answer)
        self.was_member = True
        self.member_id, self.generation = answer.member_id, answer.generation_id
        self.protocol = answer.protocol_name
        if self.instance_id is not None:
            self.book.instances.setdefault(self.instance_id, set()).add(self.member_id)
        self.leads = bool(answer.members) and not answer.skip_assignment
        self.members = [member.member_id for member in answer.members]
        self.next = "sync"

    def _synced(self, request: SyncGroupRequest, answer: SyncGroupResponse) -> None:
        if answer.error_code == ErrorCode.NONE:
            names = self.book.instances.get(self.instance_id or "", set()) | {request.member_id}
            self.book.synced(request.generation_id, names, answer.assignment)
            self.next = "beat"
        else:
            self._fail(answer.error_code)

    def _fail(self, code: int) -> None:
        if code in FORGETS_ID:
            assert not (self.is_diligent and self.was_member), f"{self.name}, who was diligent, hears {code}"
            self._forget()
        elif code != ErrorCode.NONE:
            assert code != ErrorCode.ILLEGAL_GENERATION or not self.is_diligent
            self.next = "join"

    def _forget(self) -> None:
        self.member_id, self.generation, self.next, self.was_member = "", -1, "join", False
