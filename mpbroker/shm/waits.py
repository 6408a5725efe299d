"""Every wait of every process by number, name and one sentence; what `status` shows in the column `wait`.

Any process stores the number in its own row of the process table before it blocks, and 0 afterwards. The first ones
are native/shm/waits.h's: the C core stores those itself. Every wait also ends when the supervisor dies: the kernel then
kills all workers (PDEATHSIG), the tracer after it has unlinked the names in /dev/shm.
"""

from enum import IntEnum
from typing import Final


class WaitName(IntEnum):
    """Value of the `wait` field."""

    NONE = 0
    REQUEST = 1
    CONTROL_REQUEST = 2
    COMMAND = 3
    SERVICE = 4
    HANDED = 5
    EPOLL = 16
    ACCEPT = 17
    SUPERVISE = 18
    METASTORE = 19
    FSYNC = 20
    TRACE_FLUSH = 21
    LOCK = 22
    DRAIN = 23
    SUCCESSOR_DELAY = 24


SENTENCES: Final = {
    WaitName.NONE: "Working.",
    WaitName.REQUEST: "A handler sleeps until a request is queued, a partition it watches moves, or 300 ms pass.",
    WaitName.CONTROL_REQUEST: "A reserved handler sleeps until a request of the control plane is queued.",
    WaitName.COMMAND: "The controller sleeps until a handler sends a command.",
    WaitName.SERVICE: "A single process sleeps until it is rung or its period ends.",
    WaitName.HANDED: "The coordinator sleeps until a request is handed over to it, or a deadline passes.",
    WaitName.EPOLL: "A processor sleeps until a socket, an answer or a new connection is ready.",
    WaitName.ACCEPT: "The acceptor sleeps until a connection arrives.",
    WaitName.SUPERVISE: "The supervisor sleeps until a process ends or a signal arrives.",
    WaitName.METASTORE: "The controller waits for its store to commit.",
    WaitName.FSYNC: "The log keeper waits for the disk.",
    WaitName.TRACE_FLUSH: "The tracer sleeps until the next drain of the lanes.",
    WaitName.LOCK: "A process waits for a partition's lock, at most 1 s at a time.",
    WaitName.DRAIN: "Requests in hand are finished before the end.",
    WaitName.SUCCESSOR_DELAY: "The slot is empty: its processes die too quickly, the next fork is delayed.",
}


def wait_name(number: int) -> str:
    """`control-request` for 2; an undeclared number reads `wait-<number>`."""
    try:
        return WaitName(number).name.lower().replace("_", "-")
    except ValueError:
        return f"wait-{number}"
