"""One connection of a load generator: sends a prepared frame again and again, matches answers to requests.

Owned by one generator process. Nothing blocks: what the socket does not take waits in `unsent`, and nothing more is
sent until it is gone. Answers come in the order of requests (Kafka's rule), so a queue is all the bookkeeping there is.
"""

from __future__ import annotations

import socket
import struct
import time
from collections import deque

from mpbroker.analysis.lab.client_log import NEVER, ClientLog
from mpbroker.analysis.lab.schedule import ClosedLoop, OpenLoop
from mpbroker.client.prepared_request import CORRELATION_ID, CORRELATION_ID_AT, PreparedRequest

RECEIVE_BYTES = 1 << 18
READ_PAUSE_S = 0.05  # of a slow reader, about
ANSWER_BYTES_MAX = 64 * 1024 * 1024
_HEAD = struct.Struct(">ii")
_ERROR = struct.Struct(">h")
CONNECT_TIMEOUT_S = 20.0
SO_TIMESTAMPNS = 35  # Linux on most machines; Python's socket module does not name it
_TIMESPEC = struct.Struct("=qq")
_STAMP_SPACE = socket.CMSG_SPACE(_TIMESPEC.size)


class LoadConnection:
    """`schedule` says when the next request is due; at most `in_flight_most` wait for their answers at a time, at most
    `requests_most` (0: any number) are sent at all; of answers `read_bytes_per_s` (0: what comes) are read. A
    slot is free again when its answer arrived, not when it was read."""

    def __init__(
        self,
        number: int,
        address: tuple[str, int],
        request: PreparedRequest,
        in_flight_most: int,
        first_corr_id: int,
        log: ClientLog,
        requests_most: int = 0,
        read_bytes_per_s: int = 0,
    ) -> None:
        self.number = number
        self.schedule: OpenLoop | ClosedLoop  # set when the load begins
        self.socket = socket.create_connection(address, timeout=CONNECT_TIMEOUT_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        self.reads_again_ns = 0  # a slow reader leaves answers in the socket until then
        self._read_rate, self._read_most = read_bytes_per_s, RECEIVE_BYTES
        if read_bytes_per_s:
            self._read_most = max(1, min(RECEIVE_BYTES, round(read_bytes_per_s * READ_PAUSE_S)))
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self._read_most)
        self.socket.setblocking(False)
        self.local_port = self.socket.getsockname()[1]
        self.unsent: memoryview | None = None
        self.closed = False
        self.sent = self.answered = 0
        self._in_flight: deque[tuple[int, int, int, int]] = deque()
        self._slots: deque[int] = deque([0] * in_flight_most)  # since when each free place in flight is free
        self._socket_free_ns = 0
        self._requests_most = requests_most or 1 << 62
        self._frame, self._error_at = bytearray(request.frame), request.error_at
        self._next_corr_id = first_corr_id
        self._buffer, self._filled = bytearray(RECEIVE_BYTES), 0
        self._log = log

    @property
    def waiting(self) -> int:
        """Requests sent and not answered."""
        return len(self._in_flight)

    @property
    def rests(self) -> bool:
        """Whether a slow reader leaves answers in the socket now."""
        return self.reads_again_ns > 0 and not self.closed

    def may_send(self) -> bool:
        """Whether another request may be put in flight now."""
        return bool(self._slots) and self.unsent is None and not self.done and not self.closed

    @property
    def done(self) -> bool:
        """Whether it has sent all that it may."""
        return self.sent >= self._requests_most

    @property
    def free_since_ns(self) -> int:
        """Since when the next request may go: the arrival of the answer that made room, or the socket's."""
        return max(self._slots[0], self._socket_free_ns)

    def send(self, intended_ns: int) -> None:
        """Put one request in flight (as far as the socket takes it)."""
        corr_id = self._next_corr_id
        self._next_corr_id += 1
        frame = self._frame_of(corr_id)
        ready_ns = max(intended_ns, self.free_since_ns)
        self._slots.popleft()
        self._in_flight.append((corr_id, intended_ns, ready_ns, time.monotonic_ns()))
        self.sent += 1
        self._push(frame, copy=True)

    def _frame_of(self, corr_id: int) -> memoryview:
        CORRELATION_ID.pack_into(self._frame, CORRELATION_ID_AT, corr_id)
        return memoryview(self._frame)

    def flush(self) -> None:
        """The socket takes bytes again."""
        if self.unsent is not None:
            self._push(self.unsent, copy=False)
            self._socket_free_ns = time.monotonic_ns()

    def _push(self, data: memoryview, copy: bool) -> None:
        try:
            count = self.socket.send(data)
        except BlockingIOError:
            count = 0
        except OSError:
            self.closed = True
            return
        rest = data[count:]
        self.unsent = None if not rest else memoryview(bytes(rest)) if copy else rest

    def receive(self) -> int:
        """Take what has come; how many requests were answered by it."""
        room = memoryview(self._buffer)[self._filled : self._filled + self._read_most]
        ancillary: list[tuple[int, int, bytes]] = []
        try:
            count, ancillary, _, _ = self.socket.recvmsg_into([room], _STAMP_SPACE)
        except BlockingIOError:
            return 0
        except OSError:
            count = 0
        finally:
            room.release()
        if not count:
            self.closed = True
            return 0
        now_ns = time.monotonic_ns()
        self._filled += count
        if self._read_rate:
            self.reads_again_ns = now_ns + round(count * 1e9 / self._read_rate)
        return self._take_answers(_arrival_ns(ancillary, now_ns), now_ns)

    def _take_answers(self, arrived_ns: int, now_ns: int) -> int:
        at = taken = 0
        while self._filled - at >= _HEAD.size:
            length, corr_id = _HEAD.unpack_from(self._buffer, at)
            end = at + 4 + length
            if not 4 <= length <= ANSWER_BYTES_MAX:
                self.closed = True
                return taken
            if end > self._filled:
                self._make_room(end - at)
                break
            self._answer(corr_id, at, end, arrived_ns, now_ns)
            at, taken = end, taken + 1
        if at:
            rest = self._filled - at
            self._buffer[:rest] = self._buffer[at : self._filled]
            self._filled = rest
        return taken

    def _make_room(self, needed: int) -> None:
        if needed > len(self._buffer):
            self._buffer.extend(bytes(needed - len(self._buffer)))

    def _error_of(self, answer: memoryview) -> int:
        return int(_ERROR.unpack_from(answer, self._error_at)[0]) if self._error_at is not None else 0

    def _answer(self, corr_id: int, at: int, end: int, arrived_ns: int, now_ns: int) -> None:
        self._slots.append(now_ns if arrived_ns == NEVER else arrived_ns)
        expected, intended_ns, ready_ns, sent_ns = self._in_flight.popleft()
        if corr_id != expected:
            raise RuntimeError(f"answer {corr_id} came for request {expected}")
        with memoryview(self._buffer) as whole, whole[at:end] as answer:
            error = self._error_of(answer)
        self.answered += 1
        self._log.add(self.number, corr_id, error, intended_ns, ready_ns, sent_ns, arrived_ns, now_ns)

    def give_up(self) -> int:
        """Write down what was never answered; how many those are."""
        left = len(self._in_flight)
        for corr_id, intended_ns, ready_ns, sent_ns in self._in_flight:
            self._log.add(self.number, corr_id, 0, intended_ns, ready_ns, sent_ns, NEVER, NEVER)
        self._in_flight.clear()
        return left

    def close(self) -> None:
        """Close the socket."""
        self.socket.close()


def _arrival_ns(ancillary: list[tuple[int, int, bytes]], now_ns: int) -> int:
    """The kernel's receive time on the monotonic clock, NEVER when there is none; the clocks are compared now."""
    if not ancillary:
        return NEVER
    seconds, nanoseconds = _TIMESPEC.unpack(ancillary[0][2][: _TIMESPEC.size])
    arrival_ns: int = seconds * 1_000_000_000 + nanoseconds - time.time_ns() + time.monotonic_ns()
    return min(now_ns, arrival_ns)
