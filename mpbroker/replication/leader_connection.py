"""A non-blocking connection to one broker: one request in flight, its answer bounded before it is allocated.

Used by a fetcher process, which waits for many of them with one epoll. Holds nothing that must survive.
"""

from __future__ import annotations

import errno
import os
import socket
from typing import Final

from mpbroker.client.address_lookup import Address
from mpbroker.errors import ProtocolError
from mpbroker.protocol.codec import decode
from mpbroker.protocol.headers import decode_response_header, encode_request_frame
from mpbroker.protocol.schema import schema_of
from mpbroker.protocol.types import Struct

HEAD_BYTES: Final = 4
FIRST_READ_BYTES: Final = 64 << 10
"""Head and answer come with one call where they are no longer than this."""
CONNECTING: Final = frozenset((0, errno.EINPROGRESS, errno.EWOULDBLOCK))


class ConnectionEnded(Exception):
    """The connection is of no use any more; says why."""


class LeaderConnection:
    """`most_bytes`: the longest answer that is taken. OSError: the address cannot be used at all."""

    def __init__(self, address: Address, client_id: str, most_bytes: int, receive_buffer_bytes: int = -1) -> None:
        self.client_id = client_id
        self._most_bytes = most_bytes
        self._correlation_id = 0
        self._out = memoryview(b"")
        self._in = bytearray()
        self._filled = 0
        self._asked: tuple[type[Struct], type[Struct], int] | None = None
        self.is_watched_for_room = False
        """Noted by whoever waits for the socket: whether that includes being writable."""
        self._socket = socket.socket(address.family, socket.SOCK_STREAM)
        try:
            self._socket.setblocking(False)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if receive_buffer_bytes > 0:
                self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
            code = self._socket.connect_ex(address.sockaddr)
            if code not in CONNECTING:
                raise OSError(code, os.strerror(code))
        except OSError:
            self._socket.close()
            raise

    @property
    def correlation_id(self) -> int | None:
        """Of the request that was sent whole and of whose answer nothing has come; None: there is none."""
        is_so = self._asked is not None and not self._out and not self._in
        return self._correlation_id if is_so else None

    def resume(self, correlation_id: int, is_asked: bool, received: bytes, unsent: bytes) -> None:
        """Somebody else used the socket since `correlation_id` was not None: its last request was of the same kind, is
        perhaps still under way, and not sent whole or part of its answer has come. ConnectionEnded."""
        self._correlation_id = correlation_id
        self._out = memoryview(unsent)
        if not is_asked:
            self._asked = None
        if received:
            self._begin(received)

    def fileno(self) -> int:
        return self._socket.fileno()

    @property
    def is_idle(self) -> bool:
        """Whether a request may be sent."""
        return self._asked is None

    @property
    def wants_to_write(self) -> bool:
        """Whether there is something left to send."""
        return len(self._out) > 0

    def ask(self, message: Struct, answer: type[Struct], version: int) -> None:
        """Sends a request as far as the socket takes it; the rest when it is writable."""
        self._correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        frame = encode_request_frame(message, version, self._correlation_id, self.client_id)
        self._out = memoryview(frame)
        self._asked = (type(message), answer, version)

    def write(self) -> None:
        """ConnectionEnded."""
        try:
            while self._out:
                self._out = self._out[self._socket.send(self._out) :]
        except BlockingIOError:
            pass
        except OSError as error:
            raise ConnectionEnded(error.strerror or str(error)) from error

    def read(self) -> Struct | None:
        """The answer if it is there whole; ConnectionEnded, ProtocolError."""
        while not HEAD_BYTES < len(self._in) <= self._filled:
            try:
                if len(self._in) > HEAD_BYTES:
                    count = self._socket.recv_into(memoryview(self._in)[self._filled :])
                    self._filled += count
                else:
                    count = self._begin(self._socket.recv(FIRST_READ_BYTES))
            except BlockingIOError:
                return None
            except OSError as error:
                raise ConnectionEnded(error.strerror or str(error)) from error
            if count == 0:
                raise ConnectionEnded("it closed the connection")
        return self._take()

    def _begin(self, came: bytes) -> int:
        """Takes what came first of an answer, its head perhaps in parts; room for all of it is made by the head."""
        self._in = self._in[: self._filled] + came
        self._filled = len(self._in)
        if self._filled < HEAD_BYTES:
            return len(came)
        length = int.from_bytes(self._in[:HEAD_BYTES], "big", signed=True)
        whole = HEAD_BYTES + length
        if not 0 < length <= self._most_bytes or self._asked is None:
            raise ConnectionEnded(f"it announces an answer of {length} bytes")
        if self._filled > whole:
            raise ConnectionEnded(f"it sent {self._filled - whole} bytes that nobody asked for")
        self._in.extend(bytes(whole - self._filled))
        return len(came)

    def _take(self) -> Struct:
        assert self._asked is not None
        (request, answer, version), payload = self._asked, memoryview(self._in)[HEAD_BYTES:]
        self._in, self._filled, self._asked = bytearray(), 0, None
        correlation_id, offset = decode_response_header(schema_of(request).key, version, payload)
        if correlation_id != self._correlation_id:
            raise ProtocolError(f"answer {correlation_id} came for request {self._correlation_id}")
        found: Struct = decode(answer, version, payload, offset)
        return found

    def close(self) -> None:
        self._socket.close()
