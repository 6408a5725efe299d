"""Reads ring depths and what each process used of its core; the tracer's own state.

Processor time is that of all threads of a process; the wait for a core is its first thread's, as /proc/<pid>/schedstat
has it.
"""

import os
import time
from collections.abc import Iterable

from mpbroker.shm.page_view import RingInfo
from mpbroker.shm.process_table import ProcessInfo, ProcessState
from mpbroker.trace.gauge import Gauge, ProcessGauge, RingGauge

_SCHEDSTAT_BYTES = 80


class GaugeSampler:
    """Keeps a descriptor of each process's schedstat open: reading it costs a tenth of opening it."""

    def __init__(self) -> None:
        self._schedstats: dict[int, tuple[int, int]] = {}  # slot → pid, descriptor (-1: the system has none)

    def sample(self, now_ns: int, processes: Iterable[ProcessInfo], rings: Iterable[RingInfo]) -> list[Gauge]:
        """All gauges of this moment; processes that just ended are left out."""
        gauges: list[Gauge] = [RingGauge(now_ns, ring.number, ring.depth, ring.capacity, ring.peak) for ring in rings]
        for row in processes:
            if row.pid and row.state not in (ProcessState.DEAD, ProcessState.EMPTY):
                one = self._process(row, now_ns)
                if one is not None:
                    gauges.append(one)
        return gauges

    def close(self) -> None:
        """Give the descriptors back."""
        for slot in list(self._schedstats):
            self._forget(slot)

    def _process(self, row: ProcessInfo, now_ns: int) -> ProcessGauge | None:
        try:
            cpu_ns = time.clock_gettime_ns(_cpu_clock(row.pid))
        except OSError:
            self._forget(row.slot)
            return None
        return ProcessGauge(
            now_ns, row.slot, cpu_ns, self._runqueue_wait_ns(row), row.pid, row.role, row.index, row.incarnation
        )

    def _runqueue_wait_ns(self, row: ProcessInfo) -> int | None:
        pid, file = self._schedstats.get(row.slot, (0, -1))
        if pid != row.pid:
            self._forget(row.slot)
            file = _open_schedstat(row.pid)
            self._schedstats[row.slot] = (row.pid, file)
        if file < 0:
            return None
        try:
            return int(os.pread(file, _SCHEDSTAT_BYTES, 0).split()[1])
        except (OSError, ValueError, IndexError):
            return None

    def _forget(self, slot: int) -> None:
        _, file = self._schedstats.pop(slot, (0, -1))
        if file >= 0:
            os.close(file)


def _cpu_clock(pid: int) -> int:
    """The clock of a process's processor time, as clock_getcpuclockid(3) makes it."""
    return ~pid << 3 | 2


def _open_schedstat(pid: int) -> int:
    try:
        return os.open(f"/proc/{pid}/schedstat", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return -1
