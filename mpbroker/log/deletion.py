"""Removal of directories that the controller marked as deleted (`…-delete`). Runs in the log keeper.

The delay lets readers that still hold open files finish. Removing twice, or half before a kill, does no harm: the
directory keeps its name until it is empty.
"""

import contextlib
import os

from mpbroker.log.partition_directory import DELETE_SUFFIX


def remove_deleted(data_dir: str, *, now_ms: int, delay_ms: int, most: int = 100) -> list[str]:
    """Remove directories renamed at least `delay_ms` ago, at most `most` of them; returns their names.

    `now_ms` is wall-clock time, because it is compared with the files' own. OSError: the first that would not go.
    """
    removed: list[str] = []
    for entry in sorted(os.scandir(data_dir), key=lambda found: found.name):
        if len(removed) == most:
            break
        if not entry.name.endswith(DELETE_SUFFIX) or not entry.is_dir(follow_symlinks=False):
            continue
        if now_ms - entry.stat(follow_symlinks=False).st_ctime_ns // 1_000_000 >= delay_ms:
            _remove(entry.path)
            removed.append(entry.name)
    return removed


def _remove(path: str) -> None:
    """The files of one partition directory, then itself; what is gone already is fine."""
    for entry in list(os.scandir(path)):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(entry.path)
    with contextlib.suppress(FileNotFoundError):
        os.rmdir(path)
