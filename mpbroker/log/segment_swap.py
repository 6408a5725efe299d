"""Names and leftovers of a swap of segments (native/log/swap.h): the cleaned files beside a log, and the empty `.swap`
file that says they are whole. The log keeper's compaction makes them; a start finishes or removes them.
"""

import os
import re
from contextlib import suppress
from typing import Final

from mpbroker.log import disk
from mpbroker.log.segment_recovery import INDEX, LOG, TIME_INDEX

CLEANED: Final = ".compacted"
_SWAP: Final = re.compile(r"(\d{20})-(\d{20})\.swap\Z")
_OURS: Final = re.compile(r"\d{20}\.(?:log|index|timeindex)\.compacted\Z")
_LOG_NAME: Final = re.compile(r"(\d{20})\.log\Z")
_LOG_FIRST: Final = (LOG, INDEX, TIME_INDEX)


def segment_path(directory: str, base: int, suffix: str) -> str:
    """Path of one file of a segment."""
    return f"{directory}/{base:020d}{suffix}"


def swap_path(directory: str, base: int, end: int) -> str:
    """The file that says: the cleaned segment at `base` takes the place of all below `end`."""
    return f"{directory}/{base:020d}-{end:020d}.swap"


def remove_cleaned(directory: str) -> None:
    """Remove what a compaction that did not come to its swap left: copies, of no use without it. With a `.swap` file
    beside them nothing is touched."""
    names = disk.names(directory)
    if any(_SWAP.match(name) for name in names):
        return
    for name in names:
        if _OURS.match(name):
            with suppress(FileNotFoundError):
                disk.unlink(os.path.join(directory, name))


def abandon_swaps(directory: str) -> None:
    """Before a compaction, when the partition's row was repaired if need be: a swap that is still marked was either
    finished by that, or never begun. What its renames did is made durable before the mark goes."""
    marks = [name for name in disk.names(directory) if _SWAP.match(name)]
    if marks:
        disk.sync_directory(directory)
    for name in marks:
        disk.unlink(os.path.join(directory, name))
    remove_cleaned(directory)


def finish_swaps(directory: str) -> list[tuple[int, int]]:
    """At a start, before anything is read: put cleaned segments in their places where a `.swap` file says so, remove
    the others. Doing it twice does no harm. Returns (base, end) of each."""
    found = sorted(match.groups() for name in disk.names(directory) if (match := _SWAP.match(name)))
    swaps = [(int(base), int(end)) for base, end in found]
    for base, end in swaps:
        _retire(directory, base, end)
        for suffix in _LOG_FIRST:
            with suppress(FileNotFoundError):
                disk.rename(segment_path(directory, base, suffix) + CLEANED, segment_path(directory, base, suffix))
        disk.sync_directory(directory)
        disk.unlink(swap_path(directory, base, end))
    remove_cleaned(directory)
    return swaps


def _retire(directory: str, base: int, end: int) -> None:
    """The segments between: what was in them is in the cleaned one. Indexes before the log."""
    for name in sorted(disk.names(directory)):
        match = _LOG_NAME.match(name)
        if match is None or not base < int(match[1]) < end:
            continue
        for suffix in (TIME_INDEX, INDEX, LOG):
            path = segment_path(directory, int(match[1]), suffix)
            with suppress(FileNotFoundError):
                disk.rename(path, f"{path}.deleted")
