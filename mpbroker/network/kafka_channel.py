"""One client connection: framing, what is buffered, what is being sent; lives in one processor, which alone touches it.

Frames are a 4-byte big-endian length and so many bytes. Received bytes stay in `buffer` from `position` on; small frames
are cut out of it, a large one is received straight into the shared arena once enough of it has really arrived, so that an
announced length alone reserves nothing. Reads are edge-triggered: `readable` remembers that the kernel may have more.
"""

import socket
import struct
from time import monotonic_ns
from typing import Final

from mpbroker.network.mute_state import MuteState

RECEIVE_BYTES: Final = 65536  # more per call makes the allocator map and unmap memory every time
SMALL_FRAME_BYTES: Final = 16384  # up to here a frame is copied, above it goes straight into the arena
ARRIVED_BEFORE_RESERVE_BYTES: Final = 1 << 20
LARGE_BYTES_PER_TURN: Final = 1 << 20  # so that one sender of large frames does not hold up the others
MIN_FRAME_BYTES: Final = 8  # api key, version, correlation id: no request header is shorter

unpack_length = struct.Struct(">i").unpack_from


class InvalidReceive(Exception):
    """A frame nobody can take: its length is negative, too short for a header, or above socket.request.max.bytes."""


class ConnectionLost(Exception):
    """The other end closed or reset the connection."""


class KafkaChannel:
    """State of one connection. `number` and `generation` name it in request entries; `address` is 16 bytes."""

    __slots__ = ("socket", "fd", "number", "generation", "address", "buffer", "position", "readable",
                 "hung_up", "mute_state", "last_active_ns", "first_ns", "later_ns", "frame_started_ns",
                 "frame_bytes_seen", "large_offset", "large_view", "large_filled", "held", "out_view",
                 "out_entries", "out_count", "out_started_ns", "unmute_after_send", "close_after_send", "refused_frame", "scheduled", "closed")

    def __init__(self, connection: socket.socket, number: int, generation: int, address: bytes, now_ns: int) -> None:
        self.socket = connection
        self.fd = connection.fileno()
        self.number = number
        self.generation = generation
        self.address = address
        self.buffer = b""
        self.position = 0
        self.readable = True
        self.hung_up = False
        self.mute_state = MuteState.NOT_MUTED
        self.last_active_ns = now_ns
        self.first_ns = now_ns  # when the first byte of the next frame was received ...
        self.later_ns = now_ns  # ... and that of the frames behind it
        self.frame_started_ns = 0  # when the frame under way last brought a fair share of bytes; 0: none under way
        self.frame_bytes_seen = 0
        self.large_offset = -1  # arena offset of the large frame under way
        self.large_view: memoryview | None = None
        self.large_filled = 0
        self.held: list[bytes | memoryview] = []  # answers not offered to the kernel yet
        self.out_view: memoryview | None = None  # what the kernel did not take yet of the answers under way
        self.out_entries: list[int] = []  # entries of the answers under way, then of those held
        self.out_count = 0  # how many are under way
        self.out_started_ns = 0
        self.unmute_after_send = False  # its request is answered; it is read again when the kernel has taken the answer
        self.close_after_send = False
        self.refused_frame: bytes | None = None  # a frame that waits because the request queue is full
        self.scheduled = False  # stands in the processor's list of connections to read
        self.closed = False

    def receive(self) -> None:
        """One receive into the buffer. Raises ConnectionLost at end of stream or on an error of the socket."""
        try:
            data = self.socket.recv(RECEIVE_BYTES)
        except BlockingIOError:
            self.readable = False
            return
        except OSError as error:
            raise ConnectionLost from error
        if not data:
            raise ConnectionLost
        if len(data) < RECEIVE_BYTES and not self.hung_up:
            self.readable = False  # edge-triggered: a short read empties the socket, the next byte makes a new event
        now_ns = self.later_ns = monotonic_ns()
        if self.position == len(self.buffer):
            self.buffer = data
            self.first_ns = now_ns
        else:
            self.buffer = self.buffer[self.position :] + data
        self.position = 0

    def buffered(self) -> int:
        """Bytes received and not yet taken."""
        return len(self.buffer) - self.position

    def has_frame(self) -> bool:
        """Whether the next frame is in the buffer, or one that will be refused."""
        have = len(self.buffer) - self.position - 4
        return have >= 0 and unpack_length(self.buffer, self.position)[0] <= have

    def take_frame(self, max_bytes: int) -> bytes | None:
        """The next whole frame without its length, None when it is not all here. Raises InvalidReceive."""
        buffer = self.buffer
        start = self.position + 4
        have = len(buffer) - start
        if have < 0:
            return None
        (length,) = unpack_length(buffer, start - 4)
        if length > have:
            check_length(length, max_bytes)
            return None
        check_length(length, max_bytes)
        end = start + length
        if have == length:
            self.buffer = b""
            self.position = 0
        else:
            self.position = end
        return buffer[start:end]

    def wants_arena_bytes(self) -> int:
        """Length of the unfinished frame in the buffer if it should now move to the arena, else 0.

        Up to 1 MiB, an eighth of the frame must have arrived first: an announced length reserves at most eight times
        (for the largest frames a hundred times) what the client really sent.
        """
        have = len(self.buffer) - self.position - 4
        if have < 0:
            return 0
        (length,) = unpack_length(self.buffer, self.position)
        if length <= SMALL_FRAME_BYTES or have < min(length >> 3, ARRIVED_BEFORE_RESERVE_BYTES):
            return 0
        return length

    def begin_large(self, offset: int, view: memoryview) -> None:
        """Move the unfinished frame from the buffer into `view`, the reserved arena bytes at `offset`."""
        have = len(self.buffer) - self.position - 4
        view[:have] = self.buffer[self.position + 4 :]
        self.buffer = b""
        self.position = 0
        self.large_offset = offset
        self.large_view = view
        self.large_filled = have

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
        return offset

    def send(self, view: bytes | memoryview) -> int:
        """Send what the kernel takes now; bytes taken. Raises ConnectionLost."""
        try:
            return self.socket.send(view, socket.MSG_NOSIGNAL)
        except BlockingIOError:
            return 0
        except OSError as error:
            raise ConnectionLost from error

    def progress_bytes(self) -> int:
        """Bytes of the unfinished frame that are here, wherever they are kept."""
        return self.large_filled if self.large_view is not None else self.buffered()


def check_length(length: int, max_bytes: int) -> None:
    """Raise InvalidReceive for a frame length nobody may send."""
    if length < MIN_FRAME_BYTES or length > max_bytes:
        raise InvalidReceive(f"frame of {length} bytes; allowed are {MIN_FRAME_BYTES} to {max_bytes}")
