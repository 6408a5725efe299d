"""The log keeper process: flush, retention, unlinking, producer snapshots and expiry, checkpoints, the clean stop.

One process; its jobs run in turn, each in a file of its own and each bounded, so that a sync that requests wait for is
never far away. It writes no record and holds a partition's lock only within single native calls. When it dies, the
successor finds all it needs in shared memory and in the directories.
"""

import queue
import resource
import threading
from collections.abc import Callable
from functools import partial
from typing import Final, Protocol

from msgspec import structs

from mpbroker._native import Log
from mpbroker.config.broker_config import BrokerConfig
from mpbroker.log.checkpoint_writer import CheckpointWriter
from mpbroker.log.clean_stop import stop_cleanly
from mpbroker.log.data_dir import FIRST
from mpbroker.log.deleted_open import DeletedOpen
from mpbroker.log.disk import patiently
from mpbroker.log.epoch_files import EpochFiles
from mpbroker.log.failed_calls import FailedCalls
from mpbroker.log.flush_thread import OPEN_SEGMENTS as FLUSH_OPEN_SEGMENTS
from mpbroker.log.flush_thread import FlushThread
from mpbroker.log.keeper_context import IoFailures, KeeperContext
from mpbroker.log.kept_partitions import KeptPartition, KeptPartitions
from mpbroker.log.log_cleaner import OPEN_SEGMENTS as CLEANER_OPEN_SEGMENTS
from mpbroker.log.log_cleaner import LogCleaner
from mpbroker.log.log_flusher import LogFlusher
from mpbroker.log.log_keepers import JoinedSigns, LogKeepers
from mpbroker.log.log_retention import LogRetention
from mpbroker.log.offline_directory import OfflineDirectory
from mpbroker.log.offline_partitions import OfflinePartitions
from mpbroker.log.producer_expiration import ProducerEviction, ProducerExpiration
from mpbroker.log.producer_snapshots import ProducerSnapshots
from mpbroker.log.record_deletion import RecordDeletion
from mpbroker.log.removed_files import RemovedFiles
from mpbroker.log.replica_mover import OPEN_SEGMENTS as MOVER_OPEN_SEGMENTS
from mpbroker.log.replica_mover import ReplicaMover
from mpbroker.log.reserve_keeper import ReserveKeeper
from mpbroker.log.segment_deletion import SegmentDeletion
from mpbroker.log.syncs import LateSyncs, Syncs
from mpbroker.shm.clock import SystemClock
from mpbroker.shm.core import Core
from mpbroker.shm.counters import Counter, counter_id
from mpbroker.shm.layout import MAX_SLOTS
from mpbroker.shm.process_context import ProcessContext
from mpbroker.shm.process_table import ProcessRow, ProcessState
from mpbroker.shm.topic_table import partition_who
from mpbroker.shm.troubles import Trouble

WAIT_MS: Final = 500
"""Longest wait for the bell: a signal that came just before the wait is noticed after it."""
OPEN_SEGMENTS: Final = 1024
EXIT_NOT_CLEAN: Final = 1
OFFLINE_REMEDY: Final = "look at the disk, then start the broker again"
DESCRIPTORS_A_SEGMENT: Final = 3


def main(ctx: ProcessContext) -> None:
    """Run until asked to stop, then stop the logs cleanly."""
    row = ctx.process_row
    log = patiently(Log, ctx.core, list(ctx.data_dirs), ctx.slot, open_segments())
    if ctx.incarnation > 1:
        row.set_state(ProcessState.RECOVERING)
        log.repair_slot(ctx.slot)
        ctx.core.ring_everybody()  # the predecessor may have died between a sync and ringing who waited for it
    keeper, removed_files = keepers(ctx, log), RemovedFiles(log, SystemClock())
    flushing = flush_thread(ctx, keeper) if len(ctx.data_dirs) > 1 else None
    ctx.running()
    while not ctx.stop_requested():
        row.beat()
        if ctx.take_reload() is not None:
            keeper.use_config(ctx.config)
        ctx.log.tick()
        keeper.do_work()
        removed_files.give_back()
        wait_ms = min(WAIT_MS, max(1, keeper.remaining_ms()))
        if flushing is None:
            ctx.core.wait_service(ctx.slot, wait_ms)
        else:
            flushing.wait(wait_ms)
    row.set_state(ProcessState.STOPPING)
    if flushing is not None:
        flushing.stop()
    clean = keeper.stop()
    log.close()
    if not clean:
        raise SystemExit(EXIT_NOT_CLEAN)  # the broker then exits with 1, too


def flush_thread(ctx: ProcessContext, keeper: LogKeepers) -> FlushThread:
    """Begun: it flushes for all log directories."""
    made = FlushThread(
        keeper.flush,
        lambda: bool(ctx.core.wait_service(ctx.slot, min(WAIT_MS, max(1, keeper.flush_remaining_ms())))),
        lambda: ctx.core.ring_service(ctx.slot),
        ctx.wakeup_fd,
        ctx.drain_wakeups,
    )
    made.start()
    return made


def keepers(ctx: ProcessContext, log: Log) -> LogKeepers:
    """One for each log directory that can be used. Those that could not at the start are said."""
    signs = JoinedSigns(ctx.process_row.set_trouble, partial(_set_gauge, ctx.process_row))
    cleaning = threading.Lock()
    flush_log = None
    if len(ctx.data_dirs) > 1:
        flush_log = patiently(Log, ctx.core, list(ctx.data_dirs), ctx.slot, FLUSH_OPEN_SEGMENTS)
    made: list[LogKeeper] = []
    for number, path in enumerate(ctx.data_dirs):
        if number != FIRST and not log.log_dir_online(number):
            ctx.log.error("log_directory_offline", directory=path, remedy=OFFLINE_REMEDY)
            signs.trouble_of(number)(Trouble.LOG_DIRECTORY_OFFLINE, True)
            continue
        context = context_of(ctx, log, LateSyncs(lambda: sync_threads(ctx)), number)
        if len(ctx.data_dirs) > 1:
            context.trouble, context.set_gauge = signs.trouble_of(number), signs.gauge_of(number)
            context.is_mine = partial(_is_of, ctx.core, number)
            context.cleaning = cleaning
        made.append(
            LogKeeper(
                context,
                lambda: Log(ctx.core, list(ctx.data_dirs), ctx.slot, CLEANER_OPEN_SEGMENTS),
                lambda: ctx.core.ring_service(ctx.slot),
                flush_log,
            )
        )
    mover = None
    if len(ctx.data_dirs) > 1:
        mover = ReplicaMover(
            log,
            {each.keeper.log_dir: each for each in made},
            lambda: ctx.core.moves,
            lambda: Log(ctx.core, list(ctx.data_dirs), ctx.slot, MOVER_OPEN_SEGMENTS),
            lambda: ctx.core.ring_service(ctx.slot),
        )
    return LogKeepers(made, mover)


def _is_of(core: Core, log_dir: int, ordinal: int) -> bool:
    return partition_who(core, ordinal).log_dir == log_dir


def _set_gauge(row: ProcessRow, name: str, value: int) -> None:
    row.set_counter(counter_id(name), value)


def open_segments() -> int:
    """How many segments the main thread keeps open: with half of the descriptors that the process may have. The
    threads that sync need the others, and cannot take its own away from it."""
    allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    share = allowed // 2 // DESCRIPTORS_A_SEGMENT
    return OPEN_SEGMENTS if allowed == resource.RLIM_INFINITY else max(1, min(OPEN_SEGMENTS, share))


def sync_threads(ctx: ProcessContext) -> Syncs:
    """Threads that sync partitions beside each other, each through a Log of its own."""
    from mpbroker.log.sync_pool import OPEN_SEGMENTS, SyncPool

    return SyncPool(
        lambda: Log(ctx.core, list(ctx.data_dirs), ctx.slot, OPEN_SEGMENTS), lambda: ctx.core.ring_service(ctx.slot)
    )


def context_of(ctx: ProcessContext, log: Log, pool: Syncs | None = None, log_dir: int = FIRST) -> KeeperContext:
    """What the jobs of a directory work with in a real process. A successor does not wait before its first round."""
    rows = [ProcessRow(ctx.core, slot) for slot in range(MAX_SLOTS)]
    return KeeperContext(
        log=log,
        pool=pool,
        partitions=KeptPartitions(ctx.core, ctx.config, log_dir=log_dir if len(ctx.data_dirs) > 1 else None),
        clock=SystemClock(),
        config=ctx.config,
        data_dir=ctx.data_dirs[log_dir],
        log_dir=log_dir,
        events=ctx.log,
        notify=lambda ordinal: ctx.core.notify_partition(ordinal, ctx.slot),
        waiting=ctx.process_row.set_wait,
        trouble=ctx.process_row.set_trouble,
        crash_point=ctx.core.crash_point,
        count=ctx.process_row.count,
        set_gauge=partial(_set_gauge, ctx.process_row),
        pids=lambda: [row.pid for row in rows if row.pid],
        io_failures=lambda: [
            IoFailures(row.counter(Counter.LOG_IO_ERRORS), row.log_errno, row.log_errno_row - 1) for row in rows
        ],
        is_successor=ctx.incarnation > 1,
        began=ctx.began,
        first_delay_ms=ctx.config.log_initial_task_delay_ms if ctx.incarnation <= 1 else 0,
    )


class Job(Protocol):
    """What the log keeper does in turn."""

    def do_work(self) -> None:
        """One turn, bounded."""
        ...

    def remaining_ms(self) -> int:
        """Until it has something to do, as far as it knows by itself."""
        ...


class LogKeeper:
    """All jobs of one data directory. `flush_log`: of the thread that calls `flush`; None: it flushes between jobs."""

    def __init__(
        self,
        keeper: KeeperContext,
        cleaner_log: Callable[[], Log] | None = None,
        ring: Callable[[], None] = lambda: None,
        flush_log: Log | None = None,
    ) -> None:
        self.keeper = self._keeper = self._flush_keeper = keeper
        if flush_log is not None:  # what the process waits for is the main thread's to say
            self._flush_keeper = structs.replace(keeper, log=flush_log, waiting=lambda _: None)
        self._is_flushed_beside = flush_log is not None
        self._synced: queue.SimpleQueue[int] = queue.SimpleQueue()  # rows
        keeper.partitions.refresh()
        self._by_ordinal: dict[int, KeptPartition] = {}
        self.snapshots = ProducerSnapshots(keeper)
        self.flusher = LogFlusher(self._flush_keeper, self._synced.put)
        self.deleted_open = DeletedOpen(keeper)
        self.deletion = SegmentDeletion(keeper, self.deleted_open.removed)
        self.retention = LogRetention(keeper, self._removed)
        self.cleaner = LogCleaner(keeper, self._replaced, cleaner_log, ring)
        self.expiration = ProducerExpiration(keeper)
        self.checkpoints = CheckpointWriter(keeper)
        self.epochs = EpochFiles(keeper)
        self.offline = OfflineDirectory(keeper)
        self._jobs: tuple[Job, ...] = (
            FailedCalls(keeper),
            RecordDeletion(keeper, self.checkpoints),
            ReserveKeeper(keeper),
            OfflinePartitions(keeper),
            self.retention,
            self.deletion,
            self.deleted_open,
            self.cleaner,
            self.snapshots,
            self.expiration,
            ProducerEviction(keeper),
            self.epochs,
            self.checkpoints,
        )
        self._topics_changed()

    def partition_at(self, ordinal: int) -> KeptPartition | None:
        """The partition of a row, if it is one of this log directory."""
        return self._by_ordinal.get(ordinal)

    def _removed(self, partition: KeptPartition, bases: list[int]) -> None:
        self.checkpoints.log_start_moved(partition)
        self.deletion.removed(partition, bases)

    def _replaced(self, partition: KeptPartition, bases: list[int]) -> None:
        """By a compaction; one of the segments under its name, which counts as removed, too."""
        self.deletion.removed(partition, bases)
        self.deleted_open.removed()

    def do_work(self) -> None:
        """One turn of every job; between any two the flush, which requests may wait for, unless it has a thread."""
        if self._keeper.partitions.refresh():
            self._topics_changed()
            self.checkpoints.topics_changed()
        self.offline.do_work()
        for job in self._jobs:
            if self.offline.failed:
                return  # nothing is written there any more
            if not self._is_flushed_beside:
                self.flusher.do_work()
            self._look_at_synced()
            self._attempt(job)

    def flush(self) -> None:
        """One turn of the flusher alone, in the thread that `flush_log` is of."""
        if self._flush_keeper.log.log_dir_online(self._keeper.log_dir):
            self.flusher.do_work()

    def flush_remaining_ms(self) -> int:
        """Until it may have something to do by itself."""
        return self.flusher.remaining_ms()

    def _attempt(self, job: Job) -> None:
        """A job that fails must not take the flush with it."""
        try:
            job.do_work()
        except Exception as error:  # whatever it was: said, counted, tried again when it is due
            self._keeper.count("log_keeper_failures")
            self._keeper.events.exception("log_keeper_job_failed", error, job=type(job).__name__)

    def remaining_ms(self) -> int:
        """Until some job has something to do, as far as it knows by itself."""
        if self.offline.failed:
            return WAIT_MS
        jobs = self._jobs if self._is_flushed_beside else (*self._jobs, self.flusher)
        return min(job.remaining_ms() for job in jobs)

    def use_config(self, config: BrokerConfig) -> None:
        """The broker's settings were read again."""
        self._keeper.config = self._flush_keeper.config = config
        self._keeper.partitions.use_config(config)
        self._topics_changed()

    def stop(self) -> bool:
        """The clean stop; returns whether the next start may believe in it."""
        self.cleaner.stop()
        if not self.epochs.write():
            return False
        return stop_cleanly(self._keeper, self.flusher, self.snapshots, self.checkpoints)

    def _topics_changed(self) -> None:
        self._by_ordinal = {partition.ordinal: partition for partition in self._keeper.partitions.all}
        self.snapshots.forget({(partition.topic_id, partition.partition) for partition in self._keeper.partitions.all})

    def _look_at_synced(self) -> None:
        """A snapshot where a log has rolled."""
        while not self._synced.empty():
            partition = self._by_ordinal.get(self._synced.get())
            if partition is not None:
                self.snapshots.look(partition)
