"""What a test session left behind that is its own: processes and names in /dev/shm.

A process is ours if it descends from this one or holds a file below the session's temporary directory (a broker's every
process but the tracer inherits the lock of its data directory). A name is ours if it belongs to a data directory below
it, or carries this process's number. Ports need no look of their own: a process would hold them.
"""

import os
from pathlib import Path

import psutil

from mpbroker.shm.segment import name_prefix
from tests.harness.broker import SHM

#: Names in /dev/shm that were there when their test ended: its directory, by which they are known as ours, is gone.
of_gone_tests: set[str] = set()


def left_processes(base: Path) -> list[str]:
    """Processes of the session that should be gone."""
    mine = psutil.Process()
    children = {child.pid for child in mine.children(recursive=True)}
    found = []
    for process in psutil.process_iter():
        if process.pid != mine.pid and (process.pid in children or _holds_a_file_below(base, process.pid)):
            try:
                if process.status() != psutil.STATUS_ZOMBIE:
                    found.append(f"{process.pid} {' '.join(process.cmdline())}")
            except psutil.NoSuchProcess:
                pass
    return found


def _holds_a_file_below(base: Path, pid: int) -> bool:
    directory = f"/proc/{pid}/fd"
    try:
        return any(os.readlink(f"{directory}/{number}").startswith(f"{base}/") for number in os.listdir(directory))
    except OSError:  # gone meanwhile, or somebody else's
        return False


def left_names(base: Path) -> list[str]:
    """Names in /dev/shm that the session's brokers and tests made."""
    names = [name for name in os.listdir(SHM) if name.startswith("mpbroker-")]
    if not names:
        return []
    ours = {name_prefix(directory).lstrip("/") for directory in _directories(base)}
    return sorted(name for name in names if name.startswith(tuple(ours)) or f"-{os.getpid()}-" in name)


def still_left() -> list[str]:
    """Of the names in `of_gone_tests`, those that are there now."""
    return sorted(name for name in of_gone_tests if (SHM / name).exists())


def _directories(base: Path) -> list[str]:
    return [str(base), *(directory for directory, _, _ in os.walk(base))]
