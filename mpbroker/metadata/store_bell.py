"""How a process learns that another one has changed a shared SQLite store: a named pipe each, rung after a commit.

Any process that opens the store. A ring that is lost (a killed writer) costs the watcher no more than its next look
(meta_store.WATCH_MS). A pipe needs no room in a path as a socket does, and reaches across network namespaces.
"""

import errno
import os
from itertools import count
from pathlib import Path

_numbers = count(1)
_PREFIX = "bell-"


class StoreBell:
    """This process's pipe. `descriptor` is readable once somebody has rung."""

    def __init__(self, directory: Path) -> None:
        name = f"{_PREFIX}{os.getpid()}-{next(_numbers)}"
        hidden = directory / f".{name}"
        hidden.unlink(missing_ok=True)  # of a killed process that had the same number
        os.mkfifo(hidden, 0o600)
        self.path = directory / name
        self.descriptor = os.open(hidden, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        os.rename(hidden, self.path)  # only now: a pipe that nobody reads is taken away by whoever rings

    def drain(self) -> None:
        """Be silent until the next ring."""
        try:
            while os.read(self.descriptor, 4096):
                pass
        except BlockingIOError:
            pass

    def close(self) -> None:
        """Take the pipe away."""
        self.path.unlink(missing_ok=True)
        os.close(self.descriptor)


def ring_all(directory: Path) -> None:
    """Wake every watcher; pipes of dead ones are taken away."""
    with os.scandir(directory) as entries:
        names = [entry.path for entry in entries if entry.name.startswith(_PREFIX)]
    for name in names:
        try:
            descriptor = os.open(name, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except FileNotFoundError:
            continue
        except OSError as error:
            if error.errno == errno.ENXIO:  # nobody has it open
                Path(name).unlink(missing_ok=True)
            continue
        try:
            os.write(descriptor, b"!")
        except (BlockingIOError, BrokenPipeError):  # it has been rung often enough, or has just gone
            pass
        finally:
            os.close(descriptor)
