"""A private folder for everything a Spark session writes, gone with it; what killed processes left is swept by the next
one.

The process that made a folder holds a lock in it while it lives. Only it writes there, and the JVM that it starts.
"""

import fcntl
import os
import shutil
import tempfile
import time
from contextlib import suppress
from pathlib import Path

PREFIX = "mpbroker-spark-"
LOCK = "owner.lock"
#: A younger folder may be one whose lock is just being taken, or whose JVM is just ending.
SETTLED_S = 60


class Scratch:
    """The folder `path`, mode 0700, until `remove`."""

    def __init__(self) -> None:
        sweep(Path(tempfile.gettempdir()))
        self.path = Path(tempfile.mkdtemp(prefix=PREFIX))
        self._lock = os.open(self.path / LOCK, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def remove(self) -> None:
        """Delete it. May be called twice."""
        shutil.rmtree(self.path, ignore_errors=True)
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


def sweep(place: Path) -> None:
    """Delete our own folders whose process is gone."""
    for folder in place.glob(f"{PREFIX}*"):
        with suppress(OSError):  # somebody else's, somebody's who lives, or swept by another at this moment
            about = folder.lstat()
            if about.st_uid == os.getuid() and time.time() - about.st_mtime > SETTLED_S and not _is_held(folder / LOCK):
                shutil.rmtree(folder, ignore_errors=True)


def _is_held(path: Path) -> bool:
    lock = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False
