"""A memory limit for a broker's processes: a control group of its own below ours, of version 2 or 1.

    with memory_limit(220 << 20) as group:
        Broker(directory, prefix=group.prefix)
        group.oom_kills()

Processes enter it before they are executed, so that everything they touch is charged to it, as in a container.
"""

from __future__ import annotations

import contextlib
import os
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")
LIMITS = {"memory.max": "memory.events", "memory.limit_in_bytes": "memory.oom_control"}  # where kills are counted
PATIENCE_S = 5.0


class NoGroup(Exception):
    """No control group with a memory limit can be made here; the sentence says why."""


class MemoryGroup:
    """One control group. `prefix`: words before a command that make it a member."""

    def __init__(self, path: Path, limit_bytes: int) -> None:
        self.path = path
        self._limit = next((name for name in LIMITS if (path / name).exists()), "")
        if not self._limit:
            raise NoGroup(f"{path} has no memory controller")
        (path / self._limit).write_text(str(limit_bytes))
        self.prefix = ("/bin/sh", "-c", f'echo $$ > "{path}/cgroup.procs" && exec "$@"', "sh")

    def oom_kills(self) -> int:
        """Processes of the group that the kernel killed for want of memory."""
        lines = (self.path / LIMITS[self._limit]).read_text().splitlines()
        return sum(int(line.split()[1]) for line in lines if line.startswith("oom_kill "))

    def used_bytes(self) -> int:
        """Charged now, page cache included."""
        name = "memory.current" if self._limit == "memory.max" else "memory.usage_in_bytes"
        return int((self.path / name).read_text())


@contextlib.contextmanager
def memory_limit(limit_bytes: int) -> Iterator[MemoryGroup]:
    """A group, gone in the end. NoGroup where none can be made."""
    path = _make()
    try:
        yield MemoryGroup(path, limit_bytes)
    finally:
        _remove(path)


def _make() -> Path:
    """A group below ours, in whichever hierarchy has a memory controller."""
    why = "there are no control groups"
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        number, controllers, group = line.split(":", 2)
        if number != "0" and "memory" not in controllers.split(","):
            continue
        for root in (ROOT,) if number == "0" else (ROOT / "memory",):
            path = root / group.lstrip("/") / f"mpbroker-{os.getpid()}-{uuid.uuid4().hex[:8]}"
            try:
                path.mkdir()
            except OSError as error:
                why = f"{path} cannot be made: {error.strerror}"
                continue
            if any((path / name).exists() for name in LIMITS):
                return path
            path.rmdir()
            why = f"{path.parent} passes no memory controller on"
    raise NoGroup(why)


def _remove(path: Path) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            path.rmdir()
            return
        except OSError:  # the last process is still going
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)
