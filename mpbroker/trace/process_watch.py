"""Notices, from the process table, which processes began and died; the tracer's own state."""

from collections.abc import Iterable

from mpbroker.shm.process_table import ProcessInfo
from mpbroker.trace.process_event import DIED, STARTED, ProcessEvent


class ProcessWatch:
    """`events` compares the table with what it was at the last call.

    A tracer's first look reports every process that runs, and the last death of each slot, although a predecessor may
    have reported them: the same death has the same slot and `restarts`, the same start the same slot and incarnation.
    """

    def __init__(self) -> None:
        self._known: dict[int, tuple[int, int, int]] = {}  # slot → pid, incarnation, restarts

    @property
    def has_looked(self) -> bool:
        """False until the first look, which also sees what a predecessor saw."""
        return bool(self._known)

    def events(self, rows: Iterable[ProcessInfo], now_ns: int) -> list[ProcessEvent]:
        """What is new, deaths before the starts of their successors."""
        found = []
        for row in rows:
            pid, incarnation, restarts = self._known.get(row.slot, (0, 0, 0))
            if row.restarts > restarts:
                found.append(_event(row, DIED, now_ns, pid, incarnation))
            if row.pid and (row.pid, row.incarnation) != (pid, incarnation):
                found.append(_event(row, STARTED, now_ns, row.pid, row.incarnation))
                pid, incarnation = row.pid, row.incarnation
            self._known[row.slot] = (pid, incarnation, row.restarts)
        return found


def _event(row: ProcessInfo, event: int, now_ns: int, pid: int, incarnation: int) -> ProcessEvent:
    return ProcessEvent(
        now_ns, event, row.slot, row.role, row.index, pid, incarnation, row.last_exit, row.restarts, row.listener
    )
