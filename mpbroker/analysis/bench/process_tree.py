"""CPU time of a process with all its descendants, from /proc; and what machine this is. Linux only; reads, never
writes."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import NamedTuple

TICK_US = 1_000_000 // os.sysconf("SC_CLK_TCK")


class Usage(NamedTuple):
    """CPU microseconds of a tree so far, in user and kernel mode; dead children that were waited for are included."""

    user_us: int
    system_us: int

    @property
    def total_us(self) -> int:
        """User and kernel mode together."""
        return self.user_us + self.system_us

    def since(self, before: Usage) -> Usage:
        """What was used between two readings."""
        return Usage(self.user_us - before.user_us, self.system_us - before.system_us)


def tree(root: int) -> list[int]:
    """A process and all its live descendants."""
    children: dict[int, list[int]] = {}
    for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
        fields = _stat(pid)
        if fields:
            children.setdefault(int(fields[1]), []).append(pid)
    found, queue = [], [root]
    while queue:
        pid = queue.pop()
        found.append(pid)
        queue += children.get(pid, [])
    return found


def usage(root: int) -> Usage:
    """CPU time of the tree below `root`."""
    user = system = 0
    for pid in tree(root):
        fields = _stat(pid)
        if fields:
            user += int(fields[11]) + int(fields[13])
            system += int(fields[12]) + int(fields[14])
    return Usage(user * TICK_US, system * TICK_US)


def machine() -> dict[str, object]:
    """What a figure was measured on."""
    model = next(
        (
            line.partition(":")[2].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        platform.machine(),
    )
    memory_kib = int(Path("/proc/meminfo").read_text().split()[1])
    return {
        "cpu": model,
        "cores": len(os.sched_getaffinity(0)),
        "memory_mib": memory_kib // 1024,
        "kernel": platform.release(),
        "python": platform.python_version(),
        "load_average": os.getloadavg()[0],
    }


def _stat(pid: int) -> list[str] | None:
    """Fields of /proc/PID/stat from the state on."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
