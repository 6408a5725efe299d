"""`python -m mpbroker.analysis.lab.incident.probe PLAN.json`: writes to one partition whoever leads it, open loop.

A process of its own. Every record has a name of its own, so that it can be looked for in the log afterwards. It sends
each to the broker it believes to lead, to the other one after NOT_LEADER_OR_FOLLOWER, and never twice. Ends when its
standard input does, after waiting for answers; its log is a JSON file.
"""

from __future__ import annotations

import json
import select
import socket
import struct
import sys
import time
from collections import deque
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from mpbroker.client import prepared_request
from mpbroker.client.prepared_request import CORRELATION_ID, CORRELATION_ID_AT

KINDS = (-1, 1)
"""Values of acks."""
NOT_LEADER, DRAIN_S, NEVER = 6, 1.0, -1
CONNECT_TIMEOUT_S, RECEIVE_BYTES = 20.0, 1 << 16
_HEAD = struct.Struct(">ii")
_RESULT = struct.Struct(">hq")


class ProbePlan(NamedTuple):
    """`addresses`: the two brokers that lead in turns, the first one leads at the start."""

    topic: str
    addresses: list[tuple[str, int]]
    connections: int
    rate_per_s: float
    timeout_ms: int
    log: str


class Sent(NamedTuple):
    """A request on its way."""

    name: str
    acks: int
    broker: int
    intended_ns: int
    sent_ns: int


class ProbeConnection:
    """To one broker, for one kind; answers come in the order of requests."""

    def __init__(self, broker: int, address: tuple[str, int]) -> None:
        self.broker = broker
        self.socket = socket.create_connection((address[0], address[1]), timeout=CONNECT_TIMEOUT_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.setblocking(False)
        self.waiting: deque[Sent] = deque()
        self._buffer = b""
        self._unsent = b""

    def send(self, frame: bytes, sent: Sent) -> None:
        """Put it in flight; what the socket does not take goes with the next look."""
        self.waiting.append(sent)
        self._unsent += frame
        self.flush()

    def flush(self) -> None:
        """Go on sending."""
        if self._unsent:
            with suppress(BlockingIOError):
                self._unsent = self._unsent[self.socket.send(self._unsent) :]

    def receive(self, error_at: int) -> list[tuple[Sent, int, int]]:
        """(request, error, base offset) of every answer that is there."""
        try:
            self._buffer += self.socket.recv(RECEIVE_BYTES)
        except BlockingIOError:
            return []
        found = []
        while len(self._buffer) >= _HEAD.size:
            (length, _) = _HEAD.unpack_from(self._buffer)
            if len(self._buffer) < 4 + length:
                break
            error, offset = _RESULT.unpack_from(self._buffer, error_at)
            found.append((self.waiting.popleft(), error, offset))
            self._buffer = self._buffer[4 + length :]
        return found


class Probe:
    """The loop."""

    def __init__(self, plan: ProbePlan) -> None:
        self._plan = plan
        self._error_at = 0
        self._links = {
            (acks, broker): [ProbeConnection(broker, address) for _ in range(plan.connections)]
            for acks in KINDS
            for broker, address in enumerate(plan.addresses)
        }
        self._by_fd = {one.socket.fileno(): one for links in self._links.values() for one in links}
        self._poll = select.epoll()
        for descriptor in self._by_fd:
            self._poll.register(descriptor, select.EPOLLIN)
        self._stdin_open = True
        self._poll.register(sys.stdin.fileno(), select.EPOLLIN)
        self._leader = 0
        self._number = 0
        self.rows: list[tuple[str, int, int, int, int, int, int, int]] = []

    def run(self) -> None:
        """Until standard input ends, then until answers came or the time of every request is over."""
        period_ns = round(1e9 / self._plan.rate_per_s)
        next_ns = time.monotonic_ns()
        while self._stdin_open:
            now_ns = time.monotonic_ns()
            while next_ns <= now_ns:
                for acks in KINDS:
                    self._send(acks, next_ns)
                next_ns += period_ns
            self._take(max(0.0, (next_ns - time.monotonic_ns()) / 1e9))
        deadline = time.monotonic() + self._plan.timeout_ms / 1000 + DRAIN_S
        while time.monotonic() < deadline and any(one.waiting for one in self._by_fd.values()):
            self._take(0.05)
        for one in self._by_fd.values():
            self.rows += [(*sent, NEVER, NEVER, NEVER) for sent in one.waiting]

    def _send(self, acks: int, intended_ns: int) -> None:
        self._number += 1
        name = f"{'all' if acks < 0 else 'one'}-{self._number:09d}"
        request = prepared_request.produce(
            self._plan.topic, 0, [name.encode()], acks, f"probe-{'all' if acks < 0 else 'one'}", self._plan.timeout_ms
        )
        self._error_at = request.error_at or 0
        frame = bytearray(request.frame)
        CORRELATION_ID.pack_into(frame, CORRELATION_ID_AT, self._number)
        links = self._links[acks, self._leader]
        link = min(links, key=lambda one: len(one.waiting))  # a request that waits for replicas holds its connection up
        link.send(bytes(frame), Sent(name, acks, self._leader, intended_ns, time.monotonic_ns()))

    def _take(self, wait_s: float) -> None:
        for descriptor, _ in self._poll.poll(wait_s):
            if descriptor == sys.stdin.fileno():
                self._poll.unregister(descriptor)
                self._stdin_open = False
                continue
            for sent, error, offset in self._by_fd[descriptor].receive(self._error_at):
                self.rows.append((*sent, time.monotonic_ns(), error, offset))
                if error == NOT_LEADER and sent.broker == self._leader:
                    self._leader = 1 - self._leader
        for one in self._by_fd.values():
            one.flush()


def main() -> int:
    """Say `ready`, probe, write the log."""
    document: dict[str, Any] = json.loads(Path(sys.argv[1]).read_text())
    plan = ProbePlan(**document)
    probe = Probe(plan)
    print("ready", flush=True)
    probe.run()
    Path(plan.log).write_text(json.dumps(probe.rows))
    print("done", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
