"""CPU time and memory of a process with all its descendants, from /proc; and their end."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from mpbroker.analysis.bench.process_tree import Usage, machine, tree, usage

__all__ = ["Usage", "kill_tree", "machine", "named", "pss_kib", "scheduled_us", "scheduled_us_of", "tree", "usage"]


def kill_tree(root: int) -> None:
    """As `cluster kill` does it, without the time that a command takes to start."""
    for pid in tree(root):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def pss_kib(root: int) -> int:
    """Proportional set size of the tree, in KiB: shared pages are counted once over all who share them."""
    total = 0
    for pid in tree(root):
        try:
            text = Path(f"/proc/{pid}/smaps_rollup").read_text()
        except OSError:
            continue
        total += next((int(line.split()[1]) for line in text.splitlines() if line.startswith("Pss:")), 0)
    return total


def scheduled_us(root: int) -> float:
    """CPU time of the live processes of the tree by the scheduler's clock, in microseconds: `usage` counts ticks of
    10 ms in each of a dozen processes. What a process or a thread used that has ended is missing."""
    return scheduled_us_of(tree(root))


def scheduled_us_of(pids: Iterable[int]) -> float:
    """The same of these processes alone."""
    return sum(_scheduled_ns(pid) for pid in pids) / 1000


def named(root: int, *words: str) -> list[int]:
    """Processes of the tree whose command line has one of the words."""
    return [pid for pid in tree(root) if any(word in _command_line(pid) for word in words)]


def _command_line(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""


def _scheduled_ns(pid: int) -> int:
    try:
        return sum(int((task / "schedstat").read_text().split()[0]) for task in Path(f"/proc/{pid}/task").iterdir())
    except OSError:
        return 0
