"""What lies in a partition's directory and is no regular file: a folder, a pipe, a socket, a link to nowhere.

Asked by start-up recovery, in the controller's process, before it opens anything: at a pipe it would wait for ever.
None of these is ours, whatever its name. It stays where it is; a partition is served beside it unless a file of the log
has to have that name.
"""

import re
from collections.abc import Callable, Sequence
from typing import Final

from mpbroker.log.partition_directory import EPOCH_FILE, METADATA_FILE

_LOG: Final = re.compile(r"([0-9]{20})\.log")
_INDEX: Final = re.compile(r"([0-9]{20})\.(?:index|timeindex|txnindex)")
_OF_ALL: Final = (METADATA_FILE, EPOCH_FILE)
_LIKE_OURS: Final = re.compile(
    r"[0-9]{20}\.(?:log|index|timeindex|txnindex|snapshot)(?:\.deleted|\.compacted|\.tmp)?|[0-9]{20}-[0-9]{20}\.swap|"
    rf"(?:{re.escape(METADATA_FILE)}|{re.escape(EPOCH_FILE)})(?:\.tmp)?"
)


def named_like_ours(others: Sequence[str]) -> list[str]:
    """Those that anybody would take for files of the log."""
    return sorted(name for name in others if _LIKE_OURS.fullmatch(name))


def in_the_way(others: Sequence[str], bases: Sequence[int], log_start: int, end_of: Callable[[int], int]) -> str | None:
    """The first that has a name which the log needs: that of an index of one of its segments, of a file that every
    partition has, or of a segment that is missing. `bases`: of the segments that are files; `end_of(base)`: the offset
    behind one."""
    for name in sorted(others):
        log, index = _LOG.fullmatch(name), _INDEX.fullmatch(name)
        if name in _OF_ALL or (index and int(index[1]) in bases):
            return name
        if log and _is_missing(int(log[1]), bases, log_start, end_of):
            return name
    return None


def _is_missing(base: int, bases: Sequence[int], log_start: int, end_of: Callable[[int], int]) -> bool:
    """Whether a segment would begin there: where the one below ends, behind that if there is one above, or in front of
    all that are not below the log start."""
    below = max((each for each in bases if each < base), default=None)
    if below is None:
        return base >= log_start or not bases
    end, is_last = end_of(below), base > max(bases)
    return base == end or (base > end and not is_last)
