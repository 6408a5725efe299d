"""Whether a listener of a broker of this machine is served: a lock that each of its processors holds, in the file of
the owner's lock (session_files.py). Request handlers of all brokers look at it and never take it. Only where brokers of
one machine share their store's file.

A process that dies gives its locks up before its connections are closed: so whoever lost a connection to a leader, and
asks at once who leads now, asks when the lock is gone, whatever anybody has noticed so far. It is a hint for clients,
on which nothing rests (ADR 20): a processor that is made anew is missed for a moment, too.
"""

import fcntl
import os
from typing import Final

from mpbroker.config.cluster_store import ClusterStorePlace
from mpbroker.metadata.broker_registration import owner_of
from mpbroker.metadata.session_files import LISTENERS_LOCKED, directory_of, lock_pid
from mpbroker.record.checksum import crc32c

FIRST_BYTE: Final = 1 << 20


class ListenerLock:
    """Held until this process ends. A process must not open the owner's file a second time."""

    def __init__(self, place: ClusterStorePlace, node_id: int, listener: str) -> None:
        path = directory_of(place.sqlite_path) / owner_of(node_id)
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.lockf(self._descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB, 1, _byte(listener))


class ListenerLocks:
    """As others see them. Files are opened when they are first asked for, by the process that asks."""

    def __init__(self, place: ClusterStorePlace) -> None:
        self._store = place.sqlite_path
        self._files: dict[int, int] = {}

    def is_dead(self, broker: int, listener: str) -> bool:
        """Whether nobody serves a listener that a broker has. Of one that has no such locks, as of a release before
        they were, nobody can say it."""
        if not self._store:
            return False
        try:
            descriptor = self._files.get(broker, -1)
            if descriptor < 0:
                path = directory_of(self._store) / owner_of(broker)
                descriptor = self._files[broker] = os.open(path, os.O_RDWR | os.O_CLOEXEC)
            says_so = os.pread(descriptor, len(LISTENERS_LOCKED.text), LISTENERS_LOCKED.at) == LISTENERS_LOCKED.text
            return says_so and lock_pid(descriptor, _byte(listener)) is None
        except OSError:  # nobody can say
            return False


def _byte(listener: str) -> int:
    return FIRST_BYTE + crc32c(listener.encode())
