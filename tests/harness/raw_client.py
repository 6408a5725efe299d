"""Raw requests over a socket: no client library between a test and the bytes."""

from __future__ import annotations

import socket
import struct


def frame(api_key: int, version: int, correlation_id: int, body: bytes = b"", client_id: bytes | None = None) -> bytes:
    """A request with header version 1 and its length."""
    header = struct.pack(">hhi", api_key, version, correlation_id)
    header += struct.pack(">h", -1) if client_id is None else struct.pack(">h", len(client_id)) + client_id
    return struct.pack(">i", len(header) + len(body)) + header + body


def api_versions(correlation_id: int) -> bytes:
    """ApiVersions version 0."""
    return frame(18, 0, correlation_id)


def is_closed(client: socket.socket) -> bool:
    """Whether the other end is gone by now; nothing is waited for."""
    try:
        return client.recv(1, socket.MSG_DONTWAIT) == b""
    except BlockingIOError:
        return False
    except ConnectionResetError:
        return True


class RawConnection:
    """A blocking connection. `receive` returns (correlation id, the rest), or None at end of stream."""

    def __init__(self, port: int, host: str = "127.0.0.1", timeout_s: float = 10.0) -> None:
        self.socket = socket.create_connection((host, port), timeout=timeout_s)
        self._buffer = b""

    def __enter__(self) -> RawConnection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close our end."""
        self.socket.close()

    def send(self, data: bytes) -> None:
        """Send all of it."""
        self.socket.sendall(data)

    def receive(self) -> tuple[int, bytes] | None:
        """The next answer."""
        while len(self._buffer) < 4 or len(self._buffer) < 4 + struct.unpack_from(">i", self._buffer)[0]:
            try:
                data = self.socket.recv(65536)
            except ConnectionResetError:
                return None
            if not data:
                return None
            self._buffer += data
        (length,) = struct.unpack_from(">i", self._buffer)
        body, self._buffer = self._buffer[4 : 4 + length], self._buffer[4 + length :]
        return struct.unpack_from(">i", body)[0], body[4:]

    def ask(self, data: bytes) -> tuple[int, bytes] | None:
        """Send a request, return its answer."""
        self.send(data)
        return self.receive()

    def is_closed(self) -> bool:
        """Whether the broker closes the connection without an answer."""
        return self.receive() is None
