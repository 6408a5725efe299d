"""A process of the broker began, or died or ended: its form as a record of kind 7. Pure; the tracer writes it, anybody
reads.

Beside t0_ns (when the tracer saw it, up to a fifth of a second late): handler_id slot, conn_id incarnation, aux pid. At
the place of the stages six u64: event, role, index, wait status, restarts, listener. A process that died has
the incarnation and pid of the one that died, if the tracer knew them (else 0), and with the slot's last wait status.
"""

import os
import struct
from typing import NamedTuple

from mpbroker.trace import record

STARTED, DIED = 1, 2
EVENT_NAMES = {STARTED: "started", DIED: "died"}
ROLE_NAMES = {
    0: "supervisor",
    1: "acceptor",
    2: "processor",
    3: "handler",
    4: "controller",
    5: "log-keeper",
    6: "tracer",
    7: "coordinator",
    8: "admin",
    9: "cluster-controller",
    10: "fetcher",
}
NO_STATUS = 0xFFFFFFFF
NO_LISTENER = 255
VALUES = struct.Struct("<6Q")
VALUES_OFFSET = record.layout()["stage"][0]


class ProcessEvent(NamedTuple):
    """`restarts` counts the deaths of the slot so far: a step of more than one means deaths not seen one by one.

    wait_status is wait(2)'s; None when the slot never lost a process. listener is None where the role has none.
    """

    t0_ns: int
    event: int
    slot: int
    role: int
    index: int  # type: ignore[assignment]  # hides tuple.index, which nobody calls
    pid: int
    incarnation: int
    wait_status: int | None
    restarts: int
    listener: int | None

    @property
    def name(self) -> str:
        """As logs name a process: role and index."""
        return f"{ROLE_NAMES.get(self.role, self.role)} {self.index}"

    @property
    def exit_text(self) -> str | None:
        """`signal 9` or `exit 1`; None for a start."""
        if self.event != DIED or self.wait_status is None:
            return None
        if os.WIFSIGNALED(self.wait_status):
            return f"signal {os.WTERMSIG(self.wait_status)}"
        return f"exit {os.WEXITSTATUS(self.wait_status)}"

    def pack(self, processor: int) -> bytes:
        """The record, for the segments of a processor's lane."""
        data = bytearray(
            record.TraceRecord(
                t0_ns=self.t0_ns,
                kind=record.PROCESS_EVENT,
                aux=self.pid,
                conn_id=self.incarnation,
                handler_id=self.slot,
                proc_id=processor,
            ).pack()
        )
        status = NO_STATUS if self.wait_status is None else self.wait_status
        VALUES.pack_into(
            data,
            VALUES_OFFSET,
            self.event,
            self.role,
            self.index,
            status,
            self.restarts,
            NO_LISTENER if self.listener is None else self.listener,
        )
        return bytes(data)


def unpack(data: bytes | memoryview, offset: int = 0) -> ProcessEvent:
    """The event in a record of kind 7."""
    one = record.unpack(data, offset)
    event, role, index, status, restarts, listener = VALUES.unpack_from(data, offset + VALUES_OFFSET)
    return ProcessEvent(
        one.t0_ns,
        event,
        one.handler_id,
        role,
        index,
        one.aux,
        one.conn_id,
        None if status == NO_STATUS else status,
        restarts,
        None if listener == NO_LISTENER else listener,
    )
