"""What the agent reports to the tracer: partitions whose role changed at this broker (trace/role_change.py). Controller
process of a broker of a cluster only.

A change is noted as soon as the new role is in force, and told when the request has been answered: nobody waits for
it. Bounded: what finds no room in the pipe, or is more than MAX_NOTED, is counted as a lost notice.
"""

import time
from collections.abc import Callable
from typing import Any, Final

from mpbroker.record.checksum import crc32c
from mpbroker.shm.cluster_table import NOBODY
from mpbroker.shm.counters import Counter
from mpbroker.trace.notice import NO_PROCESSOR, NoticeWriter, RoleChanged
from mpbroker.trace.role_change import NO_LEADER

MAX_NOTED: Final = 100_000
"""Between two times of telling."""


class RoleTrace:
    """`fd` -1: nothing is reported. `state_of(ordinal)`: Log.replica_state."""

    def __init__(self, fd: int, state_of: Callable[[int], Any], count: Callable[[Counter], object]) -> None:
        self._wanted = fd >= 0
        self._writer = NoticeWriter(fd, NO_PROCESSOR)
        self._state_of = state_of
        self._count = count
        self._noted: list[RoleChanged] = []

    def role_of(self, ordinal: int) -> int:
        """The role now, to be given to `changed`; nothing is looked up when nobody wants to know."""
        return int(self._state_of(ordinal).role) if self._wanted else 0

    def changed(self, topic: str, partition: int, ordinal: int, old_role: int, controller_epoch: int) -> None:
        """Another role, or the same in another leader epoch, is in force."""
        if not self._wanted:
            return
        now_ns, state = time.monotonic_ns(), self._state_of(ordinal)
        if len(self._noted) >= MAX_NOTED:
            self._count(Counter.TRACE_NOTICES_DROPPED)
            return
        leader = NO_LEADER if state.leader == NOBODY else state.leader
        self._noted.append(
            RoleChanged(
                t0_ns=now_ns,
                topic_hash=crc32c(topic.encode()),
                partition=partition,
                leader_epoch=max(0, state.leader_epoch),
                old_role=old_role,
                new_role=int(state.role),
                log_end=max(0, state.leo),
                high_watermark=max(0, state.hw),
                controller_epoch=max(0, controller_epoch),
                leader=leader,
            )
        )

    def tell(self) -> None:
        """Everything noted, to the tracer."""
        noted, self._noted = self._noted, []
        for one in noted:
            if not self._writer.tell(one):
                self._count(Counter.TRACE_NOTICES_DROPPED)
