"""LogManager: a process's way to append to and read from every partition's log. One per handler process.

Which partition, which settings; the append with its commit rules and the reads are native calls. Nothing is kept here
that another process would miss: truth stands in the partition rows and the files.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from mpbroker._native import (
    NO_REQUEST,
    READ_REPLICA_TO_HIGH_WATERMARK,
    READ_REPLICA_TO_STABLE,
    READ_TO_END,
    READ_TO_HIGH_WATERMARK,
    READ_TO_STABLE,
    AppendResult,
    HandlerPort,
    Log,
    LogOptions,
    NativeFetch,
    NativeProduce,
    PartitionState,
    ReadPlan,
    Request,
)
from mpbroker.config.limits import LARGEST_ANSWER_BYTES
from mpbroker.config.topic_config import TopicSettings
from mpbroker.errors import ErrorCode
from mpbroker.log.append_settings import log_options, produce_rules
from mpbroker.log.disk import condemns, disk_status, patiently
from mpbroker.log.leader_epochs import EpochEnd, EpochStart, end_of_epoch, merged_epochs, read_epochs
from mpbroker.log.partition_directory import future_name, prepare, retire_future
from mpbroker.log.steady_disk import Sync
from mpbroker.record.compression import Decompressor, decompressed_limit_bytes
from mpbroker.record.record_batch import BatchBytes, BatchUnreadableError, codec_of, find_timestamp, iterate_batches
from mpbroker.record.rejected_records import RejectedRecords, rejected_records
from mpbroker.record.validation import ProduceRules, check_append_records
from mpbroker.shm.clock import Clock
from mpbroker.shm.counters import Counter
from mpbroker.shm.layout import PARTITION_ONLINE
from mpbroker.shm.process_context import ProcessContext

__all__ = [
    "NO_REQUEST",
    "READ_REPLICA_TO_HIGH_WATERMARK",
    "READ_REPLICA_TO_STABLE",
    "READ_TO_END",
    "READ_TO_HIGH_WATERMARK",
    "READ_TO_STABLE",
    "AppendResult",
    "FoundOffset",
    "Log",
    "LogManager",
    "LogOptions",
    "PartitionBusyError",
    "PartitionState",
    "ReadPlan",
]

NO_FLUSH = 2**63 - 1  # flush.messages: the default


class TopicOfLog(Protocol):
    """What is needed of metadata's Topic."""

    @property
    def id(self) -> bytes:
        """16 bytes."""
        ...

    @property
    def partitions(self) -> Sequence[int]:
        """Row of each partition in the partition table."""
        ...

    @property
    def settings(self) -> TopicSettings:
        """Those in force."""
        ...


class LogDirectory(NamedTuple):
    """A log directory; sizes of its file system in bytes, −1: not known."""

    path: str
    is_online: bool
    total_bytes: int
    usable_bytes: int


class FoundOffset(NamedTuple):
    """The first record at or after a time."""

    timestamp_ms: int
    offset: int
    leader_epoch: int


class PartitionBusyError(Exception):
    """Somebody holds the partition's lock for longer than one waits, and nothing was done: try again when
    LogManager.is_busy says no. A handler that watches the partition is rung then."""

    def __init__(self, ordinal: int) -> None:
        super().__init__(f"partition row {ordinal} is busy")
        self.ordinal = ordinal


class LogManager:
    """Appends and reads by partition row. Errors a client can cause are Kafka error codes in the results.

    `request_flush()` wakes the log keeper, which syncs what is not synced; for acknowledgements that wait for it.
    `data_dirs`: where the partitions' directories are, for what stands in no segment; by a row's log directory.
    `sync`: what `flush.messages` asks for is done by it, `log.flush` unless told.
    `largest_batch_bytes`: a larger batch is refused whatever its topic allows, because no answer could hold it.
    """

    def __init__(
        self,
        log: Log,
        clock: Clock,
        flush_on_commit: bool,
        request_flush: Callable[[], None] = lambda: None,
        largest_batch_bytes: int = LARGEST_ANSWER_BYTES,
        data_dirs: Sequence[str] = (),
        sync: Sync | None = None,
    ) -> None:
        self.data_dirs = tuple(data_dirs)
        self._sync = sync
        self._largest_batch_bytes = largest_batch_bytes
        self.log = log
        self.flush_on_commit = flush_on_commit
        self.request_flush = request_flush
        self._clock = clock
        self._decompressor = Decompressor()
        self._settings: dict[bytes, tuple[object, LogOptions, ProduceRules]] = {}
        self.find = log.find
        self.read_into = log.read_into

    def append(
        self, topic: TopicOfLog, index: int, request: Request, cell: int, records: BatchBytes, version: int, acks: int
    ) -> AppendResult:
        """Appends the one batch in `records`, or refuses it.

        The result, errors too, also fills cell `cell` of the request, so a second run reads it instead of appending
        again. PartitionBusyError: its lock is not to be had now; the cell is empty, or the sync behind it is missing.
        """
        options, rules = self.options_of(topic)
        ordinal = topic.partitions[index]
        now_ms = self._clock.wall_ms()
        max_timestamp = None
        if rules.target_codec is not None or codec_of(records):
            checked = check_append_records(records, rules, now_ms, self._decompressor)
            if checked.code:
                return self.refuse(topic, index, request, cell, checked.code)
            records, max_timestamp = checked.batch, checked.max_timestamp
        result = self.log.append(
            ordinal, request.entry, cell, records, options, now_ms, version, -1, max_timestamp, topic.id, acks
        )
        if result.flush_due and not result.error:
            return self._synced(ordinal, request, cell) or result
        return _unless_busy(ordinal, result)

    def refuse(self, topic: TopicOfLog, index: int, request: Request, cell: int, code: int) -> AppendResult:
        """Instead of an append: the error goes into the request's cell, unless an earlier run filled that."""
        ordinal = topic.partitions[index]
        return _unless_busy(ordinal, self.log.refuse(ordinal, request.entry, cell, code, topic.id))

    def rejected_records(self, topic: TopicOfLog, records: BatchBytes, partition: str) -> RejectedRecords | None:
        """Which records an append of these refused, if it was for them. `partition`: its name, for the sentences."""
        rules = self.options_of(topic)[1]
        return rejected_records(records, rules, self._clock.wall_ms(), self._decompressor, partition)

    def sync_recorded(self, topic: TopicOfLog, ordinal: int, request: Request, cell: int) -> AppendResult | None:
        """For an append that an earlier run of the request made: that run may have died before the sync that
        flush.messages asks for. The error that takes the place of its result, or None."""
        if topic.settings.flush_messages == NO_FLUSH:
            return None
        return self._synced(ordinal, request, cell)

    def _synced(self, ordinal: int, request: Request, cell: int) -> AppendResult | None:
        """Syncs the partition; None, or what is answered because that failed."""
        error, _ = (self._sync or self.log.flush)(ordinal)
        if error == ErrorCode.REQUEST_TIMED_OUT:
            raise PartitionBusyError(ordinal)
        return self.log.not_synced(ordinal, request.entry, cell, ErrorCode.KAFKA_STORAGE_ERROR) if error else None

    def serve_natively(self, port: HandlerPort) -> NativeProduce:
        """From now on the port serves Produce requests over this log natively, for the topics given to the result."""
        return NativeProduce(
            port, self.log, Counter.PRODUCE_PARTITION_ERRORS, self._decompress, self._decompressor.release
        )

    def fetch_natively(self, port: HandlerPort, produce: NativeProduce) -> NativeFetch:
        """The same for Fetch requests, for the topics of `produce`."""
        return NativeFetch(port, self.log, produce, Counter.PURGATORY_EXPIRED)

    def _decompress(self, codec: int, data: memoryview, max_message_bytes: int) -> tuple[int, memoryview]:
        return self._decompressor.decompress(codec, data, decompressed_limit_bytes(max_message_bytes))

    def options_of(self, topic: TopicOfLog) -> tuple[LogOptions, ProduceRules]:
        """The topic's settings as an append takes them."""
        kept = self._settings.get(topic.id)
        if kept is None or kept[0] is not topic.settings:
            kept = self._remember(topic)
        return kept[1], kept[2]

    def coordinator_options_of(self, topic: TopicOfLog) -> LogOptions:
        """The same for what the coordinator appends within a producer's transaction."""
        return log_options(topic.settings, self._largest_batch_bytes, from_client=False)

    def _remember(self, topic: TopicOfLog) -> tuple[object, LogOptions, ProduceRules]:
        if len(self._settings) > 2 * 4096:
            self._settings.clear()  # ids of deleted topics must not pile up
        most = self._largest_batch_bytes
        kept = (topic.settings, log_options(topic.settings, most), produce_rules(topic.settings, most))
        self._settings[topic.id] = kept
        return kept

    def recover_slot(self, slot: int) -> None:
        """Finishes or undoes what the dead predecessor in this process slot was doing to any partition."""
        self.log.repair_slot(slot)

    def is_busy(self, ordinal: int) -> bool:
        """Whether a lock that was waited for in vain is still not to be had."""
        return self.log.is_busy(ordinal)

    def delete_records(self, topic: TopicOfLog, ordinal: int, offset: int) -> tuple[int, int]:
        """Moves the log start up to an offset, −1: the high watermark. (error code, where it is then): not to be told
        before `start_written` of the partition's state is there, which the log keeper is rung for."""
        error, start = self.log.delete_records(ordinal, offset, topic.id)
        if error == ErrorCode.REQUEST_TIMED_OUT:
            raise PartitionBusyError(ordinal)
        return error, start

    def repair(self, ordinal: int) -> None:
        """Finishes or undoes what a dead process was doing to the partition, unless it is busy."""
        self.log.set_flags(ordinal, 0, 0)

    def close_stale(self) -> None:
        """Closes descriptors of files that were removed meanwhile, so that their space is freed."""
        self.log.close_stale()

    def state(self, ordinal: int) -> PartitionState | None:
        """The row's state; None when the partition cannot be read (its log directory is offline)."""
        state = self.log.state(ordinal)
        return state if state.flags & PARTITION_ONLINE else None

    def leader_epoch(self, ordinal: int) -> int:
        return self.log.state(ordinal).leader_epoch

    def is_offline(self, ordinal: int) -> bool:
        return not self.log.state(ordinal).flags & PARTITION_ONLINE

    def directories(self) -> list[LogDirectory]:
        """The log directories, by their numbers in rows, and their file systems as they are now."""
        return [self._directory(number, path) for number, path in enumerate(self.data_dirs)]

    def _directory(self, number: int, path: str) -> LogDirectory:
        is_online = self.log.log_dir_online(number)
        space = disk_status(path) if is_online else None
        if space is None:
            return LogDirectory(path, is_online, -1, -1)
        return LogDirectory(path, is_online, space.f_blocks * space.f_frsize, space.f_bavail * space.f_frsize)

    def ask_move(self, ordinal: int, state: PartitionState, topic_id: bytes, log_dir: int) -> int:
        """Have a partition moved to a log directory; the one where it lies calls a move off. Its directory, and no
        other one, is there when this returns. Returns a Kafka error code. `state`: of the partition."""
        path = self.data_dirs[log_dir]
        try:
            if log_dir != state.log_dir:
                prepare(path, future_name(state.dir, topic_id), topic_id)
            error = self.log.ask_move(ordinal, topic_id, log_dir)
            wanted = self.log.move_of(ordinal)
            for number, other in enumerate(self.data_dirs):
                if (wanted is None or number != wanted[0]) and self.log.log_dir_online(number):
                    retire_future(other, state.dir, topic_id)
        except OSError as failed:
            if condemns(failed):
                self.log.fail_log_dir(log_dir)
            return ErrorCode.KAFKA_STORAGE_ERROR
        self.request_flush()
        return error

    def future(self, ordinal: int, state: PartitionState) -> tuple[int, int, int] | None:
        """Of a partition that moves: (log directory, bytes of the copy, records that it lacks); None: it stays."""
        moving = self.log.move_of(ordinal) if len(self.data_dirs) > 1 else None
        if moving is None:
            return None
        log_dir, _, end, size = moving
        return log_dir, size, max(state.leo - max(end, state.log_start), 0)

    def end_of_epoch(self, ordinal: int, state: PartitionState, epoch: int) -> EpochEnd:
        """Where the records of a leader epoch end. `state`: of the partition."""
        _, has_older, kept = self.log.epochs(ordinal)
        epochs = [EpochStart(*each) for each in kept]
        if not epochs or (has_older and epoch < epochs[0].epoch):
            epochs = merged_epochs(self._written_epochs(state), epochs, state.leo)
        return end_of_epoch(epochs or [EpochStart(state.leader_epoch, 0)], epoch, state.leo)

    def _written_epochs(self, state: PartitionState) -> list[EpochStart]:
        return read_epochs(os.path.join(self.data_dirs[state.log_dir], state.dir)) if self.data_dirs else []

    def offset_for_timestamp(
        self, topic: TopicOfLog, ordinal: int, timestamp_ms: int
    ) -> tuple[int, FoundOffset | None]:
        """(error code, the first record at or after the time or None)."""
        from_offset = 0
        while True:
            error, plan = self.log.find_time(ordinal, timestamp_ms, from_offset, topic.id)
            if error or not plan.length:
                return error, None
            batch = bytearray(plan.length)
            error, _ = self.read_into(plan, batch)
            if error:
                return error, None
            found, from_offset = self._first_record(batch, timestamp_ms)
            if found is not None:
                return ErrorCode.NONE, FoundOffset(found[1], found[0], plan.leader_epoch)

    def offset_of_largest_timestamp(self, topic: TopicOfLog, ordinal: int) -> tuple[int, FoundOffset | None]:
        """(error code, the first record that has the largest timestamp of the log or None)."""
        error, largest_ms = self.log.largest_time(ordinal, topic.id)
        return (error, None) if error else self.offset_for_timestamp(topic, ordinal, largest_ms)

    def _first_record(self, stored: bytearray, timestamp_ms: int) -> tuple[tuple[int, int] | None, int]:
        """((offset, timestamp) of the first match in a stored batch or None, offset after the batch)."""
        info, batch = next(iter(iterate_batches(stored)))
        following = info.base_offset + info.last_offset_delta + 1
        try:
            return find_timestamp(batch, info, timestamp_ms, self._decompressor), following
        except BatchUnreadableError:  # stored before its producer's bytes were checked; nothing to find in it
            return None, following


def _unless_busy(ordinal: int, result: AppendResult) -> AppendResult:
    if result.busy:
        raise PartitionBusyError(ordinal)
    return result


def open_log(ctx: ProcessContext) -> Log:
    """The native log of a process, from its ProcessContext; opened after the fork."""
    return patiently(Log, ctx.core, list(ctx.data_dirs), ctx.slot)
