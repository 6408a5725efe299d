"""Recovery of one segment's files: its indexes are believed, or written anew from the log; what is no batch is kept.

Part of start-up recovery (log_recovery.py), in the controller's process. A log file is shortened only after its tail
has been copied beside it.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from contextlib import ExitStack
from typing import Final

from msgspec import Struct

from mpbroker._native import SegmentScan, scan_segment
from mpbroker.log import disk
from mpbroker.log.set_aside import keep_tail

LOG, INDEX, TIME_INDEX = ".log", ".index", ".timeindex"
SUFFIXES: Final = (LOG, INDEX, TIME_INDEX)
INDEX_ENTRY, TIME_INDEX_ENTRY = struct.Struct(">ii"), struct.Struct(">qi")
FIRST_TIMESTAMP = struct.Struct(">q")
FIRST_TIMESTAMP_AT: Final = 35  # of a batch header: its largest timestamp
BATCH_BEGIN: Final = struct.Struct(">qiib")  # base offset, length, leader epoch, magic
MAGIC: Final = 2
CUT_OFF, CORRUPT = 1, 2
NO_TIMESTAMP: Final = -1


class SegmentState(Struct):
    """The active segment as the partition row needs it; bytes, offsets, milliseconds."""

    base: int
    next_offset: int
    position: int
    index_bytes: int
    time_index_bytes: int
    max_timestamp: int
    max_timestamp_offset: int
    first_timestamp: int
    indexed_timestamp: int
    bytes_since_index: int


class SegmentRecovery:
    """Recovers segments of one directory. `say(sentence)` is told what was set aside, `unsound(file)` of index files
    that could not be believed although the broker stopped cleanly. OSError passes: the directory cannot be used."""

    def __init__(
        self, directory: str, index_interval_bytes: int, say: Callable[[str], None], unsound: Callable[[str], None]
    ) -> None:
        self._directory = directory
        self._index_interval_bytes = index_interval_bytes
        self._say = say
        self._unsound = unsound
        self.rebuilt: dict[int, int] = {}  # base of each segment that was read from its front → abort markers in it

    def path(self, base: int, suffix: str) -> str:
        """Path of one file of a segment."""
        return os.path.join(self._directory, f"{base:020d}{suffix}")

    def name(self, base: int) -> str:
        """A segment as log lines name it."""
        return f"{os.path.basename(self._directory)}/{base:020d}{LOG}"

    def first_offset(self, base: int) -> int | None:
        """The offset that the first batch of a segment claims; None if there is none, or nothing that begins as one."""
        with disk.opened(self.path(base, LOG)) as file:
            header = disk.read_at(file, BATCH_BEGIN.size, 0)
        if len(header) < BATCH_BEGIN.size:
            return None
        offset, _length, _epoch, magic = BATCH_BEGIN.unpack(header)
        return int(offset) if magic == MAGIC else None

    def next_offset(self, base: int) -> int:
        """The offset behind a segment's last batch, by the headers alone: from the last index entry on if it fits."""
        with disk.opened(self.path(base, LOG)) as log:
            last_set = self._last_entry(base, INDEX, INDEX_ENTRY) if self.indexes_sound(base) else None
            if last_set is not None:
                start = (last_set[1], base, NO_TIMESTAMP, base)
                scan = scan_segment(log, -1, -1, base, self._index_interval_bytes, False, None, *start)
                if scan.batches:
                    return scan.next_offset
            return scan_segment(log, -1, -1, base, self._index_interval_bytes, False, None).next_offset

    def indexes_sound(self, base: int) -> bool:
        """Both indexes exist, hold whole entries, and the last one lies inside the log."""
        try:
            log_bytes = disk.size(self.path(base, LOG))
            index, time_index = disk.size(self.path(base, INDEX)), disk.size(self.path(base, TIME_INDEX))
        except FileNotFoundError:
            return False
        if index % INDEX_ENTRY.size or time_index % TIME_INDEX_ENTRY.size:
            return False
        offset, position = self._last_entry(base, INDEX, INDEX_ENTRY) or (0, 0)
        return offset >= 0 and 0 <= position <= log_bytes and (index == 0 or position < log_bytes)

    def _last_entry(self, base: int, suffix: str, entry: struct.Struct) -> tuple[int, ...] | None:
        with disk.opened(self.path(base, suffix)) as file:
            size = disk.status(file).st_size
            return entry.unpack(disk.read_at(file, entry.size, size - entry.size)) if size else None

    def read_tail(self, base: int) -> SegmentState:
        """The active segment after a clean stop: reads from the last index entry on, with checksums; falls back to a
        rebuild."""
        last_set = self._last_entry(base, INDEX, INDEX_ENTRY)
        last_time = self._last_entry(base, TIME_INDEX, TIME_INDEX_ENTRY) or (NO_TIMESTAMP, 0)
        if last_set is None:
            return self._read_short(base) or self.rebuild(base, settled=True)[0]
        start = (last_set[1], base, last_time[0], base + last_time[1])
        with disk.opened(self.path(base, LOG)) as log:
            scan = scan_segment(log, -1, -1, base, self._index_interval_bytes, True, None, *start)
            first = FIRST_TIMESTAMP.unpack(disk.read_at(log, FIRST_TIMESTAMP.size, FIRST_TIMESTAMP_AT))[0]
        if scan.end or scan.batches == 0:
            self._unsound(f"{self.name(base)[: -len(LOG)]}{INDEX}")
            return self.rebuild(base, settled=True)[0]
        return SegmentState(
            base,
            scan.next_offset,
            scan.valid_bytes,
            disk.size(self.path(base, INDEX)),
            disk.size(self.path(base, TIME_INDEX)),
            scan.max_timestamp,
            scan.max_timestamp_offset,
            first,
            last_time[0],
            scan.valid_bytes - last_set[1],
        )

    def _read_short(self, base: int) -> SegmentState | None:
        """A segment that is too short for an entry in its indexes, read with checksums; nothing is written, nothing
        synced: a broker may have thousands of them. None: it is damaged, or its indexes ought to have entries."""
        if disk.size(self.path(base, TIME_INDEX)):
            return None
        with disk.opened(self.path(base, LOG)) as log:
            scan = scan_segment(log, -1, -1, base, self._index_interval_bytes, True, None)
        if scan.end or scan.valid_bytes < scan.file_bytes or scan.bytes_since_index < scan.valid_bytes:
            return None
        self.rebuilt[base] = scan.aborts
        return _state(base, scan)

    def rebuild(self, base: int, *, settled: bool = False) -> tuple[SegmentState, bool]:
        """Reads the whole segment and writes its indexes anew; (state, whether the log had to be cut).

        `settled`: its records were synced before, so they are not given up for a wrong checksum: as in Kafka, the
        consumer finds that. What cannot even be walked, batch by batch, is cut off and kept beside the log. The files
        of settled segments are synced here; what is above them the log keeper syncs with its next flush."""
        with ExitStack() as files:
            flags = os.O_RDWR | os.O_CREAT
            opened = [files.enter_context(disk.opened(self.path(base, suffix), flags)) for suffix in SUFFIXES]
            log, index, time_index = opened
            interval = self._index_interval_bytes
            scan = scan_segment(log, index, time_index, base, interval, True, None)
            if settled and scan.valid_bytes < scan.file_bytes:
                self._say(f"{self.name(base)}: damaged at byte {scan.valid_bytes} (offset {scan.next_offset}); kept")
                scan = scan_segment(log, index, time_index, base, interval, False, None)
            self.rebuilt[base] = scan.aborts
            cut = scan.valid_bytes < scan.file_bytes
            if cut:
                self._cut(log, base, scan)
            for descriptor in opened if settled else ():
                disk.sync(descriptor)
        return _state(base, scan), cut

    def _cut(self, descriptor: int, base: int, scan: SegmentScan) -> None:
        kept = keep_tail(descriptor, self.path(base, LOG), scan.valid_bytes, scan.file_bytes)
        disk.truncate(descriptor, scan.valid_bytes)
        what = "its last batch is cut off" if scan.end == CUT_OFF else "what follows is no sound batch"
        self._say(
            f"{self.name(base)}: cut from {scan.file_bytes} to {scan.valid_bytes} bytes "
            f"(offset {scan.next_offset}): {what}; set aside as {os.path.basename(kept)}"
        )


def _state(base: int, scan: SegmentScan) -> SegmentState:
    return SegmentState(
        base,
        scan.next_offset,
        scan.valid_bytes,
        scan.index_bytes,
        scan.time_index_bytes,
        scan.max_timestamp,
        scan.max_timestamp_offset,
        scan.first_timestamp,
        scan.indexed_timestamp,
        scan.bytes_since_index,
    )
