"""`.reserve`: a few megabytes of the data directory's disk, given up by a start that meets a full one.

Without it a broker on a full disk could not start, and neither could consumers read nor retention make room. The file
has its full size while the reserve is there, and none once it was given up: then appends are refused, by this start and
the next, until the log keeper has it back (reserve_keeper.py). The supervisor gives it up, before it forks; the
controller reads the file; nobody but the log keeper makes it.
"""

import contextlib
import os
from typing import Final

from mpbroker.log import disk
from mpbroker.log.unusable import FULL, free_bytes

NAME: Final = ".reserve"
RESERVE_BYTES: Final = 8 << 20
"""A start and a stop write less than 1 MiB; the rest is for deleting, and for the index files of a recovery."""
MIN_START_BYTES: Final = 2 << 20
"""With less a start gives the reserve up."""
MIN_LEFT_BYTES: Final = 4 << 20
"""What groups and transactions write may take of it, down to here: consumers of groups read on a full disk, too."""
MIN_FREE_BYTES: Final = 2 * RESERVE_BYTES
"""The reserve is made when so much is free, so that as much as it takes is left for records."""


def is_whole(data_dir: str) -> bool:
    """Whether the reserve is there."""
    return _size(data_dir) >= RESERVE_BYTES


def was_given_up(data_dir: str) -> bool:
    """Whether a start gave it up and it has not been made again since."""
    return 0 <= _size(data_dir) < RESERVE_BYTES


def is_spent_by(path: str, data_dir: str) -> bool:
    """Whether the reserve was given up, and what is written at `path` takes of what is left."""
    try:
        return was_given_up(data_dir) and disk.status(path).st_dev == disk.status(data_dir).st_dev
    except OSError:
        return False


def is_needed(data_dir: str) -> bool:
    """Whether the reserve is there and a start would not find room without it."""
    free = free_bytes(data_dir)
    return free is not None and free < MIN_START_BYTES and is_whole(data_dir)


def give_up(data_dir: str) -> None:
    """Free the reserve's blocks. That it cannot be done is not said: the start then says what is wrong."""
    with contextlib.suppress(OSError):
        disk.truncate(_path(data_dir), 0)


def make(data_dir: str) -> bool:
    """Make the reserve if there is room for it; whether it is there now. OSError passes unless it says `full`."""
    free = free_bytes(data_dir)
    if free is None or free < MIN_FREE_BYTES:
        return False
    unfinished = f"{_path(data_dir)}.tmp"
    try:
        _allocate(unfinished)
        disk.rename(unfinished, _path(data_dir))
    except OSError as error:
        with contextlib.suppress(OSError):
            disk.unlink(unfinished)
        if error.errno not in FULL:
            raise
        return False
    return True


def _allocate(path: str) -> None:
    with disk.opened(path, os.O_RDWR | os.O_CREAT, 0o600) as descriptor:
        disk.allocate(descriptor, RESERVE_BYTES)


def _path(data_dir: str) -> str:
    return os.path.join(data_dir, NAME)


def _size(data_dir: str) -> int:
    """In bytes; -1 when it was never made."""
    try:
        return disk.patiently(disk.size, _path(data_dir))
    except OSError:
        return -1
