"""A leader that is a script, and a follower of it with a real log and a real connection, whose fetches are served
natively or not: what one says the other must say, byte by byte."""

from __future__ import annotations

import select
import socket
from collections.abc import Callable
from pathlib import Path

from mpbroker import _native
from mpbroker._native import Log, LogOptions
from mpbroker.client.address_lookup import Address
from mpbroker.protocol.codec import decode
from mpbroker.protocol.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from mpbroker.replication.follower import FetchLimits, Followed, LeaderFetch
from mpbroker.replication.leader_connection import ConnectionEnded, LeaderConnection
from mpbroker.replication.leader_link import FETCH_VERSION, LeaderLink
from mpbroker.replication.steady_links import SteadyLinks
from mpbroker.shm.clock import ManualClock
from mpbroker.shm.layout import ReplicaRole
from tests.harness.raw_records import batch
from tests.harness.small_core import small_core

LEADER, FOLLOWER, EPOCH = 0, 1, 3
A, B = bytes(range(16)), bytes(range(16, 32))
KEYS = ((A, 0), (A, 1), (B, 0))
"""Topic and partition of each row."""
FETCH = 1
Key = tuple[bytes, int]


def batch_at(offset: int, values: list[bytes]) -> bytes:
    """As a leader has it in its log."""
    made = bytearray(batch(values, timestamp_ms=1_700_000_000_000 + offset))
    made[:8] = offset.to_bytes(8, "big")
    made[12:16] = EPOCH.to_bytes(4, "big")
    return bytes(made)


class ScriptedLeader:
    """Answers Fetch by incremental sessions; what it has committed is what it was told that the follower has."""

    def __init__(self) -> None:
        self.batches: dict[Key, list[tuple[int, bytes]]] = {key: [] for key in KEYS}
        self.ends = dict.fromkeys(KEYS, 0)
        self.log_starts = dict.fromkeys(KEYS, 0)
        self.told: dict[Key, int] = {}
        self._answered: dict[Key, tuple[int, int]] = {}
        self.session_id = 700

    def write(self, key: Key, values: list[bytes]) -> None:
        self.batches[key].append((self.ends[key], batch_at(self.ends[key], values)))
        self.ends[key] += len(values)

    def answer(self, request: FetchRequest) -> FetchResponse:
        if request.session_id != self.session_id:
            self.session_id += 1
            self.told, self._answered = {}, {}
        for topic in request.forgotten_topics_data:
            for number in topic.partitions:
                del self.told[topic.topic_id, number]
        for asked_of in request.topics:
            for asked in asked_of.partitions:
                self.told[asked_of.topic_id, asked.partition] = asked.fetch_offset
        topics: dict[bytes, list[PartitionData]] = {}
        for key in self.told:
            data = self._data(key)
            if data is not None:
                topics.setdefault(key[0], []).append(data)
        rows = [FetchableTopicResponse(topic_id=topic, partitions=found) for topic, found in topics.items()]
        return FetchResponse(session_id=self.session_id, responses=rows)

    def answer_to(self, frame: bytes) -> FetchResponse:
        header = _native.codec_decode_request_header(frame)
        return self.answer(decode(FetchRequest, FETCH_VERSION, frame, header.body_offset))

    def _data(self, key: Key) -> PartitionData | None:
        """None: nothing is new."""
        at, start = self.told[key], self.log_starts[key]
        records = b"".join(each for offset, each in self.batches[key] if offset >= at)
        if not records and self._answered.get(key) == (at, start):
            return None
        self._answered[key] = at, start
        return PartitionData(
            partition_index=key[1],
            high_watermark=at,
            last_stable_offset=at,
            log_start_offset=start,
            aborted_transactions=None,
            records=records,
        )


class FollowedRows:
    """What is followed, by the rows of `log`."""

    log: Log

    def rows(self) -> list[Followed]:
        busy, rows = self.log.followed(0, 1)
        assert not busy
        return [Followed._make(row) for row in rows]

    def row(self, ordinal: int) -> Followed | None:
        return next((row for row in self.rows() if row.ordinal == ordinal), None)


class Follower(FollowedRows):
    """`step` lets the leader answer one request, and the follower do what follows from it."""

    def __init__(self, path: Path, natively: bool) -> None:
        self.path, self.natively = path, natively
        self.leader = ScriptedLeader()
        self.core = small_core(replicated=True).core
        self.log = Log(self.core, [str(path)], 118)
        for row, (topic, partition) in enumerate(KEYS):
            name = f"{'AB'[topic == B]}-{partition}"
            assert self.log.create(row, topic, row, partition, 0, name, 0, 1) == 0
            role = ReplicaRole.FOLLOWER
            assert self.log.become(row, role, EPOCH, 1, [0, 1], [], FOLLOWER, 1, 0, leader=LEADER) == 0
        self.clock = ManualClock()
        self.said: list[tuple[str, object]] = []
        self.frames: list[bytes] = []
        self.lost: list[str] = []
        self.throttled: set[int] = set()
        self.passed: list[str] = []
        self._server = socket.create_server(("127.0.0.1", 0))
        self._epoll = select.epoll()
        limits = FetchLimits(500, 1, 1 << 20, 10 << 20, 1000)
        self.link = LeaderLink(
            LEADER, LeaderFetch(FOLLOWER, 77, limits), self, self.clock, lambda: None,
            lambda event, **fields: self.said.append((event, fields.get("ordinal"))), self.passed.append,
        )  # fmt: skip
        self.steady = SteadyLinks(self.log, self._epoll.fileno(), self.options, self.throttled.__contains__)
        self.far: socket.socket | None = None
        self.connect()

    def connect(self) -> None:
        """Anew, after the last connection was lost, too."""
        self.link.fetch.follow(self.rows())
        found = Address(socket.AF_INET, self._server.getsockname())
        self.link.connection = LeaderConnection(found, "broker-1-fetcher-0", 1 << 20)
        self._epoll.register(self.link.connection.fileno(), select.EPOLLIN)
        if self.far is not None:
            self.far.close()
        self.far, _ = self._server.accept()
        self.far.settimeout(5)

    def close(self) -> None:
        self.link.lose()
        for each in (self.far, self._server, self._epoll, self.log):
            each.close()

    # ------------------------------------------------------------------ what else a link needs of the logs
    def options(self, _ordinal: int) -> LogOptions:
        return LogOptions()

    def topic_name(self, ordinal: int) -> str:
        return "AB"[KEYS[ordinal][0] == B]

    def end_of_epoch(self, ordinal: int, epoch: int) -> object:
        raise AssertionError("nothing here is cut")

    # ------------------------------------------------------------------ turns
    def ask(self) -> None:
        """What is to be asked now, if anything is."""
        if self.link.connection is not None and not self.steady.has(self.link) and self.link.ask():
            self.link.write()
            if self.natively:
                self.steady.lend(self.link)

    def turn(self, timeout_s: float = 0.0) -> None:
        """As a fetcher's."""
        self.ask()
        for _ in self.steady.poll(timeout_s):
            try:
                self.steady.take_back(self.link)
                if self.link.wants_to_write:
                    self.link.write()
                self.link.read()
            except ConnectionEnded as ended:
                self.lost.append(str(ended))
                self.link.lose()
        self.ask()

    def step(self, oddity: Callable[[FetchResponse], FetchResponse | bytes] = lambda answer: answer) -> None:
        """`oddity` changes the answer, or gives the bytes to be sent."""
        self.clock.advance(2000)
        self.ask()
        assert self.far is not None
        frame = receive_frame(self.far)
        self.frames.append(frame)
        answer = oddity(self.leader.answer_to(frame))
        correlation_id = _native.codec_decode_request_header(frame).correlation_id
        self.far.sendall(answer if isinstance(answer, bytes) else self.framed(answer, correlation_id))
        for _ in range(200):
            self.turn(0.01)
            if self.link.connection is None or select.select([self.far], [], [], 0)[0]:
                return
            if self.link.connection.is_idle and not self.steady.has(self.link):
                return

    @staticmethod
    def framed(answer: FetchResponse, correlation_id: int) -> bytes:
        return _native.codec_encode_response_frame(FETCH, FETCH_VERSION, correlation_id, answer)

    def ends(self) -> list[tuple[int, ...]]:
        """What the rows say."""
        return [(row.leo, row.hw, row.log_start, row.last_epoch) for row in sorted(self.rows())]

    def log_bytes(self) -> dict[str, bytes]:
        return {each.parent.name: each.read_bytes() for each in sorted(self.path.glob("*/*.log"))}


def receive_frame(far: socket.socket) -> bytes:
    """One request, without its length."""
    head = far.recv(4, socket.MSG_WAITALL)
    return far.recv(int.from_bytes(head, "big"), socket.MSG_WAITALL)
