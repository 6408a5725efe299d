"""Syncs of several partitions beside each other: one slow disk, or one slow partition, holds up nobody else's.

Log keeper only. Each thread has a native Log of its own (its own descriptors; partition locks are held by threads, one
at a time), takes a partition's row and does nothing but `flush` it. Everything else, what is due, who is rung, what a
failure means, stays with the main thread. Threads are begun when there is work for them; they end with the process.
"""

import os
import queue
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from mpbroker.errors import ErrorCode
from mpbroker.log.syncs import Flushes, Synced

THREADS: Final = 8
OPEN_SEGMENTS: Final = 128  # of each thread


class SyncPool:
    """Syncs in threads. `make_log`: a Log for one thread; `ring` wakes the main thread, from any thread."""

    def __init__(self, make_log: Callable[[], Flushes], ring: Callable[[], None], threads: int = THREADS) -> None:
        self._make_log = make_log
        self._ring = ring
        self._most = threads
        self._threads: list[threading.Thread] = []
        self._under_way: set[int] = set()
        self._wanted: queue.SimpleQueue[int] = queue.SimpleQueue()
        self._done: queue.SimpleQueue[Synced] = queue.SimpleQueue()
        self._waited: list[Synced] = []

    def start(self, ordinal: int) -> None:
        """Hand a partition to a thread; at most one sync of each is under way."""
        if ordinal in self._under_way:
            return
        self._under_way.add(ordinal)
        if len(self._threads) < min(self._most, len(self._under_way)):
            self._threads.append(threading.Thread(target=self._work, name="sync", daemon=True))
            self._threads[-1].start()
        self._wanted.put(ordinal)

    def finished(self) -> list[Synced]:
        """Those that ended since the last call."""
        done, self._waited = self._waited, []
        while not self._done.empty():
            done.append(self._done.get())
        self._under_way.difference_update(each.ordinal for each in done)
        return done

    def wait(self, timeout_s: float) -> bool:
        """Until one ends, at most so long."""
        if not self._under_way:
            return False
        with suppress(queue.Empty):
            self._waited.append(self._done.get(timeout=timeout_s))
        return True

    def _work(self) -> None:
        log: Flushes | None = None
        while True:
            ordinal = self._wanted.get()
            try:
                log = log or self._make_log()
                result = Synced(ordinal, *log.flush(ordinal))
                log.close_cached(ordinal)  # else a deleted segment would keep its space until this thread looks again
            except OSError:  # no descriptors for a Log of its own, say: nothing was tried, so it may be tried again
                result = Synced(ordinal, ErrorCode.REQUEST_TIMED_OUT, -1)
            except BaseException:  # broken: another process takes over
                os._exit(1)
            self._done.put(result)
            self._ring()
