"""Start-up recovery of one partition's directory: what is on disk becomes the state that is published.

Runs in the controller at start and after a reset, before the partition is shown to anybody; nobody else writes these
files then. After a clean stop only sizes are checked and the tail behind the last index entry is read. Otherwise every
segment from the recovery point on is read with checksums and its indexes are written anew; at the first byte that is
no whole batch the log is cut and all later segments go, with a line saying what was cut. Doing it twice does no harm.
"""

from __future__ import annotations

import os
import struct

from msgspec import Struct, field

from mpbroker._native import scan_segment
from mpbroker.log.producer_snapshot import ProducerEntry, newest_snapshot, remove_snapshots, snapshot_offsets

LOG, INDEX, TIME_INDEX = ".log", ".index", ".timeindex"
INDEX_ENTRY, TIME_INDEX_ENTRY = struct.Struct(">ii"), struct.Struct(">qi")
FIRST_TIMESTAMP = struct.Struct(">q")
FIRST_TIMESTAMP_AT = 35  # of a batch header: its largest timestamp
CUT_OFF, CORRUPT = 1, 2
LEFTOVERS = (".deleted", ".cleaned", ".swap", ".tmp")
NO_TIMESTAMP = -1


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


class RecoveredLog(Struct):
    """A partition after recovery. `cut` lists what was removed, one sentence each; `producers` by id; `unsound`: index
    files of a clean stop that could not be believed and were written anew from the log."""

    active: SegmentState
    log_start: int
    segment_count: int
    log_bytes: int
    producers: dict[int, ProducerEntry] = field(default_factory=dict)
    cut: list[str] = field(default_factory=list)
    unsound: list[str] = field(default_factory=list)


class LogRecovery:
    """Recovers one directory. `clean`: the broker that last wrote here stopped cleanly. Offsets below
    `recovery_point` are known to be on disk; `log_start` is the checkpointed log start (0: none). Compacted logs have
    gaps between segments; elsewhere a gap means that records are lost, and what follows it goes too."""

    def __init__(
        self,
        directory: str,
        *,
        index_interval_bytes: int,
        clean: bool,
        recovery_point: int = 0,
        log_start: int = 0,
        gaps_allowed: bool = False,
    ) -> None:
        self.gaps_allowed = gaps_allowed
        self.directory = directory
        self.index_interval_bytes = index_interval_bytes
        self.clean = clean
        self.recovery_point = recovery_point
        self.checkpointed_log_start = log_start
        self.cut: list[str] = []
        self.unsound: list[str] = []

    def run(self) -> RecoveredLog:
        """Repairs the files and returns the state they stand for. OSError: the directory cannot be used."""
        self._remove_leftovers()
        bases = self._bases() or [self._create_first()]
        last = self._sound_segments(bases)
        bases = bases[: bases.index(last.base) + 1]
        log_start = min(max(self.checkpointed_log_start, bases[0]), last.next_offset)
        producers = self._producers(bases, last.next_offset)
        log_bytes = sum(os.path.getsize(self._path(base, LOG)) for base in bases)
        return RecoveredLog(last, log_start, len(bases), log_bytes, producers, self.cut, self.unsound)

    def _path(self, base: int, suffix: str) -> str:
        return os.path.join(self.directory, f"{base:020d}{suffix}")

    def _bases(self) -> list[int]:
        stems = (name[: -len(LOG)] for name in os.listdir(self.directory) if name.endswith(LOG))
        return sorted(int(stem) for stem in stems if len(stem) == 20 and stem.isdecimal())

    def _remove_leftovers(self) -> None:
        """Files that a deletion or a rewriting left half done, and indexes without a log."""
        names = set(os.listdir(self.directory))
        for name in sorted(names):
            stem, suffix = os.path.splitext(name)
            orphan = suffix in (INDEX, TIME_INDEX) and stem + LOG not in names
            if name.endswith(LEFTOVERS) or orphan:
                os.unlink(os.path.join(self.directory, name))

    def _create_first(self) -> int:
        base = self.checkpointed_log_start
        for suffix in (LOG, INDEX, TIME_INDEX):
            os.close(os.open(self._path(base, suffix), os.O_CREAT | os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC, 0o644))
        return base

    def _sound_segments(self, bases: list[int]) -> SegmentState:
        """Goes through the segments in order, stops at the first that had to be cut, returns the active one."""
        state = None
        for number, base in enumerate(bases):
            following = bases[number + 1] if number + 1 < len(bases) else None
            if state is not None and base < state.next_offset:
                self._remove_from(bases[number:], f"segment {base} begins before the one below it ends")
                break
            settled = following is not None and (self.clean or following <= self.recovery_point)
            if settled and self._indexes_sound(base):
                continue
            state, damage = self._scan(base, active=following is None, settled=settled)
            if not damage and following is not None and state.next_offset < following and not self.gaps_allowed:
                damage = f"offsets {state.next_offset} to {following - 1} are missing before it"
            if damage:
                self._remove_from(bases[number + 1 :], damage)
                break
        if state is None:
            state, _ = self._scan(bases[-1], active=True, settled=False)
        return state

    def _scan(self, base: int, active: bool, settled: bool) -> tuple[SegmentState, str]:
        if self.clean and active and self._indexes_sound(base):
            return self._read_tail(base), ""
        if self.clean:
            self._say_unsound(base)
        return self._rebuild(base, sync=settled)

    def _say_unsound(self, base: int) -> None:
        self.unsound.append(f"{os.path.basename(self.directory)}/{base:020d}{INDEX}")

    def _indexes_sound(self, base: int) -> bool:
        """Both indexes exist, hold whole entries, and the last one lies inside the log."""
        try:
            log_bytes = os.path.getsize(self._path(base, LOG))
            index, time_index = os.path.getsize(self._path(base, INDEX)), os.path.getsize(self._path(base, TIME_INDEX))
        except FileNotFoundError:
            return False
        if index % INDEX_ENTRY.size or time_index % TIME_INDEX_ENTRY.size:
            return False
        offset, position = self._last_entry(base, INDEX, INDEX_ENTRY) or (0, 0)
        return offset >= 0 and 0 <= position <= log_bytes and (index == 0 or position < log_bytes)

    def _last_entry(self, base: int, suffix: str, entry: struct.Struct) -> tuple[int, int] | None:
        with open(self._path(base, suffix), "rb") as file:
            size = os.fstat(file.fileno()).st_size
            return entry.unpack(os.pread(file.fileno(), entry.size, size - entry.size)) if size else None

    def _read_tail(self, base: int) -> SegmentState:
        """After a clean stop: reads from the last index entry on, with checksums; falls back to a rebuild."""
        last_set = self._last_entry(base, INDEX, INDEX_ENTRY)
        last_time = self._last_entry(base, TIME_INDEX, TIME_INDEX_ENTRY) or (NO_TIMESTAMP, 0)
        if last_set is None:
            return self._rebuild(base, sync=False)[0]
        with open(self._path(base, LOG), "rb") as log:
            scan = scan_segment(
                log.fileno(),
                -1,
                -1,
                base,
                self.index_interval_bytes,
                True,
                None,
                last_set[1],
                base,
                last_time[0],
                base + last_time[1],
            )
            first = FIRST_TIMESTAMP.unpack(os.pread(log.fileno(), FIRST_TIMESTAMP.size, FIRST_TIMESTAMP_AT))[0]
        if scan.end or scan.batches == 0:
            self._say_unsound(base)
            return self._rebuild(base, sync=False)[0]
        return SegmentState(
            base,
            scan.next_offset,
            scan.valid_bytes,
            os.path.getsize(self._path(base, INDEX)),
            os.path.getsize(self._path(base, TIME_INDEX)),
            scan.max_timestamp,
            scan.max_timestamp_offset,
            first,
            last_time[0],
            scan.valid_bytes - last_set[1],
        )

    def _rebuild(self, base: int, sync: bool) -> tuple[SegmentState, str]:
        """Reads the whole segment, writes its indexes anew, cuts what is not whole. Returns what was wrong, too.

        `sync` is for segments that count as flushed; what is above them the log keeper syncs with its next flush."""
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
        opened = [os.open(self._path(base, suffix), flags, 0o644) for suffix in (LOG, INDEX, TIME_INDEX)]
        try:
            scan = scan_segment(*opened, base, self.index_interval_bytes, True, None)
            damage = ""
            if scan.valid_bytes < scan.file_bytes:
                damage = self._describe(base, scan)
                self.cut.append(damage)
                os.ftruncate(opened[0], scan.valid_bytes)
            for descriptor in opened if sync else ():
                os.fsync(descriptor)
        finally:
            for descriptor in opened:
                os.close(descriptor)
        state = SegmentState(
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
        return state, damage

    def _describe(self, base: int, scan) -> str:
        what = "its last batch is cut off" if scan.end == CUT_OFF else "what follows is no sound batch"
        return (
            f"{os.path.basename(self.directory)}/{base:020d}.log: cut from {scan.file_bytes} to "
            f"{scan.valid_bytes} bytes (offset {scan.next_offset}): {what}"
        )

    def _remove_from(self, bases: list[int], reason: str) -> None:
        """Highest first, indexes before logs: dying in between leaves a log without a gap."""
        for base in reversed(bases):
            self.cut.append(f"{os.path.basename(self.directory)}/{base:020d}.log: removed: {reason}")
            for suffix in (TIME_INDEX, INDEX, LOG):
                if os.path.exists(self._path(base, suffix)):
                    os.unlink(self._path(base, suffix))

    def _producers(self, bases: list[int], end_offset: int) -> dict[int, ProducerEntry]:
        """Newest snapshot at or below the end, then every batch behind it."""
        keep = {offset for offset in snapshot_offsets(self.directory) if offset <= end_offset}
        remove_snapshots(self.directory, keep)
        start, entries = newest_snapshot(self.directory, end_offset)
        producers = {entry.producer_id: entry for entry in entries}
        if start >= end_offset:
            return producers

        def visit(first, last, timestamp_ms, producer_id, epoch, sequence, count):
            if first >= start:
                producers[producer_id] = ProducerEntry(
                    producer_id, epoch, (sequence + count - 1) % 2**31, last, last - first, timestamp_ms
                )

        for number, base in enumerate(bases):
            if number + 1 < len(bases) and bases[number + 1] <= start:
                continue
            with open(self._path(base, LOG), "rb") as log:
                scan_segment(log.fileno(), -1, -1, base, self.index_interval_bytes, False, visit)
        return producers
