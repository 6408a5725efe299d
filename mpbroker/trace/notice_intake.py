"""The tracer's end of the notice pipe: connections become records of kind 1 and 2 and names become rows of the
dictionary.

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
    SoftwareNamed,
)
from mpbroker.trace.record import TraceRecord

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
        """Everything that was told since the last call; returns the number of lines. Never waits."""
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
        told = notice.decode(line)
        match told:
            case ProcessorBegan():
                self._began(told)
            case ConnectionOpened():
                self._opened(told)
            case ConnectionClosed():
                self._closed(told)
            case ClientNamed():
                self._names.client(told.client_hash, told.name)
            case SoftwareNamed():
                self._names.software(*told)
            case NoticesLost():
                self._names.lose_notices(told.count)
            case None:
                self.junk += 1  # the end of a line whose beginning a killed tracer took with it, for example

    def _began(self, told: ProcessorBegan) -> None:
        """Connections that its predecessor had when it died ended with it, and nobody told of them."""
        for one in [one for one in self._open.values() if one.processor == told.processor]:
            self._closed(ConnectionClosed(told.t0_ns, one.conn_id, one.processor, one.listener, 0, CloseReason.DIED))

    def _opened(self, told: ConnectionOpened) -> None:
        if len(self._open) >= MAX_OPEN:
            del self._open[next(iter(self._open))]
        self._open[told.conn_id] = told
        self._names.connection(told.conn_id, told.processor, told.peer, told.listener, told.t0_ns)
        self._add_event(
            told.processor,
            TraceRecord(
                t0_ns=told.t0_ns,
                kind=record.CONNECTION_OPEN,
                conn_id=told.conn_id,
                listener=told.listener,
                proc_id=told.processor,
            ).pack(),
        )

    def _closed(self, told: ConnectionClosed) -> None:
        self._open.pop(told.conn_id, None)
        self._add_event(
            told.processor,
            TraceRecord(
                t0_ns=told.t0_ns,
                kind=record.CONNECTION_CLOSE,
                conn_id=told.conn_id,
                listener=told.listener,
                proc_id=told.processor,
                error=told.reason,
                aux=min(told.requests, 0xFFFFFFFF),
            ).pack(),
        )
