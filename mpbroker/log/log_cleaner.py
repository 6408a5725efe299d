"""The log cleaner: chooses which compacted partition is the dirtiest and has it compacted, in a thread of its own
beside the log keeper's jobs. A job of the log keeper.

`cleaner-offset-checkpoint` remembers, as in Kafka, up to which offset each partition is compacted. A partition that
cannot be compacted is said once and left alone until the broker starts again; the others go on.
"""

from __future__ import annotations

import os
import queue
import threading
import time
from collections.abc import Callable
from itertools import pairwise
from typing import Final, NamedTuple

from mpbroker._native import Log
from mpbroker.log import disk
from mpbroker.log.checkpoint_file import Offsets, read_checkpoint, write_checkpoint
from mpbroker.log.compaction import Compacted, Compaction, Limits, LogChanged, NotCompacted, Segment
from mpbroker.log.keeper_context import Interval, KeeperContext
from mpbroker.log.kept_partitions import KeptPartition
from mpbroker.log.segment_recovery import LOG
from mpbroker.log.segment_swap import segment_path
from mpbroker.shm.layout import PARTITION_EXISTS, PARTITION_ONLINE

CLEANER_OFFSETS: Final = "cleaner-offset-checkpoint"
COMPACT: Final = "compact"
MIN_BUFFER_BYTES, MAX_BUFFER_BYTES = 1 << 16, 1 << 20
MAX_KEY_MEMORY_BYTES: Final = 100 << 20
"""Of log.cleaner.dedupe.buffer.size: the rest of 128 MiB is for buffers and decompressed batches."""
PAUSE_S: Final = 0.1
OPEN_SEGMENTS: Final = 64


class Dirt(NamedTuple):
    """How much of a partition is not compacted. `overdue`: some of it is older than max.compaction.lag.ms."""

    partition: KeptPartition
    first_dirty: int
    until: int
    ratio: float
    overdue: bool


class Ended(NamedTuple):
    """A compaction that ended: with `done`, or with why not."""

    partition: KeptPartition
    took_s: float
    done: Compacted | None
    reason: str
    again: bool


class LogCleaner:
    """`removed(partition, bases)` is called behind each swap, with the segments that were renamed to `.deleted`.
    `make_log`: a Log for the thread; `ring` wakes the log keeper from it."""

    def __init__(
        self,
        keeper: KeeperContext,
        removed: Callable[[KeptPartition, list[int]], None],
        make_log: Callable[[], Log] | None = None,
        ring: Callable[[], None] = lambda: None,
    ) -> None:
        self._keeper = keeper
        self._removed = removed
        self._make_log = make_log
        self._ring = ring
        self._offsets: Offsets = disk.patiently(read_checkpoint, self._path())
        self._round = Interval(keeper.clock, keeper.config.log_cleaner_backoff_ms, keeper.first_delay_ms)
        self._refused: set[tuple[bytes, int]] = set()
        self._swapped: queue.SimpleQueue[tuple[KeptPartition, list[int]]] = queue.SimpleQueue()
        self._ended: queue.SimpleQueue[Ended] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._stopping = False
        self._at = b""  # topic id of what the thread compacts

    # ---- the job

    def do_work(self) -> None:
        """One turn: take over what was swapped and what ended; begin the next compaction if one is due."""
        self._give_back()
        while not self._ended.empty():
            self._take_over(self._ended.get())
        if self._thread is not None and self._thread.is_alive():
            return
        self._thread = None
        if self._keeper.cleaning is not None and self._keeper.cleaning.locked():
            return  # another log directory's turn
        config = self._keeper.config
        self._round.interval_ms = config.log_cleaner_backoff_ms
        if not config.log_cleaner_enable or config.log_cleaner_threads < 1 or not self._round.due():
            return
        dirtiest = self.choose()
        if dirtiest is not None:
            self._begin(dirtiest)

    def remaining_ms(self) -> int:
        """Until the next look."""
        return self._round.remaining_ms() if self._thread is None else self._round.interval_ms

    def stop(self) -> None:
        """At the end of the broker: whatever it was at is begun anew later."""
        self._stopping = True
        if self._thread is not None:
            self._thread.join(timeout=5)

    def choose(self) -> Dirt | None:
        """The partition that deserves it most: overdue ones first, then by the share that is not compacted."""
        found = []
        for partition in self._keeper.partitions.all:
            try:
                dirt = self._dirt_of(partition)
            except (OSError, RuntimeError):  # deleted meanwhile, or no descriptor is left: at the next look
                continue
            if dirt is not None:
                found.append(dirt)
        return max(found, key=lambda dirt: (dirt.overdue, dirt.ratio), default=None)

    def is_at(self, partition: KeptPartition) -> bool:
        """Whether it compacts that one now."""
        return self._thread is not None and self._at == partition.topic_id

    def cleaned_to(self, partition: KeptPartition) -> int | None:
        """The offset below which it is compacted, as far as that is known."""
        return self._offsets.get(partition.who)

    def take_in(self, partition: KeptPartition, cleaned_to: int) -> None:
        """It has moved into this log directory, compacted so far."""
        self._remember(partition, cleaned_to)

    # ---- who is dirty

    def _dirt_of(self, partition: KeptPartition) -> Dirt | None:
        settings = partition.settings
        if COMPACT not in settings.cleanup_policy or (partition.topic_id, partition.partition) in self._refused:
            return None
        if self._keeper.log.move_of(partition.ordinal) is not None:
            return None  # afterwards, in its new log directory
        state = self._keeper.state(partition)
        if state is None or state.active_base <= state.log_start:
            return None
        first = self._offsets.get(partition.who, state.log_start)
        if not state.log_start <= first <= state.leo:  # of an older log of this name
            first = state.log_start
        segments = self._segments(partition, state.active_base)
        until = min(state.active_base, state.lso, self._lag_bound(partition, segments, state.active_base))
        clean = sum(segment.log_bytes for segment in segments if segment.end <= first)
        dirty = sum(segment.log_bytes for segment in segments if segment.end > first and segment.base < until)
        if not dirty or until <= first:
            return None
        overdue = self._is_overdue(partition, segments, first)
        ratio = dirty / (clean + dirty)
        if not overdue and ratio < settings.min_cleanable_dirty_ratio:
            return None
        return Dirt(partition, first, until, ratio, overdue)

    def _segments(self, partition: KeptPartition, active_base: int) -> list[Segment]:
        bases = [base for base in self._keeper.log.segments(partition.ordinal) if base <= active_base]
        directory = self._keeper.directory(partition)
        return [Segment(base, end, disk.size(segment_path(directory, base, LOG))) for base, end in pairwise(bases)]

    def _age_ms(self, partition: KeptPartition, segment: Segment) -> int:
        """Since a segment was last written."""
        path = segment_path(self._keeper.directory(partition), segment.base, LOG)
        return self._keeper.clock.wall_ms() - disk.status(path).st_mtime_ns // 1_000_000

    def _lag_bound(self, partition: KeptPartition, segments: list[Segment], active_base: int) -> int:
        """Base of the first segment that is too young (min.compaction.lag.ms)."""
        lag_ms = partition.settings.min_compaction_lag_ms
        if lag_ms > 0:
            for segment in segments:
                if self._age_ms(partition, segment) < lag_ms:
                    return segment.base
        return active_base

    def _is_overdue(self, partition: KeptPartition, segments: list[Segment], first_dirty: int) -> bool:
        oldest = next((segment for segment in segments if segment.end > first_dirty), None)
        return oldest is not None and self._age_ms(partition, oldest) > partition.settings.max_compaction_lag_ms

    # ---- the thread

    def limits(self, dirt: Dirt) -> Limits:
        """What its compaction may use."""
        config, settings = self._keeper.config, dirt.partition.settings
        buffer_bytes = max(MIN_BUFFER_BYTES, min(config.log_cleaner_io_buffer_size, MAX_BUFFER_BYTES))
        return Limits(
            first_dirty=dirt.first_dirty,
            until=dirt.until,
            now_ms=self._keeper.clock.wall_ms(),
            delete_retention_ms=settings.delete_retention_ms,
            memory_bytes=max(1 << 20, min(config.log_cleaner_dedupe_buffer_size, MAX_KEY_MEMORY_BYTES)),
            load_factor=min(0.95, max(0.01, config.log_cleaner_io_buffer_load_factor)),
            buffer_bytes=buffer_bytes,
            segment_bytes=settings.segment_bytes,
            index_interval_bytes=settings.index_interval_bytes,
            max_message_bytes=settings.max_message_bytes,
        )

    def _begin(self, dirt: Dirt) -> None:
        limits, per_second = self.limits(dirt), self._keeper.config.log_cleaner_io_max_bytes_per_second
        if self._make_log is None:  # a test steps the job: no thread
            self._ended.put(self._compact(self._keeper.log, dirt, limits, per_second))
            return
        if self._keeper.cleaning is not None:
            self._keeper.cleaning.acquire()
        self._at = dirt.partition.topic_id
        work = (self._make_log, dirt, limits, per_second)
        self._thread = threading.Thread(target=self._work, args=work, name="cleaner", daemon=True)
        self._thread.start()

    def _work(self, make_log: Callable[[], Log], dirt: Dirt, limits: Limits, per_second: float) -> None:
        try:
            log = make_log()
            ended = self._compact(log, dirt, limits, per_second)
            log.close()
        except OSError as error:  # no descriptors, say
            ended = Ended(dirt.partition, 0.0, None, str(error), True)
        except BaseException:  # broken: another process takes over
            os._exit(1)
        if self._keeper.cleaning is not None:
            self._keeper.cleaning.release()
        self._ended.put(ended)
        self._ring()

    def _compact(self, log: Log, dirt: Dirt, limits: Limits, per_second: float) -> Ended:
        began_s = time.monotonic()
        keeper, partition = self._keeper, dirt.partition
        pace = Pace(per_second, lambda: self._stopping or _is_gone(log, partition))
        done, reason, again = None, "", False
        try:
            done = Compaction(
                log,
                partition.ordinal,
                partition.topic_id,
                keeper.directory(partition),
                limits,
                pace,
                keeper.crash_point,
                lambda bases: self._note_swap(partition, bases),
            ).run()
        except NotCompacted as error:
            reason = str(error)
        except (LogChanged, Stopped):
            again = True
        except (OSError, RuntimeError) as error:
            reason, again = str(error), not isinstance(error, OSError) or not disk.condemns(error)
        return Ended(partition, time.monotonic() - began_s, done, reason, again)

    def _note_swap(self, partition: KeptPartition, bases: list[int]) -> None:
        self._swapped.put((partition, bases))
        self._ring()

    # ---- what came of it

    def _give_back(self) -> None:
        """What a compaction replaced goes at once: the rest of it may take minutes."""
        while not self._swapped.empty():
            self._removed(*self._swapped.get())
            self._keeper.log.close_stale()  # a cleaned segment took the name of one that may be open here

    def _take_over(self, ended: Ended) -> None:
        partition, done = ended.partition, ended.done
        if done is None:
            if not ended.again:
                self._refused.add((partition.topic_id, partition.partition))
            if ended.reason:
                self._keeper.events.warning("log_not_compacted", partition=partition.dir, reason=ended.reason)
            return
        self._keeper.count("logs_compacted")
        self._keeper.count("compacted_bytes_read", done.bytes_read)
        self._keeper.events.info(
            "log_compacted",
            partition=partition.dir,
            up_to=done.clean_to,
            keys=done.keys,
            bytes_before=done.bytes_before,
            bytes_after=done.bytes_after,
            ms=int(ended.took_s * 1000),
        )
        self._round.hasten()  # perhaps another one deserves it, too
        self._remember(partition, done.clean_to)

    def _remember(self, partition: KeptPartition, clean_to: int) -> None:
        self._offsets[partition.who] = clean_to
        living = {each.who for each in self._keeper.partitions.all} | {partition.who}
        self._offsets = {who: offset for who, offset in self._offsets.items() if who in living}
        try:
            write_checkpoint(self._path(), self._offsets)
        except OSError as error:
            self._keeper.io_failed("checkpoint_not_written", error, file=CLEANER_OFFSETS)

    def _path(self) -> str:
        return os.path.join(self._keeper.data_dir, CLEANER_OFFSETS)


def _is_gone(log: Log, partition: KeptPartition) -> bool:
    """Whether it was deleted: what is written for it would keep its space."""
    shown = PARTITION_EXISTS | PARTITION_ONLINE
    try:
        state = log.state(partition.ordinal)
    except RuntimeError:  # its lock is not to be had
        return False
    return bool(state.flags & shown != shown or state.dir != partition.dir)


class Stopped(Exception):
    """The broker ends, or it is of no use any more."""


class Pace:
    """At most so many bytes a second, read and written together; also where its end is noticed, by `stopping()`."""

    def __init__(self, bytes_per_second: float, stopping: Callable[[], bool]) -> None:
        self._per_second = max(1.0, bytes_per_second)
        self._stopping = stopping
        self._began_s = time.monotonic()
        self._moved = 0

    def __call__(self, count: int) -> None:
        """So many bytes were moved; sleeps as long as that is too many. Stopped."""
        self._moved += count
        while True:
            if self._stopping():
                raise Stopped
            ahead_s = self._began_s + self._moved / self._per_second - time.monotonic()
            if ahead_s <= 0:
                return
            time.sleep(min(PAUSE_S, ahead_s))
