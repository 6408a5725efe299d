"""Kafka's state-change.log: what the elected controller changed and told, in a file of its own in the first log
directory. The cluster-controller process alone writes it.

Bounded: a file that has reached `mpbroker.state.change.log.bytes` becomes `state-change.log.1`, in place of the one
before. It is for reading, not for recovery: nothing is synced, and a write that fails costs the line, never the work.
"""

import os
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

from mpbroker.metrics.event_log import escape

NAME: Final = "state-change.log"
OLD_SUFFIX: Final = ".1"


class StateChangeFile:
    """`most_bytes` 0: there is none."""

    def __init__(self, directory: str, most_bytes: int) -> None:
        self.path = os.path.join(directory, NAME)
        self.most_bytes = most_bytes
        self._fd = -1
        self._size = 0
        self._lines: list[str] = []

    def add(self, level: str, event: str, fields: Mapping[str, object]) -> None:
        """A line, written by the next `flush`."""
        if self.most_bytes > 0:
            now = time.time()
            stamp = f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(now))}.{int(now * 1000) % 1000:03d}Z"
            words = [f"{key}={escape(value)}" for key, value in fields.items()]
            self._lines.append(" ".join([stamp, level, event, *words]) + "\n")

    def flush(self) -> None:
        """Write what was added."""
        if not self._lines:
            return
        data, self._lines = "".join(self._lines).encode("utf-8", "backslashreplace"), []
        with suppress(OSError):  # no room, or no directory: the broker's log says that
            self._open()
            self._size += os.write(self._fd, data)
            if self._size >= self.most_bytes:
                self.close()
                os.replace(self.path, self.path + OLD_SUFFIX)

    def _open(self) -> None:
        if self._fd < 0:
            self._fd = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
            self._size = os.fstat(self._fd).st_size

    def close(self) -> None:
        """Give the descriptor back."""
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = -1
