"""The tracer's end of the notice pipe: connections become records of kind 1 and 2, roles of kind 8, and names become
rows of the dictionary.

State of the tracer alone. What it read and had not written when it was killed is lost: at most what came within one
turn.
"""

import os
from collections.abc import Callable

from mpbroker.trace import notice, record
from mpbroker.trace.dictionary_writer import DictionaryWriter
from mpbroker.trace.notice import (
    ClientNamed,
    CloseReason,
    ConnectionClosed,
    ConnectionOpened,
    NoticesLost,
    ProcessorBegan,
    RoleChanged,
    SoftwareNamed,
)
from mpbroker.trace.record import TraceRecord
from mpbroker.trace.role_change import NO_LEADER, RoleChange

READ_BYTES = 65536
MAX_READS = 32  # a turn takes at most twice what the pipe holds
MAX_OPEN = 65536


class NoticeIntake:
    """`add_event(processor, record)` puts a record into the segments of a processor's lane. `junk`: lines that were no
    notice."""

    def __init__(self, fd: int, names: DictionaryWriter, add_event: Callable[[int, bytes], None]) -> None:
        self.junk = 0
        self._fd = fd
        self._names = names
        self._add_event = add_event
        self._rest = b""
        self._open: dict[int, ConnectionOpened] = {}

    def take(self) -> int:
        """Reads every notice written since the last call; returns the number of lines. Never waits."""
        taken = 0
        for _ in range(MAX_READS if self._fd >= 0 else 0):
            try:
                piece = os.read(self._fd, READ_BYTES)
            except BlockingIOError:
                break
            if not piece:
                break  # every writer is gone
            *lines, self._rest = (self._rest + piece).split(b"\n")
            if len(self._rest) > notice.PIPE_BUF:
                self._rest = b""
                self.junk += 1
            for line in lines:
                self._take_line(line)
            taken += len(lines)
        return taken

    def _take_line(self, line: bytes) -> None:
        received = notice.decode(line)
        match received:
            case ProcessorBegan():
                self._began(received)
            case ConnectionOpened():
                self._opened(received)
            case ConnectionClosed():
                self._closed(received)
            case ClientNamed():
                self._names.client(received.client_hash, received.name)
            case SoftwareNamed():
                self._names.software(*received)
            case RoleChanged():
                self._role_changed(received)
            case NoticesLost():
                self._names.lose_notices(received.count)
            case None:
                self.junk += 1  # the end of a line whose beginning a killed tracer took with it, for example

    def _began(self, received: ProcessorBegan) -> None:
        """Connections that its predecessor had when it died ended with it, without a notice."""
        for one in [one for one in self._open.values() if one.processor == received.processor]:
            self._closed(
                ConnectionClosed(received.t0_ns, one.conn_id, one.processor, one.listener, 0, CloseReason.DIED)
            )

    def _role_changed(self, received: RoleChanged) -> None:
        leader = None if received.leader == NO_LEADER else received.leader
        self._add_event(notice.NO_PROCESSOR, RoleChange(*received[:-1], leader).pack(0))

    def _opened(self, received: ConnectionOpened) -> None:
        if len(self._open) >= MAX_OPEN:
            del self._open[next(iter(self._open))]
        self._open[received.conn_id] = received
        self._names.connection(received.conn_id, received.processor, received.peer, received.listener, received.t0_ns)
        self._add_event(
            received.processor,
            TraceRecord(
                t0_ns=received.t0_ns,
                kind=record.CONNECTION_OPEN,
                conn_id=received.conn_id,
                listener=received.listener,
                proc_id=received.processor,
            ).pack(),
        )

    def _closed(self, received: ConnectionClosed) -> None:
        self._open.pop(received.conn_id, None)
        self._add_event(
            received.processor,
            TraceRecord(
                t0_ns=received.t0_ns,
                kind=record.CONNECTION_CLOSE,
                conn_id=received.conn_id,
                listener=received.listener,
                proc_id=received.processor,
                error=received.reason,
                aux=min(received.requests, 0xFFFFFFFF),
            ).pack(),
        )
