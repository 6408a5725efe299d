"""Flushing beside the log keeper's other jobs, where there are several log directories: those jobs wait for the disk
that they are at, and a directory whose disk is slow must not hold up acknowledgements of the others' partitions.

Log keeper only. This thread has the flushers of all directories and a Log of its own; it begins syncs and tells who
waits for them, and the syncs themselves run in threads of sync_pool.py. It waits for the process's bell instead of the
main thread, and hands each ring on.
"""

import os
import select
import threading
from collections.abc import Callable
from typing import Final

OPEN_SEGMENTS: Final = 8  # it opens none; a Log has room for some


class FlushThread:
    """`flush()`: one turn of every flusher; `bell()`: waits until it is rung, or a flush may be due, and says
    whether it was; `ring()` rings it; `signals`: a descriptor that is readable after a signal, `drain()` empties it."""

    def __init__(
        self,
        flush: Callable[[], None],
        bell: Callable[[], bool],
        ring: Callable[[], None],
        signals: int,
        drain: Callable[[], None],
    ) -> None:
        self._flush = flush
        self._bell = bell
        self._ring = ring
        self._drain = drain
        self._rung = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._poll = select.poll()
        for descriptor in (self._rung, signals):
            self._poll.register(descriptor, select.POLLIN)
        self._ending = False
        self._thread = threading.Thread(target=self._work, name="flush", daemon=True)

    def start(self) -> None:
        """From now on it flushes, and the main thread waits by `wait`."""
        self._thread.start()

    def wait(self, wait_ms: int) -> None:
        """In the main thread: until the bell was rung or a signal came, at most so long."""
        for descriptor, _ in self._poll.poll(wait_ms):
            if descriptor == self._rung:
                os.eventfd_read(descriptor)
            else:
                self._drain()

    def stop(self) -> None:
        """Returns when it has ended; what it had begun to sync may be under way."""
        self._ending = True
        self._ring()
        self._thread.join()

    def _work(self) -> None:
        try:
            while not self._ending:
                is_rung = self._bell()
                self._flush()
                if is_rung:  # behind the flush, which somebody may wait for
                    os.eventfd_write(self._rung, 1)
        except BaseException:  # broken: another process takes over
            os._exit(1)
