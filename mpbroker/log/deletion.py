"""Removal of directories that the controller marked as deleted (`…-delete`), in the log keeper; and by which names
files and directories were given up. Others that only end so are somebody's, and stay.

The delay lets readers that still hold open files finish. Removing twice, or half before a kill, does no harm: the
directory keeps its name until it is empty. What is no partition's, a folder or somebody's notes, stays, and so does
the directory around it.
"""

import contextlib
import errno
import os
import re
from collections.abc import Callable
from typing import Final

from mpbroker.log import disk
from mpbroker.log.partition_directory import DELETE_SUFFIX, EPOCH_FILE, METADATA_FILE, MOVED_HERE

_RETIRED: Final = re.compile(rf"-(?:0|[1-9][0-9]{{0,9}})\.[0-9a-f]{{32}}{DELETE_SUFFIX}")
_FILE: Final = re.compile(r"\d{20}\.(?:log|index|timeindex|txnindex|snapshot)\.deleted")
_OURS: Final = re.compile(
    r"(?:\d{20}\.(?:log|index|timeindex|txnindex|snapshot)|\d{20}-\d{20}\.swap"
    rf"|{re.escape(METADATA_FILE)}|{EPOCH_FILE}|{MOVED_HERE})"
    r"(?:\.(?:tmp|deleted|compacted|cleaned|swap|cut|\d+))*"
)


def is_ours(name: str) -> bool:
    """Whether a partition's directory may hold a file of that name: a broker's, Kafka's, or what one set aside."""
    return _OURS.fullmatch(name) is not None


def is_given_up(name: str) -> bool:
    """Whether a file in a partition's directory was taken out of its log, by us or by Kafka."""
    return _FILE.fullmatch(name) is not None


def is_retired(name: str) -> bool:
    """Whether a directory was a partition's, or a copy's, that is not wanted any more."""
    found = _RETIRED.search(name)
    return found is not None and found.end() == len(name)


def remove_deleted(
    data_dir: str,
    *,
    now_ms: int,
    delay_ms: int,
    foreign: Callable[[str, str], object] = lambda directory, found: None,
    most: int = 100,
) -> list[str]:
    """Remove directories renamed at least `delay_ms` ago, at most `most` of them; returns their names. Those that stay
    because of something that is not ours are told to `foreign`.

    `now_ms` is wall-clock time, because it is compared with the files' own. OSError: of the first that would not go,
    when none of the others is left to go.
    """
    removed: list[str] = []
    failed: OSError | None = None
    for name in disk.directories(data_dir):
        if len(removed) == most:
            break
        path = os.path.join(data_dir, name)
        if is_retired(name) and now_ms - disk.status(path).st_ctime_ns // 1_000_000 >= delay_ms:
            try:
                found = remove_partition(path)
            except OSError as error:
                failed = failed or error
            else:
                if found:
                    foreign(name, found)
                else:
                    removed.append(name)
    if failed is not None and not removed:
        raise failed
    return removed


def remove_partition(path: str) -> str:
    """Our files in one partition directory, then itself; what is gone already is fine. Returns what else is in it and
    stays, empty if nothing is."""
    folders = set(disk.directories(path))
    foreign = ""
    for name in sorted(disk.names(path)):
        if name in folders or not is_ours(name):
            foreign = foreign or name
            continue
        with contextlib.suppress(FileNotFoundError):
            disk.unlink(os.path.join(path, name))
    if foreign:
        return foreign
    try:
        disk.remove_directory(path)
    except FileNotFoundError:
        pass
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
        return "something that came meanwhile"
    return ""
