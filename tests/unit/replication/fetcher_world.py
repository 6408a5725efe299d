"""A fetcher process's parts in this process: rows as a controller would give them, a leader that is a socket, a clock
that stands still until the test moves it."""

from __future__ import annotations

import os
import select
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mpbroker import _native
from mpbroker.config.dynamic import DynamicSettings
from mpbroker.config.load_config import build_broker_config
from mpbroker.config.replication_throttle import FOLLOWER_RATE
from mpbroker.config.sources import Given
from mpbroker.protocol.codec import decode
from mpbroker.protocol.messages.fetch import FetchRequest
from mpbroker.replication import fetcher as module
from mpbroker.replication.fetcher import Fetcher
from mpbroker.replication.follower import FIRST_PAUSE_MS
from mpbroker.replication.leader_link import FETCH_VERSION
from mpbroker.shm.cluster_table import Broker, Endpoint, brokers_write, cluster_announce
from mpbroker.shm.layout import SLOT_FETCHERS, ReplicaRole
from mpbroker.shm.process_context import ProcessContext
from mpbroker.shm.process_table import ProcessRow
from tests.harness.in_process_broker import InProcessBroker
from tests.unit.replication.scripted_leader import EPOCH, Follower, ScriptedLeader, receive_frame

LEADER, FOLLOWER, OWN_EPOCH = 0, 1, 77
SETTINGS = {
    "node.id": "1",
    "replica.fetch.wait.max.ms": "11",
    "replica.fetch.min.bytes": "12",
    "replica.fetch.max.bytes": "13000",
    "replica.fetch.response.max.bytes": "14000",
    "replica.fetch.backoff.ms": "150",
    "replica.socket.timeout.ms": "5000",
    "replica.socket.receive.buffer.bytes": "20480",
}


class Lines:
    """The process's event log."""

    def __init__(self) -> None:
        self.told: list[tuple[str, dict[str, Any]]] = []

    def info(self, event: str, _message: str = "", **fields: Any) -> None:
        self.told.append((event, fields))

    error = info


class FetcherWorld(InProcessBroker):
    """`made` is the fetcher; `follow` gives it partitions, `take` accepts its connection to the leader."""

    def __init__(self, path: Path, monkeypatch: Any, index: int = 0, fetchers: int = 1, **settings: str) -> None:
        super().__init__(path, replicated=True, **{**SETTINGS, **settings})
        monkeypatch.setattr(module, "SystemClock", lambda: self.clock)
        self.clock.advance(60_000)
        self.leader = ScriptedLeader()
        self.ctx = ProcessContext(
            core=self.core,
            config=self.config,
            process_row=ProcessRow(self.core, SLOT_FETCHERS),
            log=Lines(),
            slot=SLOT_FETCHERS,
            data_dirs=(str(path),),
            wakeup_fd=os.eventfd(0, os.EFD_NONBLOCK),
        )
        self._own_epoch()
        self.made = Fetcher(self.ctx, index, fetchers)
        self.server = socket.create_server(("127.0.0.1", 0))
        self.far: socket.socket | None = None

    def _own_epoch(self, epoch: int = OWN_EPOCH) -> None:
        cluster_announce(self.core, LEADER, 1, epoch)

    def live(self, epoch: int = 5, port: int = 0, broker: int = LEADER) -> None:
        """Shows the leader, and where it is."""
        where = Endpoint("PLAINTEXT", 0, "127.0.0.1", port or self.server.getsockname()[1])
        brokers_write(self.core, [Broker(broker, epoch, [where])])

    def follow(self, ordinal: int, leader: int = LEADER, epoch: int = EPOCH) -> None:
        """From the next look at the rows on."""
        replicas = [leader, FOLLOWER]
        assert (
            self.log.become(ordinal, ReplicaRole.FOLLOWER, epoch, 1, replicas, [], FOLLOWER, 1, 0, leader=leader) == 0
        )

    def lead(self, ordinal: int, epoch: int = EPOCH + 1) -> None:
        """Follows it no more."""
        assert self.log.become(ordinal, ReplicaRole.LEADER, epoch, 2, [0, 1], [1], FOLLOWER, 1, 0) == 0

    def scan(self) -> None:
        """Look at the rows now."""
        self.made._scan(self.clock.monotonic_ms())

    def connect(self) -> None:
        """Begins, once a pause is over."""
        self.scan()
        self.clock.advance(FIRST_PAUSE_MS)
        self.made.ring()  # so that nobody sleeps
        self.made.turn()

    def take(self) -> socket.socket:
        """The fetcher's next connection."""
        self.server.settimeout(5)
        self.far, _ = self.server.accept()
        self.far.settimeout(5)
        return self.far

    def asked(self) -> tuple[Any, FetchRequest]:
        """The header and the next request that came over it."""
        frame = receive_frame(self.far)
        header = _native.codec_decode_request_header(frame)
        return header, decode(FetchRequest, FETCH_VERSION, frame, header.body_offset)

    def answer(self, change: Callable[[Any], Any] = lambda answer: answer) -> None:
        """Lets the leader answer the next request, and the fetcher read that."""
        header, request = self.asked()
        self.far.sendall(Follower.framed(change(self.leader.answer(request)), header.correlation_id))
        self.arrived()
        self.made.turn()

    def arrived(self) -> None:
        """What was sent is there."""
        connections = [link.connection for link in self.made._links.values() if link.connection is not None]
        assert select.select(connections, [], [], 5)[0]

    def limit(self, bytes_a_second: int) -> None:
        """The rate of throttled replicas."""
        settings = DynamicSettings({}, {FOLLOWER_RATE: str(bytes_a_second)}, {})
        self.ctx.config = build_broker_config(Given(self.config.texts, {}, ()), self.config.cores, settings)

    def lost(self) -> list[tuple[int, str]]:
        """Which leaders' connections it told to be lost, and why."""
        return [(fields["leader"], fields["why"]) for event, fields in self.ctx.log.told]

    def close(self) -> None:
        """All of it."""
        self.made.close()
        for each in (self.far, self.server):
            if each is not None:
                each.close()
        os.close(self.ctx.wakeup_fd)
