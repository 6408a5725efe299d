"""One copy of a partition into another log directory, made beside the appends that go on in the old one (KIP-113). Runs
in a thread of the log keeper.

Segments are copied as they are, with their indexes; what retention or DeleteRecords took away meanwhile goes from the
copy, too, and a truncation or a compaction begins it anew. `copy` returns when so little is missing that the rest can
be copied under the partition's lock (native/log/move.h), and may be called again when that was not so any more. Died
anywhere, the next one begins anew.
"""

from __future__ import annotations

import os
import struct
from bisect import bisect_right
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Final, NamedTuple

from mpbroker._native import Log, PartitionState
from mpbroker.log import disk
from mpbroker.log.kept_partitions import KeptPartition
from mpbroker.log.partition_directory import EPOCH_FILE, METADATA_FILE, MOVED_HERE
from mpbroker.log.producer_snapshot import SUFFIX as SNAPSHOT
from mpbroker.log.segment_recovery import INDEX, LOG, TIME_INDEX
from mpbroker.log.segment_swap import segment_path
from mpbroker.log.txn_index_file import SUFFIX as TXN_INDEX
from mpbroker.shm.layout import PARTITION_EXISTS, PARTITION_ONLINE

FILES: Final = (LOG, INDEX, TIME_INDEX, TXN_INDEX)  # in the order of MPB_FILE_*
PIECE_BYTES: Final = 1 << 20
NEAR_BYTES: Final = 128 << 10
"""What may be missing when `copy` returns: half of what is copied under the lock at most. A log that grows too fast for
that is allowed more and more, up to MOST_NEAR_BYTES: its move ends, and its appends wait for some ten milliseconds."""
MOST_NEAR_BYTES: Final = 8 << 20
PATIENCE_ROUNDS: Final = 16
MAX_INDEX_BYTES: Final = 64 << 20
Lengths = tuple[int, int, int, int]
SHOWN: Final = PARTITION_EXISTS | PARTITION_ONLINE
MAX_ROUNDS: Final = 1_000_000
LAST_ROUNDS: Final = 8


class CalledOff(Exception):
    """The move is not wanted any more, or the partition is gone."""


class SourceUnreadable(Exception):
    """The old directory cannot be read: its sentence says why."""


class Copied(NamedTuple):
    """How far a copy is: what mpb_move_end compares with the log, and takes over."""

    truncations: int
    segment_count: int
    active_base: int
    log_start: int
    synced: int
    lengths: Lengths
    tail_bytes: int


class Wish(NamedTuple):
    """A partition that shall lie in log directory `to`. `number`: of the ask."""

    partition: KeptPartition
    to: int
    number: int


class ReplicaMove:
    """`source` and `target`: the partition's directory and the copy's. `pace(bytes)` is called for all that is copied,
    and may sleep; it raises to stop."""

    def __init__(
        self,
        log: Log,
        wish: Wish,
        source: str,
        target: str,
        pace: Callable[[int], None],
        crash_point: Callable[[str], None],
    ) -> None:
        self._log = log
        self._wish = wish
        self._ordinal = wish.partition.ordinal
        self._source = source
        self._target = target
        self._pace = pace
        self._crash_point = crash_point
        self._truncations = -1
        self._closed: set[int] = set()  # bases of segments that are whole in the copy
        self._lengths: dict[tuple[int, str], int] = {}  # of the others' files
        self._unsynced: set[str] = set()  # files of whole segments
        self._near = NEAR_BYTES
        self.bytes_copied = 0

    def copy(self) -> Copied:
        """Catch up with the log. CalledOff; SourceUnreadable; OSError: of the new directory."""
        if self._truncations >= 0:
            self._allow_more()  # it had caught up before, and could not end
        for number in range(1, MAX_ROUNDS):
            if number % PATIENCE_ROUNDS == 0:
                self._allow_more()
            state = self._state()
            if state.truncations != self._truncations:
                self._begin_anew(state)
            missing = self._round(state, paced=True)
            if missing is not None and missing <= self._near:
                return self._settle(state)
        raise CalledOff

    def is_called_off(self) -> bool:
        """Whether nobody wants this copy any more: then it may have been taken away while it was made."""
        try:
            self._state()
        except CalledOff:
            return True
        except SourceUnreadable:
            pass
        return False

    def _allow_more(self) -> None:
        self._near = min(self._near * 2, MOST_NEAR_BYTES)

    def follow(self, copied: Copied) -> Copied | None:
        """The same copy with what came since, unthrottled: the moment before its end. None: it is not that log any
        more, or grows too fast; `copy` again. Raises what `copy` does."""
        for _ in range(LAST_ROUNDS):
            state = self._state()
            if (state.truncations, state.log_start) != (copied.truncations, copied.log_start):
                return None
            missing = self._round(state, paced=False)
            if missing is not None and missing <= self._near:
                base, count, most = state.active_base, state.segment_count, 2 * self._near
                lengths = self._active_lengths(base)
                return copied._replace(active_base=base, segment_count=count, lengths=lengths, tail_bytes=most)
        self._allow_more()
        return None

    def _round(self, state: PartitionState, *, paced: bool) -> int | None:
        """Copy what is not copied; how many bytes that was. None: the log changed meanwhile."""
        bases = self._bases(state)
        if bases[-1:] != [state.active_base]:
            return None  # rolled
        self._drop_others(bases)
        try:
            return self._copy_closed(bases[:-1], paced=paced) + self._copy_active(state, paced=paced)
        except (FileNotFoundError, SourceUnreadable):  # retention or a truncation was here?
            now = self._state()
            if now.truncations == state.truncations and self._bases(now) == bases:
                raise
            return None

    # ---- the log

    def _state(self) -> PartitionState:
        wanted = self._log.move_of(self._ordinal)
        if wanted is None or wanted[1] != self._wish.number:
            raise CalledOff
        try:
            state = self._log.state(self._ordinal)
        except RuntimeError as error:
            raise SourceUnreadable(str(error)) from None
        if state.flags & SHOWN != SHOWN or state.dir != self._wish.partition.dir:
            raise CalledOff
        return state

    def _bases(self, state: PartitionState) -> list[int]:
        """Of the segments that are on the log's books: older ones are being deleted."""
        bases: list[int] = self._log.segments(self._ordinal)
        return bases[-state.segment_count :]

    # ---- the copy

    def _begin_anew(self, state: PartitionState) -> None:
        """Of another log nothing is of use."""
        for name in disk.names(self._target):
            if name != METADATA_FILE:
                disk.unlink(f"{self._target}/{name}")
        self._closed.clear()
        self._lengths.clear()
        self._unsynced.clear()
        self._truncations = state.truncations

    def _drop_others(self, bases: list[int]) -> None:
        there = self._closed | {base for base, _ in self._lengths}
        for base in there.difference(bases):
            for suffix in FILES:
                with suppress(FileNotFoundError):
                    disk.unlink(segment_path(self._target, base, suffix))
                self._lengths.pop((base, suffix), None)
                self._unsynced.discard(segment_path(self._target, base, suffix))
            self._closed.discard(base)

    def _copy_closed(self, bases: list[int], *, paced: bool) -> int:
        """Segments that nobody writes any more: whole, with the time of the last write, which retention goes by. They
        are synced all together by `_settle`, later ones at once. How many bytes that was."""
        copied = 0
        for base in bases:
            if base in self._closed:
                continue
            for suffix in FILES:
                path = segment_path(self._source, base, suffix)
                if suffix == LOG or disk.exists(path):
                    copied += self._copy_file(base, suffix, disk.size(path), sync=not paced, paced=paced)
                    if paced:
                        self._unsynced.add(segment_path(self._target, base, suffix))
            written = disk.status(segment_path(self._source, base, LOG)).st_mtime_ns
            disk.set_modified(segment_path(self._target, base, LOG), written)
            self._closed.add(base)
            for suffix in FILES:
                self._lengths.pop((base, suffix), None)
            self._crash_point("mover.segment_copied")
        return copied

    def _copy_active(self, state: PartitionState, *, paced: bool) -> int:
        ends = (state.position, state.index_bytes, state.time_index_bytes, state.txn_index_bytes)
        return sum(
            self._copy_file(state.active_base, suffix, end, sync=False, paced=paced)
            for suffix, end in zip(FILES, ends, strict=True)
            if end or suffix != TXN_INDEX
        )

    def _copy_file(self, base: int, suffix: str, end: int, *, sync: bool, paced: bool) -> int:
        """Up to a length; what a predecessor wrote beyond it is cut. How many bytes that was."""
        at = begun = self._lengths.get((base, suffix), 0)
        positions = self._positions(base) if suffix == LOG and end - at > NEAR_BYTES else []
        with disk.opened(segment_path(self._target, base, suffix), os.O_CREAT | os.O_WRONLY) as to:
            for piece in self._pieces(segment_path(self._source, base, suffix), at, end):
                disk.write_at(to, piece, at)
                at += len(piece)
                self._lengths[base, suffix] = at
                self.bytes_copied += len(piece)
                if suffix == LOG:
                    self._show(base, positions, at)
                if paced:
                    self._pace(len(piece))
                self._state()  # raises when it is called off
            disk.truncate(to, end)
            if sync:
                disk.sync(to)
        self._lengths[base, suffix] = end
        return at - begun

    def _pieces(self, path: str, at: int, end: int) -> Iterator[bytes]:
        """Opened for each: at its pace a copy is at a segment for minutes, and retention may remove it."""
        while at < end:
            try:
                with disk.opened(path) as descriptor:
                    piece = disk.read_at(descriptor, min(PIECE_BYTES, end - at), at)
            except FileNotFoundError:
                raise
            except OSError as error:
                raise SourceUnreadable(str(error)) from None
            if not piece:
                raise SourceUnreadable(f"{path} ends at {at}, before {end}")
            yield piece
            at += len(piece)

    # ---- what is shown of it

    def _positions(self, base: int) -> list[tuple[int, int]]:
        """(position, offset) of a segment's batches that its index names."""
        with suppress(OSError):
            index = disk.read_whole(segment_path(self._source, base, INDEX), MAX_INDEX_BYTES)
            entries = struct.iter_unpack(">ii", index[: len(index) // 8 * 8])
            return [(position, base + relative) for relative, position in entries]
        return []

    def _show(self, base: int, positions: list[tuple[int, int]], at: int) -> None:
        """An end that was reached: what the index says of what has been copied, rather less than more."""
        found = bisect_right(positions, (at, 0)) - 1
        offset = positions[found][1] if found >= 0 else base
        self._log.show_future(self._ordinal, offset, self._bytes())

    def _bytes(self) -> int:
        """Of the logs in the copy."""
        with suppress(OSError):
            return sum(disk.size(f"{self._target}/{name}") for name in disk.names(self._target) if name.endswith(LOG))
        return 0

    # ---- its end

    def _settle(self, state: PartitionState) -> Copied:
        """What is copied is synced, and marked as whole; then the log may change places with it."""
        base = state.active_base
        active = segment_path(self._target, base, TXN_INDEX)
        for path in [*sorted(self._unsynced), segment_path(self._target, base, LOG), active]:
            if path != active or disk.exists(path):
                with disk.opened(path, os.O_WRONLY) as descriptor:
                    disk.sync(descriptor)
            self._unsynced.discard(path)
        self._copy_others()
        disk.write_file(f"{self._target}/{MOVED_HERE}", b"", sync_it=True)
        disk.sync_directory(self._target)
        self._log.show_future(self._ordinal, state.leo, self._bytes())
        self._crash_point("mover.copied")
        lengths = self._active_lengths(base)
        most = 2 * self._near
        return Copied(state.truncations, state.segment_count, base, state.log_start, state.leo, lengths, most)

    def _active_lengths(self, base: int) -> Lengths:
        log, index, time_index, txn_index = (self._lengths.get((base, suffix), 0) for suffix in FILES)
        return log, index, time_index, txn_index

    def _copy_others(self) -> None:
        """Leader epochs, and snapshots of producers: the newest are enough, and without any the log is read."""
        names = disk.names(self._source)
        for name in [EPOCH_FILE, *sorted(name for name in names if name.endswith(SNAPSHOT))[-2:]]:
            with suppress(FileNotFoundError):
                content = disk.read_whole(f"{self._source}/{name}", MAX_INDEX_BYTES)
                disk.write_file(f"{self._target}/{name}", content, sync_it=True)
