"""Commands of handlers for a process that waits for other things too: a thread takes them off the command table and
makes
a descriptor readable. Controller process of a broker of a cluster, and the cluster's controller.

The thread does nothing but wait: commands are executed and answered by the process's main thread, in their order. A
command that is taken and not answered when the process dies is put back for its successor.
"""

import os
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Final, NamedTuple

from mpbroker.channel.command_channel import CommandChannel

WAIT_MS: Final = 500


class Taken(NamedTuple):
    """A command: its number, its operation id, its bytes; when the thread took it (monotonic clock)."""

    number: int
    operation: int
    payload: bytes
    taken_ns: int = 0


class CommandInbox:
    """`stopping()`: the thread ends within WAIT_MS after it is true."""

    def __init__(self, channel: CommandChannel, stopping: Callable[[], bool]) -> None:
        self._channel = channel
        self._stopping = stopping
        self._taken: deque[Taken] = deque()
        self._eventfd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)

    def start(self) -> None:
        """What a dead predecessor held comes first."""
        self._channel.recover()
        threading.Thread(target=self._run, name="commands", daemon=True).start()

    def fileno(self) -> int:
        """Readable when `take` may have something, or somebody rang."""
        return self._eventfd

    def take(self) -> list[Taken]:
        """What has come."""
        with suppress(BlockingIOError):
            os.eventfd_read(self._eventfd)
        return [self._taken.popleft() for _ in range(len(self._taken))]

    def _run(self) -> None:
        while not self._stopping():
            claimed = self._channel.claim(WAIT_MS)
            if claimed is not None:
                self._taken.append(Taken(*claimed, time.monotonic_ns()))
            os.eventfd_write(self._eventfd, 1)
