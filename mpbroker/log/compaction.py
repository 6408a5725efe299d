"""One compaction of one partition: learns the newest offset of each key from the part that is not compacted yet, then
writes segments without older records and swaps them in. Runs in a thread of the log keeper, beside its jobs.

Facts: Kafka's LogCleaner. The active segment and what lies at or above the last stable offset are never touched;
offsets stay; a record without a key goes. What is left of several small segments becomes one. Died anywhere, the next
compaction begins anew; from the `.swap` file on the swap is finished by a repair or a start (native/log/swap.h).
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Final, NamedTuple

from mpbroker._native import (
    COMPACT_BROKEN,
    COMPACT_COMPRESSED,
    COMPACT_CORRUPT,
    COMPACT_DROP,
    COMPACT_END,
    COMPACT_FULL,
    COMPACT_KEEP,
    KeyMap,
    Log,
    scan_segment,
    seal_batch,
)
from mpbroker.log import disk
from mpbroker.log.segment_recovery import LOG, SUFFIXES
from mpbroker.log.segment_swap import CLEANED, abandon_swaps, remove_cleaned, segment_path, swap_path
from mpbroker.log.txn_index_file import SUFFIX as TXN_INDEX
from mpbroker.log.txn_index_file import read_aborted
from mpbroker.record.compression import Decompressor, compress, decompressed_limit_bytes

HEADER_BYTES: Final = 61
LENGTH_AT, ATTRIBUTES_AT, COUNT_AT = 8, 21, 57
CODEC_MASK: Final = 7
MAX_OFFSETS_A_SEGMENT: Final = 2**31 - 1
MAX_SEGMENTS_A_GROUP: Final = 256


class NotCompacted(Exception):
    """The partition cannot be compacted: its sentence says why."""


class LogChanged(Exception):
    """Retention or a truncation came in between: begin anew."""


class Limits(NamedTuple):
    """What one compaction may use and has to keep to."""

    first_dirty: int
    until: int  # offsets from here on are not looked at
    now_ms: int
    delete_retention_ms: int
    memory_bytes: int
    load_factor: float
    buffer_bytes: int
    segment_bytes: int
    index_interval_bytes: int
    max_message_bytes: int


class Compacted(NamedTuple):
    """What came of it: everything below `clean_to` is compacted."""

    clean_to: int
    keys: int
    bytes_read: int
    bytes_before: int
    bytes_after: int


class Segment(NamedTuple):
    """A segment that is not the active one."""

    base: int
    end: int  # base of the next
    log_bytes: int


class Compaction:
    """One pass. `pace(bytes)` is called for all that is read and written, and may sleep; it raises to stop. Meanwhile
    nothing is open that somebody might remove. `swapped(bases)` is called behind each swap with the segments that were
    renamed to `.deleted`: one more was replaced under its name."""

    def __init__(
        self,
        log: Log,
        ordinal: int,
        topic_id: bytes,
        directory: str,
        limits: Limits,
        pace: Callable[[int], None],
        crash_point: Callable[[str], None],
        swapped: Callable[[list[int]], None],
    ) -> None:
        self._log = log
        self._ordinal = ordinal
        self._topic_id = topic_id
        self._directory = directory
        self._limits = limits
        self._pace = pace
        self._crash_point = crash_point
        self._swapped = swapped
        self._decompressor = Decompressor()
        self._map = KeyMap(limits.memory_bytes, limits.load_factor, os.urandom(16))
        self._out = bytearray(4 * limits.buffer_bytes)
        self._read = self._before = self._after = 0

    def run(self) -> Compacted:
        """Compact. NotCompacted; LogChanged; OSError of the disk, after which nothing has changed."""
        state = self._log.state(self._ordinal)
        abandon_swaps(self._directory)
        segments = self._segments(state.log_start, state.active_base)
        self._map.set_aborted(self._aborted(segments, state.active_base, state.leo))
        clean_to = self._learn(segments)
        if clean_to <= self._limits.first_dirty and segments:
            raise NotCompacted("the memory for keys (log.cleaner.dedupe.buffer.size) holds not one batch's")
        producers = self._producers()
        truncations = state.truncations
        for group in self._groups(segments, clean_to):
            truncations = self._replace(group, producers, truncations)
        return Compacted(clean_to, self._map.count, self._read, self._before, self._after)

    def _segments(self, log_start: int, active_base: int) -> list[Segment]:
        """Those with records at or above log start, without the active one."""
        bases = [base for base in self._log.segments(self._ordinal) if base <= active_base]
        found = []
        for base, end in pairwise(bases):
            if end > log_start:
                found.append(Segment(base, end, disk.size(segment_path(self._directory, base, LOG))))
        return found

    def _producers(self) -> bytes:
        """Last offset of each producer's newest batch, as KeyMap takes them."""
        _, rows = self._log.producers(self._ordinal)
        newest = {row[0]: row[4] + row[5] for row in rows}
        return b"".join(struct.pack("=qq", *pair) for pair in sorted(newest.items()))

    def _aborted(self, segments: list[Segment], active_base: int, end_offset: int) -> bytes:
        """Transactions that were aborted up to now, as KeyMap takes them. What they wrote has no newest record of any
        key, and nothing of it stays; so a cleaned segment needs no .txnindex, and the swap removes it."""
        rows = []
        for base in [*(segment.base for segment in segments), active_base]:
            try:
                rows += read_aborted(segment_path(self._directory, base, TXN_INDEX), cut_off=base == active_base)
            except ValueError as error:
                raise NotCompacted(f"the .txnindex of segment {base} is damaged: {error}") from None
        known = sorted((row.producer_id, row.first_offset, row.last_offset) for row in rows)
        return b"".join(struct.pack("=qqq", *row) for row in known if row[2] < end_offset)

    # ---- keys

    def _learn(self, segments: list[Segment]) -> int:
        """Take in keys from the first dirty offset on; the offset below which all were taken in."""
        limits = self._limits
        for segment in segments:
            if segment.end <= limits.first_dirty:
                continue
            if segment.base >= limits.until:
                return limits.until
            stopped = self._learn_segment(segment)
            if stopped is not None:
                return stopped
        return min(limits.until, segments[-1].end) if segments else limits.first_dirty

    def _learn_segment(self, segment: Segment) -> int | None:
        """None: all of it. Otherwise the offset at which it stopped: the map is full, or it goes no further."""
        limits = self._limits
        for view, at in self._pieces(segment):
            done = 0
            while True:
                stop, taken = self._map.learn(view[done:], limits.first_dirty, limits.until)
                done += taken
                if stop == COMPACT_COMPRESSED:
                    batch = _batch_at(view, done)
                    stop = self._map.learn_batch(batch, self._records(batch, segment), limits.first_dirty)
                    if stop == COMPACT_END:
                        done += len(batch)
                        continue
                break
            if stop == COMPACT_CORRUPT:
                raise NotCompacted(f"segment {segment.base} is damaged at byte {at + done}")
            if stop != COMPACT_END:
                return _base_offset(view, done)
        return None

    # ---- segments

    def _groups(self, segments: list[Segment], clean_to: int) -> Iterator[list[Segment]]:
        """Neighbours that fit into one segment together. A segment that reaches beyond `clean_to` is compacted, too:
        keys that were not taken in lose nothing."""
        group: list[Segment] = []
        for segment in segments:
            if segment.base >= clean_to:
                break
            fits = group and (
                sum(each.log_bytes for each in group) + segment.log_bytes <= self._limits.segment_bytes
                and segment.end - group[0].base <= MAX_OFFSETS_A_SEGMENT
                and len(group) < MAX_SEGMENTS_A_GROUP
            )
            if group and not fits:
                yield group
                group = []
            group.append(segment)
        if group:
            yield group

    def _replace(self, group: list[Segment], producers: bytes, truncations: int) -> int:
        """Write what is left of a group and swap it in; the truncation count from then on."""
        base, end = group[0].base, group[-1].end
        paths = [segment_path(self._directory, base, suffix) + CLEANED for suffix in SUFFIXES]
        before, (after, changed) = sum(segment.log_bytes for segment in group), self._write(group, paths[0], producers)
        if len(group) == 1 and not changed:  # nothing was taken out, nothing began its time
            remove_cleaned(self._directory)
            return truncations
        self._index(base, paths)
        newest = max(disk.status(segment_path(self._directory, each.base, LOG)).st_mtime_ns for each in group)
        disk.set_modified(paths[0], newest)  # retention goes by it, too
        self._swap(base, end, truncations)
        self._before += before
        self._after += after
        self._swapped([segment.base for segment in group[1:]])
        return truncations + 2

    def _write(self, group: list[Segment], path: str, producers: bytes) -> tuple[int, bool]:
        """What is left of a group, synced; its bytes, and whether they are others than before."""
        written, changed = 0, False
        with disk.opened(path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC) as descriptor:
            for segment in group:
                for whole, piece in self._left_of(segment, producers):
                    changed = changed or bytes(whole) != piece  # a view compares byte by byte
                    disk.write(descriptor, piece)
                    written += len(piece)
                    self._pace(len(piece))
            disk.sync(descriptor)
        return written, changed

    def _left_of(self, segment: Segment, producers: bytes) -> Iterator[tuple[memoryview, bytes]]:
        """Piece by piece: what there was, and what is left of it."""
        limits = self._limits
        for view, at in self._pieces(segment):
            done = 0
            while done < len(view):
                stop, taken, produced = self._map.apply(
                    view[done:], self._out, limits.now_ms, limits.delete_retention_ms, producers
                )
                yield view[done : done + taken], bytes(self._out[:produced])
                done += taken
                if stop == COMPACT_END:
                    break
                if stop == COMPACT_CORRUPT:
                    raise NotCompacted(f"segment {segment.base} is damaged at byte {at + done}")
                if stop == COMPACT_FULL and not taken:
                    self._out = bytearray(2 * len(self._out))
                if stop == COMPACT_COMPRESSED:
                    batch = _batch_at(view, done)
                    yield batch, self._left_of_compressed(batch, segment, producers)
                    done += len(batch)

    def _left_of_compressed(self, batch: memoryview, segment: Segment, producers: bytes) -> bytes:
        limits = self._limits
        verdict, left = self._map.apply_batch(
            batch, self._records(batch, segment), limits.now_ms, limits.delete_retention_ms, producers
        )
        if verdict == COMPACT_KEEP:
            return bytes(batch)
        if verdict == COMPACT_DROP:
            return b""
        if verdict == COMPACT_BROKEN:
            raise NotCompacted(f"records of the batch at offset {_base_offset(batch, 0)} cannot be read")
        header, records = bytearray(left[:HEADER_BYTES]), left[HEADER_BYTES:]
        if not int.from_bytes(header[COUNT_AT : COUNT_AT + 4], "big"):  # emptied: nothing is left to compress
            header[ATTRIBUTES_AT + 1] &= ~CODEC_MASK
            rebuilt = header
        else:
            rebuilt = header + compress(batch[ATTRIBUTES_AT + 1] & CODEC_MASK, records)
        seal_batch(rebuilt)
        return bytes(rebuilt)

    def _index(self, base: int, paths: list[str]) -> None:
        """Read the cleaned log once more, with checksums, and write its indexes."""
        flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC
        with disk.opened(paths[0]) as log, disk.opened(paths[1], flags) as index, disk.opened(paths[2], flags) as times:
            scan = scan_segment(log, index, times, base, self._limits.index_interval_bytes, True, None)
            if scan.valid_bytes != scan.file_bytes:
                raise NotCompacted(f"what was written in place of segment {base} is not sound; nothing was changed")
            disk.sync(index)
            disk.sync(times)

    def _swap(self, base: int, end: int, truncations: int) -> None:
        mark = swap_path(self._directory, base, end)
        self._crash_point("cleaner.written")
        disk.write_file(mark, b"", sync_it=True)
        disk.sync_directory(self._directory)
        self._crash_point("cleaner.marked")
        error = self._log.swap(self._ordinal, self._topic_id, base, end, truncations)
        self._log.close_stale()  # it has opened what it replaced
        if error is None:
            disk.unlink(mark)  # before the cleaned files: without it they mean nothing
            raise LogChanged
        if error:
            raise NotCompacted(
                f"the swap of segment {base} failed with error {error}; it is finished by whoever is next"
            )
        self._crash_point("cleaner.swapped")
        disk.sync_directory(self._directory)
        disk.unlink(mark)

    # ---- bytes

    def _pieces(self, segment: Segment) -> Iterator[tuple[memoryview, int]]:
        """Whole batches of a segment, some at a time: (bytes, where they begin in the file)."""
        at = 0
        while at < segment.log_bytes:
            piece = self._piece(segment, min(self._limits.buffer_bytes, segment.log_bytes - at), at)
            whole, need = _whole_batches(piece)
            if not whole and need > len(piece):
                if at + need > segment.log_bytes:
                    raise NotCompacted(f"segment {segment.base} is damaged at byte {at}")
                piece = self._piece(segment, need, at)
                whole = len(piece)
            if not whole:
                raise NotCompacted(f"segment {segment.base} is damaged at byte {at}")
            self._read += whole
            self._pace(whole)
            yield memoryview(piece)[:whole], at
            at += whole

    def _piece(self, segment: Segment, length: int, at: int) -> bytes:
        """Opened for this alone: at its pace a compaction is at a segment for minutes, and retention may remove it."""
        try:
            with disk.opened(segment_path(self._directory, segment.base, LOG)) as descriptor:
                return disk.read_at(descriptor, length, at)
        except FileNotFoundError:
            raise LogChanged from None

    def _records(self, batch: memoryview, segment: Segment) -> memoryview:
        limit = decompressed_limit_bytes(self._limits.max_message_bytes)
        error, records = self._decompressor.decompress(
            batch[ATTRIBUTES_AT + 1] & CODEC_MASK, batch[HEADER_BYTES:], limit
        )
        if error:
            raise NotCompacted(
                f"the batch at offset {_base_offset(batch, 0)} of segment {segment.base} cannot be decompressed"
            )
        return records


def _whole_batches(piece: bytes) -> tuple[int, int]:
    """(bytes of the whole batches that `piece` begins with, bytes that the one behind them needs)."""
    at = 0
    while len(piece) - at >= HEADER_BYTES:
        need = int.from_bytes(piece[at + LENGTH_AT : at + LENGTH_AT + 4], "big", signed=True) + 12
        if need < HEADER_BYTES or at + need > len(piece):
            return at, max(0, need)
        at += need
    return at, HEADER_BYTES if at < len(piece) else 0


def _batch_at(view: memoryview, at: int) -> memoryview:
    length = int.from_bytes(view[at + LENGTH_AT : at + LENGTH_AT + 4], "big") + 12
    return view[at : at + length]


def _base_offset(view: memoryview, at: int) -> int:
    return int.from_bytes(view[at : at + 8], "big", signed=True)
