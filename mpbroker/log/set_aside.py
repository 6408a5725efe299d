"""Setting aside what recovery cannot use: nothing is unlinked or overwritten, it stays beside the log as `….cut`.

Runs in the controller at start, before the partition is shown to anybody. Whoever restores a backup or repairs a file
system finds every byte that was there; deleting a `.cut` file is the operator's decision.
"""

import os
from typing import Final

CUT_SUFFIX: Final = ".cut"
MAX_NAMES: Final = 10_000
COPY_BYTES: Final = 1 << 20


def set_aside(path: str) -> str:
    """Renames a file to a free `.cut` name and returns that name. OSError passes; nothing has changed then."""
    name = free_name(path + CUT_SUFFIX)
    os.rename(path, name)
    return name


def keep_tail(descriptor: int, path: str, start: int, end: int) -> str:
    """Copies the bytes [start, end) of an open file to `path.<start>.cut`, durably; returns that name.

    OSError passes (a full disk, say) and leaves no half copy behind: the caller must not cut the file then."""
    name = free_name(f"{path}.{start}{CUT_SUFFIX}")
    copy = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
    try:
        _copy(descriptor, copy, start, end)
        os.fsync(copy)
    except OSError:
        os.unlink(name)
        raise
    finally:
        os.close(copy)
    return name


def _copy(source: int, target: int, position: int, end: int) -> None:
    while position < end:
        piece = os.pread(source, min(COPY_BYTES, end - position), position)
        if not piece:
            return  # the file is shorter than it was a moment ago
        position += len(piece)
        while piece:
            piece = piece[os.write(target, piece) :]


def free_name(wanted: str) -> str:
    """`wanted`, or with a number behind it if something stands there already. OSError: thousands stand there."""
    if not os.path.lexists(wanted):
        return wanted
    for number in range(1, MAX_NAMES):
        if not os.path.lexists(f"{wanted}.{number}"):
            return f"{wanted}.{number}"
    raise FileExistsError(f"{wanted} and {MAX_NAMES} more names are taken")
