"""A process that holds the lock of an owner of sessions, as a broker's supervisor does, for tests of shared stores."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from mpbroker.metadata.session_files import OwnerLock


def begin_owner(store: Path, owner: str) -> int:
    """Its pid; it holds the lock by the time this returns."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            OwnerLock(store, owner)
            os.write(writing, b"!")
            signal.pause()
        finally:
            os._exit(0)
    os.close(writing)
    held = os.read(reading, 1)
    os.close(reading)
    assert held, f"the lock of {owner} is held by another process"
    return pid


def end_owner(pid: int) -> None:
    """As kill -9 does."""
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


@contextmanager
def living_owner(store: Path, owner: str) -> Iterator[int]:
    """The owner lives inside, unless it is ended."""
    pid = begin_owner(store, owner)
    try:
        yield pid
    finally:
        with suppress(ProcessLookupError, ChildProcessError):
            end_owner(pid)
