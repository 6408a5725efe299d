"""A watch of etcd as a stream of JSON lines over one connection, for an epoll loop.

The process that opened the store. A stream that ends is opened again at the next endpoint, from the revision behind
the last one delivered. A stream of a member that has stopped says nothing for ever: every PROBE_S its member has to
answer a linearizable read, which one that is stopped, or cut off from the others, cannot.
"""

from __future__ import annotations

import json
import select
import socket
import time
from contextlib import suppress
from typing import Any, Final

from mpbroker.metadata.etcd_gateway import EndPoint, EtcdGateway, decode, encode, entry_of
from mpbroker.metadata.meta_store import WATCH_MS, Batch, Compacted, Event, StoreError

PROBE_S: Final = 2.0
PROBE_TIMEOUT_S: Final = 1.0
CONNECT_S: Final = 0.5
AGAIN_S: Final = 0.1
MAX_LINE_BYTES: Final = 64 << 20
_READ_BYTES: Final = 1 << 18
_MAX_READS: Final = 64


class EtcdWatch:
    """`rev`: everything up to it has been delivered."""

    _received: bytearray  # of the stream that is open: these begin with it
    _in_body: bool
    _probe_due_s: float

    def __init__(self, gateway: EtcdGateway, key: str, end: str, start_rev: int) -> None:
        self.rev = start_rev - 1
        self._gateway = gateway
        self._key, self._end = key, end
        self._epoll = select.epoll()  # one descriptor for the caller, however often the stream is opened again
        self._socket: socket.socket | None = None
        self._end_point = gateway.end_point
        self._open_due_s = 0.0
        self._closed = False

    def fileno(self) -> int:
        """Readable when something came."""
        return self._epoll.fileno()

    def take(self, wait_ms: int = 0) -> list[Batch]:
        """What is new; after `wait_ms` nothing. Compacted, StoreError."""
        deadline = time.monotonic() + wait_ms / 1000
        while True:
            self._keep_open()
            batches = self._read()
            left_s = deadline - time.monotonic()
            if batches or left_s <= 0:
                return batches
            self._epoll.poll(min(left_s, WATCH_MS / 1000))

    # ---- the stream

    def _keep_open(self) -> None:
        if self._closed:
            raise StoreError("the watch is closed")
        now = time.monotonic()
        if self._socket is None:
            if now >= self._open_due_s:
                self._open_due_s = now + AGAIN_S
                self._open()
        elif now >= self._probe_due_s:
            self._probe_due_s = now + PROBE_S
            request = {"key": encode(self._key), "count_only": True}
            if self._gateway.ask(self._end_point, "/v3/kv/range", request, PROBE_TIMEOUT_S) is None:
                self._drop()

    def _open(self) -> None:
        """One attempt, at the next endpoint."""
        self._end_point = _next(self._gateway.end_points, self._end_point)
        create = {
            "key": encode(self._key),
            "range_end": encode(self._end),
            "start_revision": str(self.rev + 1),
            "progress_notify": True,
        }
        body = json.dumps({"create_request": create}).encode()
        # HTTP/1.0: the answer is the lines themselves, without chunks between them.
        head = (
            f"POST /v3/watch HTTP/1.0\r\nHost: {self._end_point.address}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        try:
            stream = socket.create_connection((self._end_point.host, self._end_point.port), timeout=CONNECT_S)
            stream.sendall(head.encode() + body)
        except OSError:
            return
        stream.setblocking(False)
        self._socket, self._received, self._in_body = stream, bytearray(), False
        self._probe_due_s = time.monotonic() + PROBE_S
        self._epoll.register(stream, select.EPOLLIN)

    def _drop(self) -> None:
        if self._socket is not None:
            self._epoll.unregister(self._socket)
            self._socket.close()
            self._socket = None

    def _read(self) -> list[Batch]:
        batches: list[Batch] = []
        for _ in range(_MAX_READS):
            if self._socket is None or batches:
                break
            try:
                data = self._socket.recv(_READ_BYTES)
            except BlockingIOError:
                break
            except OSError:
                data = b""
            if not data:
                self._drop()
                break
            self._received += data
            batches = self._lines()
        return batches

    def _lines(self) -> list[Batch]:
        if not self._in_body and not self._head():
            return []
        batches: list[Batch] = []
        while (end := self._received.find(b"\n")) >= 0:
            line = bytes(self._received[:end])
            del self._received[: end + 1]
            if line.strip():
                batches += self._message(line)
                if self._socket is None:
                    break
        if len(self._received) > MAX_LINE_BYTES:
            self._drop()
            raise StoreError(f"etcd sends a change of more than {MAX_LINE_BYTES} bytes")
        return batches

    def _head(self) -> bool:
        """Whether the answer's head is whole; a stream with any but 200 is given up."""
        end = self._received.find(b"\r\n\r\n")
        if end < 0:
            return False
        status = bytes(self._received[:end]).split(b"\r\n", 1)[0].split()
        del self._received[: end + 4]
        self._in_body = len(status) > 1 and status[1] == b"200"
        if not self._in_body:
            self._drop()
        return self._in_body

    def _message(self, line: bytes) -> list[Batch]:
        try:
            message = json.loads(line)
            result: dict[str, Any] = message.get("result", {})
        except (ValueError, AttributeError):
            self._drop()
            return []
        if "error" in message:
            self._drop()
            return []
        if result.get("canceled"):
            self._drop()
            self._raise_canceled(result)
            return []
        events = result.get("events", ())
        if not events and not result.get("created"):
            self.rev = max(self.rev, int(result.get("header", {}).get("revision", 0)))
        return self._batches(events)

    def _raise_canceled(self, result: dict[str, Any]) -> None:
        compacted = int(result.get("compact_revision", 0))
        if compacted:
            self._closed = True
            raise Compacted(compacted + 1)
        if "permission" in (reason := str(result.get("cancel_reason", ""))):
            self._closed = True
            raise StoreError(f"etcd: {reason}")

    def _batches(self, events: Any) -> list[Batch]:
        by_rev: dict[int, list[Event]] = {}
        for event in events:
            kv = event["kv"]
            rev, key = int(kv["mod_revision"]), decode(kv["key"]).decode()
            if rev > self.rev:  # one that is opened again may begin with what was delivered
                entry = None if event.get("type") == "DELETE" else entry_of(kv)
                by_rev.setdefault(rev, []).append(Event(key, entry))
        if by_rev:
            self.rev = max(by_rev)
        return [Batch(rev, tuple(found)) for rev, found in by_rev.items()]

    def close(self) -> None:
        """End the stream."""
        self._closed = True
        self._drop()
        with suppress(OSError):
            self._epoll.close()


def _next(end_points: tuple[EndPoint, ...], last: EndPoint) -> EndPoint:
    return end_points[(end_points.index(last) + 1) % len(end_points)]
