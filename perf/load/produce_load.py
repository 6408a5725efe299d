"""The load: some connections, each with a fixed number of Produce requests in flight, until time is up.

Every frame exists before the clock starts and all have one length, as all answers have: what arrives is counted by
dividing, and as many requests are sent with one call. So the load costs little beside the broker it measures.
"""

from __future__ import annotations

import select
import socket
import struct
import time
from collections import deque
from typing import NamedTuple

from tests.harness.raw_records import batch, produce_request, produced

RECEIVE_BYTES = 1 << 16
_ERROR_BYTES = 2


class LoadResult(NamedTuple):
    """Requests answered in `seconds`, their latencies, and the driver's own CPU time."""

    requests: int
    errors: int
    seconds: float
    p50_ms: float
    p99_ms: float
    driver_cpu_us: int

    @property
    def requests_per_s(self) -> float:
        """Answers a second."""
        return self.requests / self.seconds


class _Connection:
    """One connection: what it will send next, and when what is in flight was sent."""

    def __init__(self, address: tuple[str, int], frames: list[bytes], answer_bytes: int, error_at: int) -> None:
        self.socket = socket.create_connection(address, timeout=30)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.setblocking(False)
        self._frame_bytes = len(frames[0])
        self._stream = memoryview(b"".join(frames) * 2)
        self._depth = len(frames)
        self._next = 0
        self._unsent = 0
        self._answer_bytes, self._error_at = answer_bytes, error_at
        self._buffer = bytearray(RECEIVE_BYTES)
        self._filled = 0
        self.in_flight: deque[tuple[int, int]] = deque()
        self.latencies: list[tuple[int, int]] = []
        self.answered = self.errors = 0

    def send(self, count: int, now_ns: int) -> None:
        """Put `count` more requests in flight (as far as the socket takes them; the rest with the next call)."""
        if count:
            self.in_flight.append((now_ns, count))
        self._unsent += count * self._frame_bytes
        total = self._depth * self._frame_bytes
        while self._unsent:
            piece = self._stream[self._next : self._next + min(self._unsent, total)]
            try:
                sent = self.socket.send(piece)
            except BlockingIOError:
                return
            self._unsent -= sent
            self._next = (self._next + sent) % total

    def receive(self, now_ns: int) -> int:
        """Count the answers that came; returns how many."""
        try:
            received = self.socket.recv_into(memoryview(self._buffer)[self._filled :])
        except BlockingIOError:
            return 0
        if not received:
            raise ConnectionError("the broker closed a connection of the load")
        self._filled += received
        count, rest = divmod(self._filled, self._answer_bytes)
        whole = count * self._answer_bytes
        for place in range(self._error_at, self._error_at + _ERROR_BYTES):
            self.errors += count - self._buffer[place : whole : self._answer_bytes].count(0)
        self._buffer[:rest] = self._buffer[whole : self._filled]
        self._filled = rest
        self.answered += count
        self._account(count, now_ns)
        return count

    def _account(self, count: int, now_ns: int) -> None:
        while count:
            sent_ns, number = self.in_flight[0]
            taken = min(count, number)
            self.latencies.append((now_ns - sent_ns, taken))
            count -= taken
            if taken == number:
                self.in_flight.popleft()
            else:
                self.in_flight[0] = (sent_ns, number - taken)


class ProduceLoad:
    """A prepared load against one broker. `run` may be called many times."""

    def __init__(
        self,
        host: str,
        port: int,
        topic: str,
        *,
        connections: int = 8,
        in_flight: int = 20,
        partitions: int = 4,
        values: list[bytes] | None = None,
        acks: int = 1,
    ) -> None:
        data = batch(values or [b"x" * 100])
        self._address = (host, port)
        self._in_flight = in_flight
        self._connections = []
        for number in range(connections):
            partition = number % partitions
            frames = [produce_request(correlation, topic, partition, data, acks) for correlation in range(in_flight)]
            answer = self._try(frames[0])
            # 4 bytes length, 4 correlation id, array, topic, array, partition: then the error code
            self._connections.append(_Connection(self._address, frames, len(answer), 8 + 4 + 2 + len(topic) + 4 + 4))

    def _try(self, frame: bytes) -> bytes:
        """Send one request until it is answered without an error (a topic may take a moment); its answer."""
        deadline = time.monotonic() + 20
        with socket.create_connection(self._address, timeout=20) as connection:
            while True:
                connection.sendall(frame)
                (length,) = struct.unpack(">i", connection.recv(4, socket.MSG_WAITALL))
                body = connection.recv(length, socket.MSG_WAITALL)
                error = produced(body[4:]).error
                if error == 0:
                    return struct.pack(">i", length) + body
                if time.monotonic() > deadline:
                    raise RuntimeError(f"Produce is answered with error {error}")
                time.sleep(0.05)

    def run(self, seconds: float) -> LoadResult:
        """Keep the load up for some time, then let what is in flight come back."""
        poll = select.epoll()
        for connection in self._connections:
            connection.latencies, connection.answered, connection.errors = [], 0, 0
            poll.register(connection.socket.fileno(), select.EPOLLIN | select.EPOLLOUT | select.EPOLLET)
        by_descriptor = {connection.socket.fileno(): connection for connection in self._connections}
        begun_cpu, begun_ns = time.process_time_ns(), time.monotonic_ns()
        end_ns = begun_ns + int(seconds * 1e9)
        for connection in self._connections:
            connection.send(self._in_flight, begun_ns)
        last_ns, ready = begun_ns, deque()
        while any(connection.in_flight for connection in self._connections):
            for descriptor, _ in poll.poll(0 if ready else 30):
                if by_descriptor[descriptor] not in ready:
                    ready.append(by_descriptor[descriptor])
            for _ in range(len(ready)):  # one receive each, in turn: a fast answer must not make the others wait
                connection, now_ns = ready.popleft(), time.monotonic_ns()
                count = connection.receive(now_ns)
                connection.send(count if now_ns < end_ns else 0, now_ns)
                if count:
                    last_ns = now_ns
                    ready.append(connection)
        poll.close()
        return self._result((last_ns - begun_ns) / 1e9, (time.process_time_ns() - begun_cpu) // 1000)

    def _result(self, seconds: float, driver_cpu_us: int) -> LoadResult:
        latencies = sorted(pair for connection in self._connections for pair in connection.latencies)
        requests = sum(connection.answered for connection in self._connections)
        return LoadResult(
            requests,
            sum(connection.errors for connection in self._connections),
            seconds,
            _percentile(latencies, requests, 0.50),
            _percentile(latencies, requests, 0.99),
            driver_cpu_us,
        )

    def close(self) -> None:
        """Close every connection."""
        for connection in self._connections:
            connection.socket.close()


def _percentile(latencies: list[tuple[int, int]], total: int, share: float) -> float:
    """Milliseconds not exceeded by that share; `latencies` are (nanoseconds, number), sorted."""
    seen = 0
    for nanoseconds, number in latencies:
        seen += number
        if seen >= share * total:
            return nanoseconds / 1e6
    return 0.0
