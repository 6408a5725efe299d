"""Setting aside what recovery cannot use: nothing is unlinked or overwritten, it stays beside the log as `….cut`.

Runs in the controller at start, before the partition is shown to anybody. Whoever restores a backup or repairs a file
system finds every byte that was there; deleting a `.cut` file is the operator's decision.
"""

import os
from typing import Final

from mpbroker.log import disk

CUT_SUFFIX: Final = ".cut"
MAX_NAMES: Final = 10_000
COPY_BYTES: Final = 1 << 20


def set_aside(path: str) -> str:
    """Renames a file to a free `.cut` name and returns that name. OSError passes; nothing has changed then."""
    name = free_name(path + CUT_SUFFIX)
    disk.rename(path, name)
    return name


def keep_tail(descriptor: int, path: str, start: int, end: int) -> str:
    """Copies the bytes [start, end) of an open file to `path.<start>.cut`, durably; returns that name.

    OSError passes (a full disk, say) and leaves no half copy behind: the caller must not cut the file then."""
    name = free_name(f"{path}.{start}{CUT_SUFFIX}")
    with disk.opened(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL) as copy:
        try:
            _copy(descriptor, copy, start, end)
            disk.sync(copy)
        except OSError:
            disk.unlink(name)
            raise
    return name


def _copy(source: int, target: int, position: int, end: int) -> None:
    while position < end:
        piece = disk.read_at(source, min(COPY_BYTES, end - position), position)
        if not piece:
            return  # the file is shorter than it was a moment ago
        position += len(piece)
        disk.write(target, piece)


def free_name(wanted: str) -> str:
    """`wanted`, or with a number behind it if something stands there already. OSError: thousands stand there."""
    if not disk.exists(wanted):
        return wanted
    for number in range(1, MAX_NAMES):
        if not disk.exists(f"{wanted}.{number}"):
            return f"{wanted}.{number}"
    raise FileExistsError(f"{wanted} and {MAX_NAMES} more names are taken")
