"""Finding a memfd of another process by its name, under /proc/PID/fd; any process, stateless.

Only whoever may look into a process (its own user, root) can: PermissionError for the others.
"""

import contextlib
import os
from collections.abc import Iterator


def find(pid: int, name: str) -> str | None:
    """The path under which the memfd can be opened; None when the process has none of that name, or is gone.

    The oldest descriptor is found first, and ours are among the oldest: connections come later.
    """
    return next(_paths(pid, name), None)


def find_all(pid: int, name: str) -> list[str]:
    """The paths of all its memfds of that name, the oldest first; empty when it is gone."""
    return list(_paths(pid, name))


def _paths(pid: int, name: str) -> Iterator[str]:
    directory, wanted = f"/proc/{pid}/fd", f"/memfd:{name} (deleted)"
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        for number in sorted(map(int, os.listdir(directory))):
            with contextlib.suppress(FileNotFoundError):  # closed meanwhile
                if os.readlink(f"{directory}/{number}") == wanted:
                    yield f"{directory}/{number}"
