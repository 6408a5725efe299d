"""What Apache Kafka leaves of a swap of segments in which it died: `.swap` and `.cleaned` files of its own, which an
adopted directory may hold. A start finishes it as Kafka's LogLoader does, with what Kafka would unlink kept as `.cut`.

Kafka writes `.cleaned` copies, renames all of them to `.swap`, then the segments they stand for to `.deleted`, then
`.swap` to the name of the segment. So while a `.cleaned` is there no segment was given up; and a `.deleted` beside a
`.swap` may be the only copy of what a damaged `.swap` should hold. Doing it twice does no harm, nor dying meanwhile.
"""

import os
import re
from contextlib import suppress
from stat import S_ISREG
from typing import Final

from mpbroker._native import scan_segment
from mpbroker.log import disk
from mpbroker.log.segment_recovery import INDEX, LOG, TIME_INDEX
from mpbroker.log.set_aside import set_aside
from mpbroker.log.txn_index_file import SUFFIX as TXN_INDEX

SWAP: Final = ".swap"
CLEANED: Final = ".cleaned"
DELETED: Final = ".deleted"
_FILE: Final = re.compile(r"(\d{20})(\.log|\.index|\.timeindex|\.txnindex)(\.swap|\.cleaned|\.deleted|)")
_INDEXES_FIRST: Final = (TXN_INDEX, TIME_INDEX, INDEX, LOG)


def finish_kafka_swaps(directory: str) -> list[str]:
    """What was done, in sentences; none where Kafka left nothing."""
    return _Swap(directory).finish()


class _Swap:
    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._name = os.path.basename(directory)
        self._files = _files(directory)

    def finish(self) -> list[str]:
        """Finishes or undoes it."""
        cleaned, swapped = self._files[CLEANED], self._files[SWAP]
        if not cleaned and not swapped:
            return []
        told = self._undo_half_made(min(cleaned)) if cleaned else []
        logs = [base for base in sorted(swapped) if LOG in swapped[base]]
        if logs:
            told.append(self._complete(logs) if self._replaces(logs) else self._undo(logs))
        for base in swapped:  # of a log that has its name already, or that is not there
            self._place(base)
        for base in list(self._files[DELETED]):
            self._set_aside(base, DELETED)
        disk.sync_directory(self._directory)
        return told

    def _undo_half_made(self, first: int) -> list[str]:
        """Copies that Kafka had not finished: it had given up none of their segments."""
        half = [base for base in self._files[SWAP] if base >= first]
        for base in half:
            self._set_aside(base, SWAP)
        lost = [base for base in self._files[CLEANED] if LOG not in self._files[""].get(base, ())]
        for base in lost:
            self._bring_back(base)
        for base in list(self._files[CLEANED]):
            self._set_aside(base, CLEANED)
        for base in half:
            del self._files[SWAP][base]
        return [f"{self._name}: copies that Apache Kafka had not finished (.cleaned) were set aside as .cut"]

    def _replaces(self, logs: list[int]) -> bool:
        """Whether the copies may take the place of the segments: each is whole, and they end no earlier, or the first
        of the segments is gone, so that the copies are all there is, if they hold anything."""
        ends = {base: self._end(base, SWAP) for base in logs}
        originals = self._originals(logs[0])
        if logs[0] not in originals:
            return any((self._end(base, SWAP, whole=False) or 0) > base for base in logs)
        if any(end is None or end <= base for base, end in ends.items()):
            return False
        high = max(end or 0 for end in ends.values())
        return all((self._end(base, kind, whole=False) or 0) <= high for base, kind in originals.items() if base < high)

    def _originals(self, low: int) -> dict[int, str]:
        """Segments from an offset on, with what their log's name ends in: in their place, or given up for the swap."""
        found: dict[int, str] = {}
        for kind in (DELETED, ""):
            found |= {base: kind for base, suffixes in self._files[kind].items() if base >= low and LOG in suffixes}
        return found

    def _end(self, base: int, kind: str, *, whole: bool = True) -> int | None:
        """Offset behind a log's last batch; None if it has damage, or a torn tail, and should have none."""
        with disk.opened(f"{self._directory}/{base:020d}{LOG}{kind}") as log:
            scan = scan_segment(log, -1, -1, base, 4096, True, None)
        return None if whole and scan.valid_bytes != scan.file_bytes else scan.next_offset

    def _complete(self, logs: list[int]) -> str:
        high = max(self._end(base, SWAP, whole=False) or 0 for base in logs)
        for base in list(self._files[DELETED]):
            self._set_aside(base, DELETED)
        for base in [base for base in self._files[""] if base in logs or logs[0] <= base < high]:
            self._set_aside(base, "")
        for base in logs:
            self._rename(base, LOG, SWAP, "")
        return (
            f"{self._name}: Apache Kafka died while it put segment {logs[0]} in place; that was finished with its "
            f"{logs[0]:020d}{LOG}{SWAP}, offsets up to {high - 1}: what it replaces is kept as .cut"
        )

    def _undo(self, logs: list[int]) -> str:
        """Kafka's segments come back under their names, but for those that lie within others; the copies go aside."""
        end = logs[0]
        for base, kind in sorted(self._originals(logs[0]).items()):
            if base >= end:
                if kind == DELETED:
                    self._bring_back(base)
                end = max(base, self._end(base, "", whole=False) or 0)
        for base in logs:
            self._set_aside(base, SWAP)
        return (
            f"{self._name}: {logs[0]:020d}{LOG}{SWAP} of Apache Kafka is damaged or holds less than what it should "
            "replace: it was set aside as .cut, and the segments themselves are served"
        )

    def _bring_back(self, base: int) -> None:
        """The log before its indexes, where no other log has that name."""
        given_up = self._files[DELETED].get(base, set())
        if LOG in given_up and LOG not in self._files[""].get(base, ()):
            self._set_aside(base, "")
            for suffix in [suffix for suffix in reversed(_INDEXES_FIRST) if suffix in given_up]:
                self._rename(base, suffix, DELETED, "")

    def _place(self, base: int) -> None:
        for suffix in list(self._files[SWAP][base]):
            there = self._files[""].get(base, set())
            if LOG in there and suffix not in there:
                self._rename(base, suffix, SWAP, "")
        self._set_aside(base, SWAP)

    def _rename(self, base: int, suffix: str, kind: str, to: str) -> None:
        path = f"{self._directory}/{base:020d}{suffix}"
        with suppress(FileNotFoundError):
            disk.rename(path + kind, path + to)
        self._files[kind][base].discard(suffix)
        self._files[to].setdefault(base, set()).add(suffix)

    def _set_aside(self, base: int, kind: str) -> None:
        """Indexes before the log: dying in between leaves a log that is set aside again."""
        for suffix in _INDEXES_FIRST:
            if suffix in self._files[kind].get(base, ()):
                with suppress(FileNotFoundError):
                    set_aside(f"{self._directory}/{base:020d}{suffix}{kind}")
                self._files[kind][base].discard(suffix)


def _files(directory: str) -> dict[str, dict[int, set[str]]]:
    """What belongs to segments, by what its name ends in (nothing: it is in its place), by base offset."""
    found: dict[str, dict[int, set[str]]] = {kind: {} for kind in (SWAP, CLEANED, DELETED, "")}
    matches = [match for name in disk.names(directory) if (match := _FILE.fullmatch(name))]
    if any(match[3] in (SWAP, CLEANED) for match in matches):
        for match in matches:
            with suppress(FileNotFoundError):
                if S_ISREG(disk.status(os.path.join(directory, match[0])).st_mode):
                    found[match[3]].setdefault(int(match[1]), set()).add(match[2])
    return found
