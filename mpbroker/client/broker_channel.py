"""A connection to another broker that never makes its process wait: one request in flight, in a loop of the caller's.

The owner polls `fileno()` for `events()` and calls `turn`; whatever goes wrong (refused, closed, too slow, an answer
that cannot be read) ends the connection and comes out as one failure. No state but its own socket.
"""

from __future__ import annotations

import errno
import os
import select
import socket
from contextlib import suppress
from typing import Final, NamedTuple

from mpbroker.client.address_lookup import LOOKUP, AddressLookup
from mpbroker.errors import ProtocolError
from mpbroker.protocol.codec import decode
from mpbroker.protocol.headers import decode_response_header, encode_request_frame
from mpbroker.protocol.messages_by_key import RESPONSES
from mpbroker.protocol.schema import schema_of
from mpbroker.protocol.types import Struct

MAX_ANSWER_BYTES: Final = 64 << 20
REQUEST_TIMEOUT_MS: Final = 30_000
"""controller.socket.timeout.ms: for connecting, sending and the answer together."""
READ_BYTES: Final = 128 << 10
LOOK_UP_MS: Final = 20


class Outcome(NamedTuple):
    """What became of the request in flight. `response` None: it failed, `problem` says how."""

    response: Struct | None
    problem: str = ""


class BrokerChannel:
    """To one address; connects when there is something to send. `client_id` is what the other side's log shows."""

    def __init__(
        self,
        host: str,
        port: int,
        client_id: str,
        timeout_ms: int = REQUEST_TIMEOUT_MS,
        lookup: AddressLookup = LOOKUP,
    ) -> None:
        self.address = (host, port)
        self._lookup = lookup
        self._client_id = client_id
        self._timeout_ms = timeout_ms
        self._socket: socket.socket | None = None
        self._connected = False
        self._unsent = b""
        self._received = bytearray()
        self._correlation = 0
        self._asked: tuple[int, int] | None = None
        self._deadline_ms = 0

    @property
    def busy(self) -> bool:
        """Whether a request is in flight."""
        return self._asked is not None

    def fileno(self) -> int:
        """The socket, or -1 when there is none."""
        return -1 if self._socket is None else self._socket.fileno()

    def events(self) -> int:
        """What to poll it for."""
        return select.EPOLLIN | (select.EPOLLOUT if self._unsent or not self._connected else 0)

    def wait_ms(self, now_ms: int) -> int | None:
        """How long until `turn` has something to do without an event: the request in flight is too old, or its address
        may have been found. None: there is no request."""
        if self._asked is None:
            return None
        left_ms = max(0, self._deadline_ms - now_ms)
        return min(left_ms, LOOK_UP_MS) if self._socket is None else left_ms

    def send(self, message: Struct, now_ms: int) -> None:
        """Begin a request in its newest version. Only while none is in flight."""
        assert self._asked is None, "one request at a time"
        schema = schema_of(type(message))
        version = schema.versions[1]
        self._correlation = (self._correlation + 1) & 0x7FFFFFFF
        self._unsent = encode_request_frame(message, version, self._correlation, self._client_id)
        self._asked = (schema.key, version)
        self._deadline_ms = now_ms + self._timeout_ms
        self._received.clear()
        if self._socket is None:
            with suppress(OSError):  # the next turn says so
                self._connect()

    def turn(self, now_ms: int) -> Outcome | None:
        """Go on as far as it goes without waiting; the outcome of the request in flight, once."""
        try:
            if self._socket is not None:
                self._work()
            elif self._asked is not None:
                self._connect()
            done = self._answer()
        except (OSError, ProtocolError) as error:
            return self._fail(str(error))
        if done is None and self._asked is not None and now_ms >= self._deadline_ms:
            return self._fail(f"no answer within {self._timeout_ms} ms")
        return done

    def push(self) -> None:
        """Connect and send as far as it goes, between two turns; what goes wrong is for the next turn to say."""
        if self._socket is not None:
            with suppress(OSError, ProtocolError):
                self._work()

    def close(self) -> None:
        """End the connection; a request in flight is forgotten."""
        if self._socket is not None:
            self._socket.close()
        self._socket, self._connected, self._asked, self._unsent = None, False, None, b""
        self._received.clear()

    def _connect(self) -> None:
        """Begin to; while the address is looked up there is nothing to begin. OSError."""
        found = self._lookup.find(*self.address)
        if found is None:
            return
        made = socket.socket(found.family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
        try:
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            code = made.connect_ex(found.sockaddr)
            if code not in (0, errno.EINPROGRESS):
                raise OSError(code, os.strerror(code))
        except OSError:
            made.close()
            raise
        self._socket = made

    def _work(self) -> None:
        assert self._socket is not None
        if not self._connected:
            poll = select.poll()
            poll.register(self._socket, select.POLLOUT)
            if not poll.poll(0):
                return
            code = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if code:
                raise OSError(code, errno.errorcode.get(code, "connecting failed"))
            self._connected = True
        if self._unsent:
            with suppress(BlockingIOError):
                self._unsent = self._unsent[self._socket.send(self._unsent) :]
        self._receive()

    def _receive(self) -> None:
        assert self._socket is not None
        while len(self._received) <= MAX_ANSWER_BYTES:
            try:
                arrived = self._socket.recv(READ_BYTES)
            except BlockingIOError:
                return
            if not arrived:
                raise ConnectionResetError("closed by the other side")
            self._received += arrived
        raise ProtocolError("an answer without end")

    def _answer(self) -> Outcome | None:
        if len(self._received) < 4:
            return None
        length = int.from_bytes(self._received[:4], "big", signed=True)
        if not 4 <= length <= MAX_ANSWER_BYTES:
            raise ProtocolError(f"an answer of {length} bytes")
        if len(self._received) < 4 + length:
            return None
        if self._asked is None:
            raise ProtocolError("an answer to no request")
        key, version = self._asked
        frame = bytes(self._received[4 : 4 + length])
        correlation, offset = decode_response_header(key, version, frame)
        if correlation != self._correlation:
            raise ProtocolError("an answer to another request")
        response = decode(RESPONSES[key], version, frame, offset)
        del self._received[: 4 + length]
        self._asked = None
        return Outcome(response)

    def _fail(self, problem: str) -> Outcome | None:
        failed = self._asked is not None
        self.close()
        return Outcome(None, problem) if failed else None
