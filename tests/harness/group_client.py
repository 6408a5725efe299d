"""Members of consumer groups as threads over raw requests: every answer is seen, none is retried by a library."""

from __future__ import annotations

import threading
import time
from typing import Any

from mpbroker.protocol.codec import decode
from mpbroker.protocol.headers import decode_response_header, encode_request_frame
from mpbroker.protocol.messages.find_coordinator import FindCoordinatorRequest
from mpbroker.protocol.messages.heartbeat import HeartbeatRequest
from mpbroker.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from mpbroker.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from mpbroker.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from mpbroker.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from mpbroker.protocol.messages_by_key import RESPONSES
from mpbroker.protocol.schema import schema_of
from tests.harness.raw_client import RawConnection

REBALANCE_IN_PROGRESS, MEMBER_ID_REQUIRED = 27, 79
SESSION_MS, REBALANCE_MS = 6000, 6000
#: A rebalance timeout and what a death may add to it.
LONGEST_ANSWER_S = REBALANCE_MS / 1000 + 6


class GroupClient:
    """One connection. `ask` raises for an answer that does not come, and notes how long the slowest took."""

    def __init__(self, port: int) -> None:
        self._connection = RawConnection(port, timeout_s=LONGEST_ANSWER_S + 5)
        self._number = 0
        self.slowest_s = 0.0

    def ask(self, message: Any, version: int) -> Any:
        """The decoded answer."""
        self._number += 1
        begun = time.monotonic()
        answer = self._connection.ask(encode_request_frame(message, version, self._number, "group-client"))
        self.slowest_s = max(self.slowest_s, time.monotonic() - begun)
        assert answer is not None, f"{type(message).__name__} closed the connection"
        key = schema_of(type(message)).key
        payload = answer[0].to_bytes(4, "big") + answer[1]
        number, offset = decode_response_header(key, version, payload)
        assert number == self._number
        return decode(RESPONSES[key], version, payload, offset)

    def find(self, group: str) -> None:
        """FindCoordinator."""
        assert self.ask(FindCoordinatorRequest(key=group), 2).error_code == 0

    def commit(self, group: str, topic: str, offset: int, generation: int = -1, member: str = "") -> int:
        """Commits one offset of partition 0; the error code."""
        partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
        topics = [OffsetCommitRequestTopic(topic, [partition])]
        message = OffsetCommitRequest(
            group_id=group, generation_id_or_member_epoch=generation, member_id=member, topics=topics
        )
        return self.ask(message, 7).topics[0].partitions[0].error_code

    def committed(self, group: str, topic: str) -> int:
        """The committed offset of partition 0, -1: none."""
        answer = self.ask(OffsetFetchRequest(group_id=group, topics=[OffsetFetchRequestTopic(topic, [0])]), 7)
        row = answer.topics[0].partitions[0]
        assert (answer.error_code, row.error_code) == (0, 0)
        return row.committed_offset

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


class Member(threading.Thread):
    """Joins, syncs, sends heartbeats in time and commits, until told to stop. Whatever breaks a promise is in `wrong`.

    `rounds`: (generation, leader, assignment it got) of every generation it was in.
    """

    def __init__(self, port: int, group: str, name: str, restless_s: float = 1.5) -> None:
        super().__init__(name=name, daemon=True)
        self._client = GroupClient(port)
        self._group = group
        self._restless_s = restless_s
        self._stop_it = threading.Event()
        self._id = ""
        self.wrong: list[str] = []
        self.rounds: list[tuple[int, str, bytes]] = []
        self.sent: dict[int, dict[str, bytes]] = {}  # as leader: generation → assignments

    @property
    def slowest_s(self) -> float:
        """Longest wait for an answer."""
        return self._client.slowest_s

    def stop(self) -> None:
        """Ends after the request in hand."""
        self._stop_it.set()

    def run(self) -> None:
        try:
            self._client.find(self._group)
            while not self._stop_it.is_set():
                joined = self._join()
                if joined is not None and self._sync(joined):
                    self._stay(joined.generation_id)
        except Exception as error:
            self.wrong.append(f"{self.name}: {error!r}")
        self._client.close()

    def _join(self) -> Any:
        message = JoinGroupRequest(
            group_id=self._group,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=REBALANCE_MS,
            member_id=self._id,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol("p", self.name.encode())],
        )
        answer = self._client.ask(message, 5)
        if answer.error_code == MEMBER_ID_REQUIRED and not self._id:
            self._id = answer.member_id
            return None
        if answer.error_code == REBALANCE_IN_PROGRESS:
            return None
        if answer.error_code:
            self.wrong.append(f"{self.name}: join answered {answer.error_code}")
            self._stop_it.set()
            return None
        if self.rounds and answer.generation_id < self.rounds[-1][0]:
            self.wrong.append(f"{self.name}: generation {answer.generation_id} after {self.rounds[-1][0]}")
        return answer

    def _sync(self, joined: Any) -> bool:
        given = {}
        if joined.leader == self._id:
            given = {one.member_id: f"{one.member_id} {joined.generation_id}".encode() for one in joined.members}
            self.sent[joined.generation_id] = given
        rows = [SyncGroupRequestAssignment(member, assignment) for member, assignment in given.items()]
        message = SyncGroupRequest(
            group_id=self._group, generation_id=joined.generation_id, member_id=self._id, assignments=rows
        )
        answer = self._client.ask(message, 3)
        if answer.error_code == REBALANCE_IN_PROGRESS:
            return False
        if answer.error_code:
            self.wrong.append(f"{self.name}: sync answered {answer.error_code}")
            self._stop_it.set()
            return False
        if answer.assignment != f"{self._id} {joined.generation_id}".encode():
            self.wrong.append(f"{self.name}: got {answer.assignment!r} in generation {joined.generation_id}")
        self.rounds.append((joined.generation_id, joined.leader, answer.assignment))
        return True

    def _stay(self, generation: int) -> None:
        """Heartbeats until the group wants a new round, or this member does."""
        until = time.monotonic() + self._restless_s
        while time.monotonic() < until and not self._stop_it.wait(0.1):
            message = HeartbeatRequest(group_id=self._group, generation_id=generation, member_id=self._id)
            code = self._client.ask(message, 3).error_code
            if code == REBALANCE_IN_PROGRESS:
                return
            if code:
                self.wrong.append(f"{self.name}: heartbeat answered {code}")
                self._stop_it.set()


class Committer(threading.Thread):
    """A group of its own, without members: commits rising offsets and reads each back."""

    def __init__(self, port: int, group: str, topic: str) -> None:
        super().__init__(name=group, daemon=True)
        self._client = GroupClient(port)
        self._group, self._topic = group, topic
        self._stop_it = threading.Event()
        self.offset = 0
        self.wrong: list[str] = []

    @property
    def slowest_s(self) -> float:
        """Longest wait for an answer."""
        return self._client.slowest_s

    def stop(self) -> None:
        """Ends after the request in hand."""
        self._stop_it.set()

    def run(self) -> None:
        try:
            self._client.find(self._group)
            while not self._stop_it.is_set():
                code = self._client.commit(self._group, self._topic, self.offset + 1)
                if code:
                    self.wrong.append(f"{self.name}: commit answered {code}")
                    break
                self.offset += 1
                found = self._client.committed(self._group, self._topic)
                if found != self.offset:
                    self.wrong.append(f"{self.name}: {found} committed, {self.offset} acknowledged")
        except Exception as error:
            self.wrong.append(f"{self.name}: {error!r}")
        self._client.close()
