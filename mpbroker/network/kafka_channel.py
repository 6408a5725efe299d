"""One client connection; lives in one processor, which alone touches it.

Framing, what is buffered and what is being sent are native (native/network/connection.h). Here is what only Python
needs: the socket, whose connection it is, and a large frame on its way. A large frame is received straight into the
shared arena once enough of it has really arrived, so that an announced length alone reserves nothing.
"""

import socket
from typing import Final

from mpbroker._native import MIN_FRAME_BYTES, SMALL_FRAME_BYTES, Connection

__all__ = ["MIN_FRAME_BYTES", "SMALL_FRAME_BYTES", "ConnectionLost", "KafkaChannel"]

LARGE_BYTES_PER_TURN: Final = 1 << 20  # so that one sender of large frames does not hold up the others


class ConnectionLost(Exception):
    """The other end closed or reset the connection."""


class KafkaChannel(Connection):
    """State of one connection. `number` and `generation` name it in request entries; `address` is 16 bytes."""

    __slots__ = ("address", "large_filled", "large_offset", "large_view", "port", "socket")

    def __new__(
        cls, connection: socket.socket, number: int, generation: int, address: bytes, now_ns: int
    ) -> "KafkaChannel":
        return super().__new__(cls)

    def __init__(self, connection: socket.socket, number: int, generation: int, address: bytes, now_ns: int) -> None:
        super().__init__(connection.fileno(), number, generation, now_ns)
        self.socket = connection
        self.address = address
        self.port = 0  # the client's
        self.large_offset = -1  # arena offset of the large frame under way
        self.large_view: memoryview | None = None
        self.large_filled = 0

    def beginning(self, most: int) -> bytes:
        """The first bytes, at most so many, of the frame in hand (after its length), wherever it is kept."""
        view = self.large_view
        return bytes(view[: min(self.large_filled, most)]) if view is not None else self.peek(most + 4)[4:]

    def begin_large(self, offset: int, view: memoryview) -> None:
        """Move the unfinished frame from the buffer into `view`, the reserved arena bytes at `offset`."""
        self.large_filled = self.move_to(view)
        self.large_offset = offset
        self.large_view = view
        self.large = True

    def receive_large(self) -> bool:
        """Receive into the arena, at most 1 MiB a call. True when the frame is complete. Raises ConnectionLost."""
        view, filled = self.large_view, self.large_filled
        assert view is not None
        stop = min(len(view), filled + LARGE_BYTES_PER_TURN)
        while filled < stop:
            try:
                count = self.socket.recv_into(view[filled:stop])
            except BlockingIOError:
                self.readable = False
                break
            except OSError as error:
                raise ConnectionLost from error
            if count == 0:
                raise ConnectionLost
            filled += count
        self.large_filled = filled
        return filled == len(view)

    def end_large(self) -> int:
        """Forget the large frame and return its arena offset; the bytes are the caller's now."""
        offset = self.large_offset
        assert self.large_view is not None
        self.large_view.release()
        self.large_view = None
        self.large_offset = -1
        self.large = False
        return offset

    def progress_bytes(self) -> int:
        """Bytes of the unfinished frame that are here, wherever they are kept."""
        return self.large_filled if self.large_view is not None else self.buffered()
