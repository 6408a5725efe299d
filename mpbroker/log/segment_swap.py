"""Names and leftovers of a swap of segments (native/log/swap.h): the cleaned files beside a log, and the empty `.swap`
file that says they are whole. The log keeper's compaction makes them; a start finishes or removes them.
"""

import os
import re
from contextlib import suppress
from typing import Final

from mpbroker._native import scan_segment
from mpbroker.log import disk
from mpbroker.log.segment_recovery import INDEX, LOG, TIME_INDEX
from mpbroker.log.set_aside import set_aside
from mpbroker.log.txn_index_file import SUFFIX as TXN_INDEX

CLEANED: Final = ".compacted"
DELETED: Final = ".deleted"
_SWAP: Final = re.compile(r"(\d{20})-(\d{20})\.swap\Z")
_OURS: Final = re.compile(r"\d{20}\.(?:log|index|timeindex)\.compacted\Z")
_RETIRED: Final = re.compile(r"(\d{20})\.log\.deleted\Z")
_LOG_NAME: Final = re.compile(r"(\d{20})\.log\Z")
_LOG_FIRST: Final = (LOG, INDEX, TIME_INDEX)
_OF_A_SEGMENT: Final = (*_LOG_FIRST, TXN_INDEX)


def segment_path(directory: str, base: int, suffix: str) -> str:
    """Path of one file of a segment."""
    return f"{directory}/{base:020d}{suffix}"


def swap_path(directory: str, base: int, end: int) -> str:
    """The file that says: the cleaned segment at `base` takes the place of all below `end`."""
    return f"{directory}/{base:020d}-{end:020d}.swap"


def remove_cleaned(directory: str) -> None:
    """Remove what a compaction that did not come to its swap left: copies, of no use without it. With a `.swap` file
    beside them nothing is touched. With retired segments beside them it may be that file which is missing, and without
    the segment that they are of they may be the only copy: they are set aside."""
    names, _ = disk.files(directory)
    if any(_SWAP.match(name) for name in names):
        return
    retired = [int(match[1]) for name in names if (match := _RETIRED.match(name))]
    for name in names:
        if not _OURS.match(name):
            continue
        path = os.path.join(directory, name)
        with suppress(FileNotFoundError):
            if f"{name[:20]}{LOG}" not in names or any(base > int(name[:20]) for base in retired):
                set_aside(path)
            else:
                disk.unlink(path)


def abandon_swaps(directory: str) -> None:
    """Before a compaction, when the partition's row was repaired if need be: a swap that is still marked was either
    finished by that, or never begun. What its renames did is made durable before the mark goes. Where the segment that
    it names is not there, somebody took it away, and mark and copies are set aside."""
    names = set(disk.files(directory)[0])
    marks = [name for name in names if _SWAP.match(name)]
    if marks:
        disk.sync_directory(directory)
    for name in marks:
        path = os.path.join(directory, name)
        if f"{name[:20]}{LOG}" in names:
            disk.unlink(path)
        else:
            set_aside(path)
    remove_cleaned(directory)


def finish_swaps(directory: str) -> list[tuple[int, int]]:
    """At a start, before anything is read: where a `.swap` file says so, put a cleaned segment in its place. Doing it
    twice does no harm. Returns (base, end) of each.

    A `.swap` file alone takes nothing away: segments are retired only for a cleaned log that is there and sound. One
    that is not is set aside, and what had been retired for it comes back. Without one it is in its place already; its
    indexes are then made anew from it."""
    found = sorted(match.groups() for name in disk.files(directory)[0] if (match := _SWAP.match(name)))
    swaps = [(int(base), int(end)) for base, end in found]
    for base, end in swaps:
        if not disk.is_file(segment_path(directory, base, LOG) + CLEANED):
            _set_aside(directory, base, (INDEX, TIME_INDEX, TXN_INDEX), "")
        elif _is_sound(directory, base, end):
            _retire(directory, base, end)
            for suffix in _LOG_FIRST:
                with suppress(FileNotFoundError):
                    disk.rename(segment_path(directory, base, suffix) + CLEANED, segment_path(directory, base, suffix))
            with suppress(FileNotFoundError):
                disk.unlink(segment_path(directory, base, TXN_INDEX))
        else:
            _bring_back(directory, base, end)
            _set_aside(directory, base, _LOG_FIRST, CLEANED)
        disk.sync_directory(directory)
        disk.unlink(swap_path(directory, base, end))
    remove_cleaned(directory)
    return swaps


def _is_sound(directory: str, base: int, end: int) -> bool:
    """Whether a cleaned log is whole and lies between the offsets it was made for."""
    with disk.opened(segment_path(directory, base, LOG) + CLEANED) as log:
        scan = scan_segment(log, -1, -1, base, 4096, True, None)
    return scan.valid_bytes == scan.file_bytes and scan.next_offset <= end


def _set_aside(directory: str, base: int, suffixes: tuple[str, ...], ending: str) -> None:
    for suffix in suffixes:
        with suppress(FileNotFoundError):
            set_aside(segment_path(directory, base, suffix) + ending)


def _between(directory: str, pattern: re.Pattern[str], base: int, end: int) -> list[int]:
    """Bases of the segments whose log has such a name, between two offsets."""
    matches = (pattern.match(name) for name in sorted(disk.files(directory)[0]))
    return [int(match[1]) for match in matches if match and base < int(match[1]) < end]


def _retire(directory: str, base: int, end: int) -> None:
    """The segments between: what was in them is in the cleaned one. Indexes before the log."""
    for between in _between(directory, _LOG_NAME, base, end):
        for suffix in reversed(_OF_A_SEGMENT):
            path = segment_path(directory, between, suffix)
            with suppress(FileNotFoundError):
                disk.rename(path, f"{path}{DELETED}")


def _bring_back(directory: str, base: int, end: int) -> None:
    """The log before its indexes, unless a log has that name again."""
    for between in _between(directory, _RETIRED, base, end):
        for suffix in _OF_A_SEGMENT:
            path = segment_path(directory, between, suffix)
            if not disk.exists(path) and disk.exists(path + DELETED):
                disk.rename(path + DELETED, path)
