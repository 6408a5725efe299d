"""Removal of directories that the controller marked as deleted (`…-delete`). Runs in the log keeper.

The delay lets readers that still hold open files finish. Removing twice, or half before a kill, does no harm: the
directory keeps its name until it is empty.
"""

import contextlib
import os

from mpbroker.log import disk
from mpbroker.log.partition_directory import DELETE_SUFFIX


def remove_deleted(data_dir: str, *, now_ms: int, delay_ms: int, most: int = 100) -> list[str]:
    """Remove directories renamed at least `delay_ms` ago, at most `most` of them; returns their names.

    `now_ms` is wall-clock time, because it is compared with the files' own. OSError: the first that would not go.
    """
    removed: list[str] = []
    for name in disk.directories(data_dir):
        if len(removed) == most:
            break
        path = os.path.join(data_dir, name)
        if name.endswith(DELETE_SUFFIX) and now_ms - disk.status(path).st_ctime_ns // 1_000_000 >= delay_ms:
            remove_partition(path)
            removed.append(name)
    return removed


def remove_partition(path: str) -> None:
    """The files of one partition directory, then itself; what is gone already is fine."""
    for name in disk.names(path):
        with contextlib.suppress(FileNotFoundError):
            disk.unlink(os.path.join(path, name))
    with contextlib.suppress(FileNotFoundError):
        disk.remove_directory(path)
