"""The process table: who runs in which slot, in which state, waiting for what.

One row per slot on the named page. Its process writes the row, except `restarts`, `last_exit` and
`unsteady_since_ns` (supervisor); everybody, also `status` from outside, reads it. Times are nanoseconds of
CLOCK_MONOTONIC.
"""

import time
from enum import IntEnum
from typing import Final, NamedTuple

from mpbroker import _native
from mpbroker.shm.counters import counter_id
from mpbroker.shm.layout import PROCESS
from mpbroker.shm.troubles import Trouble
from mpbroker.shm.waits import WaitName, wait_name

__all__ = ["NEVER_DIED", "BrokerState", "ProcessInfo", "ProcessRow", "ProcessState", "WaitName", "unpack_process"]

NEVER_DIED: Final = 0xFFFFFFFF
NO_LISTENER: Final = 255


class BrokerState(IntEnum):
    """State of the whole broker, in the header of both segments."""

    STARTING = 0
    RUNNING = 1
    DRAINING = 2
    RESETTING = 3
    HANDING_OVER = 4


class ProcessState(IntEnum):
    """State of one slot."""

    EMPTY = 0
    STARTING = 1
    RECOVERING = 2
    RUNNING = 3
    STOPPING = 4
    DEAD = 5


class ProcessRow(_native.ProcessRow):
    """A process's own row, `ProcessRow(core, slot)`: `begin`, `beat`, `count`, and the fields as attributes."""

    def count(self, counter: int | str, n: int = 1) -> None:
        """Add to a counter, by id or by name (shm.counters); KeyError for an unknown name."""
        super().count(counter_id(counter) if isinstance(counter, str) else counter, n)

    def running(self) -> None:
        """Serving now."""
        self.set_state(ProcessState.RUNNING)

    def set_state(self, state: ProcessState) -> None:
        """Store the state; the heartbeat goes with it."""
        self.state = state
        self.beat()

    def set_trouble(self, trouble: Trouble, there: bool) -> None:
        """Say that something cannot be done although this process runs, or that it can again (shm.troubles)."""
        before = self.troubles
        after = before | trouble if there else before & ~trouble
        if after and not before:
            self.troubled_since_ns = time.monotonic_ns()
        self.troubles = after

    def set_wait(self, wait: WaitName) -> None:
        """Name what this process is about to wait for, NONE afterwards; the heartbeat goes with it."""
        self.wait = wait
        self.beat()


class ProcessInfo(NamedTuple):
    """A row as read from outside. `api_key` is None when no request is in hand; `listener` None when it has none."""

    slot: int
    pid: int
    incarnation: int
    role: int
    index: int  # type: ignore[assignment]  # hides tuple.index, which nobody calls
    listener: int | None
    state: ProcessState
    wait: str
    restarts: int
    last_exit: int | None
    heartbeat_ns: int
    entry: int | None
    api_key: int | None
    api_version: int | None
    request_since_ns: int
    busy_ns: int
    idle_ns: int
    connections: int
    troubles: int
    troubled_since_ns: int
    unsteady_since_ns: int


def unpack_process(slot: int, row: bytes | memoryview) -> ProcessInfo:
    """A 256-byte row as ProcessInfo."""
    (
        pid,
        incarnation,
        role,
        index,
        listener,
        _,
        state,
        wait,
        restarts,
        last_exit,
        _,
        heartbeat,
        request,
        since,
        busy,
        idle,
        connections,
        troubles,
        troubled_since,
        unsteady_since,
    ) = PROCESS.unpack_from(row)
    known = state in ProcessState._value2member_map_
    return ProcessInfo(
        slot,
        pid,
        incarnation,
        role,
        index,
        None if listener == NO_LISTENER else listener,
        ProcessState(state) if known else ProcessState.DEAD,
        wait_name(wait),
        restarts,
        None if last_exit == NEVER_DIED else last_exit,
        heartbeat,
        (request >> 32) - 1 if request else None,
        request >> 16 & 0xFFFF if request else None,
        request & 0xFFFF if request else None,
        since,
        busy,
        idle,
        connections,
        troubles,
        troubled_since,
        unsteady_since,
    )
