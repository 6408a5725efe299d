"""Reads partitions of an internal topic in slices, so that the others are served meanwhile. Coordinator process.

A slice is one read of at most SLICE_BYTES (one batch, if that is larger). Partitions take turns: a large one does not
hold the small ones up. One whose files are being changed (a compaction puts new ones in place) waits a little, and is
read on: giving up would make its groups begin anew.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Callable, Iterable
from typing import Protocol, TypeAlias

import msgspec

from mpbroker.errors import ErrorCode
from mpbroker.log.leadership import LEADER
from mpbroker.log.log_manager import READ_TO_END, LogManager
from mpbroker.metadata.topic_names import OFFSETS_TOPIC
from mpbroker.record.compression import Decompressor
from mpbroker.record.record_batch import (
    ATTRIBUTE_CONTROL,
    ATTRIBUTE_TRANSACTIONAL,
    BatchInfo,
    BatchUnreadableError,
    Record,
    batch_records,
    iterate_batches,
    newest_records,
)
from mpbroker.shm.clock import Clock
from mpbroker.shm.events import Events

SLICE_BYTES = 256 * 1024
_CONTROL_KEY = struct.Struct(">hh")  # version, type
COMMIT = 1
RETRY_MS = 20
PATIENCE_MS = 30_000  # longer than a stopped log keeper is left alone
_CHANGING = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.REQUEST_TIMED_OUT)
RecordPairs: TypeAlias = Iterable[tuple[bytes, bytes | None]]


class Loaded(Protocol):
    """What the loader calls with what it reads of a partition, in the order of the log."""

    def load(self, partition: int, records: RecordPairs) -> None:
        """Records of no transaction."""
        ...

    def load_transactional(self, partition: int, producer_id: int, offset: int, records: RecordPairs) -> None:
        """Records of a transaction, of a batch at `offset`."""
        ...

    def load_marker(self, partition: int, producer_id: int, committed: bool) -> None:
        """The end of a producer's transaction."""
        ...


class _Task(msgspec.Struct):
    """One partition: the next offset to read, and where its log ended when the load began. While its files are being
    changed: when to try again, and since when."""

    partition: int
    ordinal: int
    offset: int
    end_offset: int
    again_ms: int = 0
    changing_since_ms: int | None = None


class OffsetsLoader:
    """`target()` takes what was read, `loaded(partition)` is called when all was."""

    def __init__(
        self,
        log_manager: LogManager,
        log: Events,
        target: Callable[[], Loaded],
        loaded: Callable[[int], None],
        topic: str = OFFSETS_TOPIC,
        *,
        clock: Clock,
    ) -> None:
        self._clock = clock
        self._logs = log_manager
        self._log = log
        self._target = target
        self._topic = topic
        self._loaded = loaded
        self._tasks: deque[_Task] = deque()
        self._decompressor = Decompressor()

    @property
    def is_idle(self) -> bool:
        """Whether nothing is left to load."""
        return not self._tasks

    def begin(self, partition: int, ordinal: int) -> None:
        """Loads a partition, from its log's start to its present end; an empty one is loaded at once."""
        self.forget(partition)
        state = self._logs.state(ordinal)
        if state is None or state.log_start >= state.leo:
            self._loaded(partition)
        else:
            self._tasks.append(_Task(partition, ordinal, state.log_start, state.leo))

    def forget(self, partition: int) -> None:
        """The partition is not ours any more."""
        self._tasks = deque(task for task in self._tasks if task.partition != partition)

    def next_due_ms(self, now_ms: int) -> int | None:
        """When the next slice can be read; None: nothing is left to load."""
        return max(now_ms, min(task.again_ms for task in self._tasks)) if self._tasks else None

    def step(self) -> None:
        """Reads one slice, if there is a partition whose turn it is."""
        now_ms = self._clock.monotonic_ms()
        task = next((task for task in self._tasks if task.again_ms <= now_ms), None)
        if task is None:
            return
        self._tasks.remove(task)
        try:
            going_on = self._read(task)
        except BatchUnreadableError as error:
            self._fail(task, str(error))
            going_on = False
        if going_on and task.offset < task.end_offset:
            self._tasks.append(task)
        else:
            self._loaded(task.partition)

    def _read(self, task: _Task) -> bool:
        """False: nothing more can be read."""
        error, plan = self._logs.find(task.ordinal, task.offset, READ_TO_END, SLICE_BYTES, True)
        if error == ErrorCode.OFFSET_OUT_OF_RANGE and plan.log_start > task.offset:
            task.offset = plan.log_start  # retention or compaction went by
            return True
        if error in _CHANGING and self._may_wait(task):
            return True
        if error or not plan.length:
            self._fail(task, f"error {error}")
            return False
        stored = bytearray(plan.length)
        error, length = self._logs.read_into(plan, stored)
        if error in _CHANGING and self._may_wait(task):
            return True
        if error:
            self._fail(task, f"error {error}")
            return False
        task.changing_since_ms = None
        self._take(task, memoryview(stored)[:length])
        return True

    def _may_wait(self, task: _Task) -> bool:
        """Whether the partition is tried again later; not for ever, or for one that is not led here any more."""
        now_ms = self._clock.monotonic_ms()
        state = self._logs.state(task.ordinal)
        if task.changing_since_ms is None:
            task.changing_since_ms = now_ms
        task.again_ms = now_ms + RETRY_MS
        return state is not None and state.role == LEADER and now_ms - task.changing_since_ms < PATIENCE_MS

    def _take(self, task: _Task, stored: memoryview) -> None:
        """Plain batches many at once, in C: nearly all are commits, a batch each. Others one by one."""
        position = 0
        while True:
            newest, position, next_offset = newest_records(stored, position)
            if newest:
                self._target().load(task.partition, newest.items())
            task.offset = max(task.offset, next_offset)
            first = next(iterate_batches(stored[position:]), None)
            if first is None:
                return
            info, batch = first
            position += len(batch)
            task.offset = info.base_offset + info.last_offset_delta + 1
            self._load(task.partition, info, batch_records(batch, info, self._decompressor))

    def _load(self, partition: int, info: BatchInfo, records: list[Record]) -> None:
        target = self._target()
        if info.attributes & ATTRIBUTE_CONTROL:
            for one in records:
                if one.key is not None and len(one.key) >= _CONTROL_KEY.size:
                    target.load_marker(partition, info.producer_id, _CONTROL_KEY.unpack_from(one.key)[1] == COMMIT)
            return
        pairs = [(bytes(one.key), one.value) for one in records if one.key is not None]
        if info.attributes & ATTRIBUTE_TRANSACTIONAL:
            target.load_transactional(partition, info.producer_id, info.base_offset, pairs)
        else:
            target.load(partition, pairs)

    def _fail(self, task: _Task, detail: str) -> None:
        """As Kafka does: the groups are served as far as they could be read."""
        self._log.error(
            "offsets_unreadable", topic=self._topic, partition=task.partition, offset=task.offset, detail=detail
        )
