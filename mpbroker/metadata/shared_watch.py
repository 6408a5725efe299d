"""A watch of a shared SQLite store for an epoll loop: woken by the bell, and by deaths of other brokers' supervisors.

Runs in the process that opened the store. A supervisor's death makes its pidfd readable a moment after its lock is
gone, so its sessions end within milliseconds; where its pid cannot be seen from here, at the next look. One writes to
the store at a time: who has something more urgent to do is patient, and leaves dead sessions to others for a while.
"""

from __future__ import annotations

import os
import select
import time
from pathlib import Path
from typing import Protocol

from mpbroker.metadata.meta_store import WATCH_MS, Batch
from mpbroker.metadata.store_bell import StoreBell

SESSIONS_MS = 100
"""How often, at most, sessions are looked at while changes stream in."""


class WatchedStore(Protocol):
    """What the watch asks of its store."""

    def changes(self, prefix: str, start_rev: int) -> tuple[list[Batch], int]:
        """A bounded part of the changes since, and the revision to go on from."""
        ...

    def end_dead_sessions(self) -> int:
        """End those whose owners are dead."""
        ...

    def owners(self) -> dict[str, int]:
        """Owner of sessions → pid of its supervisor."""
        ...


class SharedWatch:
    """`rev`: everything up to it has been delivered. `patience_ms`: how long others may take to end dead sessions."""

    def __init__(self, store: WatchedStore, directory: Path, prefix: str, start_rev: int, patience_ms: int = 0) -> None:
        self.rev = start_rev - 1
        self._patience_ms = patience_ms
        self._store = store
        self._prefix = prefix
        self._bell = StoreBell(directory)
        self._epoll = select.epoll()
        self._epoll.register(self._bell.descriptor, select.EPOLLIN)
        self._pidfds: dict[int, int] = {}  # pid → pidfd
        self._sessions_due_s = 0.0

    def fileno(self) -> int:
        """Readable when somebody rang or a supervisor died."""
        return self._epoll.fileno()

    def take(self, wait_ms: int = 0) -> list[Batch]:
        """What is new; after `wait_ms` nothing. Compacted, StoreError."""
        deadline = time.monotonic() + wait_ms / 1000
        while True:
            self._look_at_sessions()
            batches = self._new()
            left_s = deadline - time.monotonic()
            if batches or left_s <= 0:
                return batches
            self._epoll.poll(min(left_s, WATCH_MS / 1000))

    def _new(self) -> list[Batch]:
        self._bell.drain()  # before the look: who rings after it has something to say
        while True:
            batches, following = self._store.changes(self._prefix, self.rev + 1)
            if batches or following == self.rev + 1:
                self.rev = following - 1
                return batches
            self.rev = following - 1  # others' keys only

    def _look_at_sessions(self) -> None:
        died = [pid for pid, pidfd in self._pidfds.items() if _has_ended(pidfd)]
        for pid in died:
            self._drop(pid)
        now = time.monotonic()
        if not died and now < self._sessions_due_s:
            return
        self._sessions_due_s = now + max(SESSIONS_MS, self._patience_ms) / 1000
        self._store.end_dead_sessions()
        if self._patience_ms:
            return  # a death is no reason to look
        pids = {pid for pid in self._store.owners().values() if pid}
        for pid in self._pidfds.keys() - pids:
            self._drop(pid)
        for pid in pids - self._pidfds.keys():
            self._add(pid)

    def _add(self, pid: int) -> None:
        try:
            pidfd = os.pidfd_open(pid)
        except OSError:  # it has just ended: the next look finds its lock gone
            return
        self._pidfds[pid] = pidfd
        self._epoll.register(pidfd, select.EPOLLIN)

    def _drop(self, pid: int) -> None:
        pidfd = self._pidfds.pop(pid)
        self._epoll.unregister(pidfd)
        os.close(pidfd)

    def close(self) -> None:
        """Take the bell away."""
        for pid in list(self._pidfds):
            self._drop(pid)
        self._epoll.close()
        self._bell.close()


def _has_ended(pidfd: int) -> bool:
    look = select.poll()  # select.select takes no descriptor above 1,023, and a broker has one per log
    look.register(pidfd, select.POLLIN)
    return bool(look.poll(0))
