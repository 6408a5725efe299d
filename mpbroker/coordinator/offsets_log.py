"""Appends to the partitions of `__consumer_offsets`, and their acknowledgements. Runs in the coordinator process.

Each append is the ordinary native one. One that serves a request fills the result cell that the request's entry keeps
for the partition: a re-run finds it filled and appends nothing. What is appended is acknowledged when the high
watermark, and with `mpbroker.log.flush=commit` the sync, has passed it (KIP-211 knows it as pending until then).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import NamedTuple, TypeAlias

from mpbroker.channel.handler_port import Cell, HandlerPort, Request
from mpbroker.coordinator.effects import Append
from mpbroker.errors import ErrorCode
from mpbroker.log.leadership import is_led_since, is_under_min_isr
from mpbroker.log.log_manager import NO_REQUEST, LogManager, LogOptions
from mpbroker.metadata.metadata_cache import Topic
from mpbroker.record.batch_builder import encode_batch
from mpbroker.shm.layout import DIRTY_BITS

RETRY_MS = 20
ACKS_ALL = -1
BUSY = ErrorCode.REQUEST_TIMED_OUT  # a partition's lock is not to be had

#: Called once for every append, with an error code (NONE: acknowledged), at once or later.
Then: TypeAlias = Callable[[int], None]


class _Pending(NamedTuple):
    """An append that is not acknowledged yet."""

    ordinal: int
    end_offset: int
    leader_epoch: int
    deadline_ms: int
    then: Then


class _Waiting(NamedTuple):
    """An append that waits for the lock of its partition, which a slow or stopped process holds."""

    topic: Topic
    append: Append
    request: Request | None
    cell: int
    deadline_ms: int
    then: Then


def encode(append: Append) -> bytes:
    """The batch; of a transaction, it has no sequence of its own: Kafka writes 0 into each."""
    records = ((key, value, append.timestamp_ms) for key, value in append.records)
    if append.producer is None:
        return encode_batch(records)
    producer_id, epoch = append.producer
    return encode_batch(records, producer_id=producer_id, producer_epoch=epoch, base_sequence=0, transactional=True)


class OffsetsLog:
    """Appends under way, by partition row: of all internal topics."""

    def __init__(self, port: HandlerPort, log_manager: LogManager, timeout_ms: int) -> None:
        self._port = port
        self._logs = log_manager
        self._timeout_ms = timeout_ms
        self._pending: dict[int, list[_Pending]] = {}  # by partition row, in the order of the log
        self._waiting: dict[int, deque[_Waiting]] = {}  # likewise, in the order they came
        self._transactional: tuple[object, LogOptions] | None = None  # the topic's settings, and what follows from them

    def append(self, topic: Topic, append: Append, request: Request | None, cell: int, now_ms: int, then: Then) -> None:
        """Appends one batch; `request` and `cell` say where the result is kept, None: nowhere."""
        ordinal = topic.partitions[append.partition]
        one = _Waiting(topic, append, request, cell, now_ms + self._timeout_ms, then)
        if ordinal in self._waiting or not self._append(ordinal, one):
            self._waiting.setdefault(ordinal, deque()).append(one)
            self._port.watch(ordinal)

    def retry(self, now_ms: int) -> None:
        """Appends what waited for locks that are free again; what waited for too long is answered."""
        for ordinal, queue in list(self._waiting.items()):
            while queue and queue[0].deadline_ms <= now_ms:
                queue.popleft().then(ErrorCode.REQUEST_TIMED_OUT)
            while queue and not self._logs.is_busy(ordinal) and self._append(ordinal, queue[0]):
                queue.popleft()
            if not queue:
                del self._waiting[ordinal]

    def _append(self, ordinal: int, one: _Waiting) -> bool:
        """False: the partition is busy, and nothing was done."""
        topic, append, request, then = one.topic, one.append, one.request, one.then
        producer = None if append.is_verified else append.producer
        if producer is not None and self._logs.log.verify(ordinal, *producer, topic.id) == BUSY:
            return False
        result = self._logs.log.append(
            ordinal,
            NO_REQUEST if request is None else request.entry,
            one.cell,
            encode(append),
            self._options_of(topic, append),
            append.timestamp_ms,
            leader_epoch=append.leader_epoch,
            topic_id=topic.id,
            acks=ACKS_ALL,
        )
        if result.busy:
            return False
        code = result.error
        if result.flush_due and not code and self._logs.log.flush(ordinal)[0]:
            code = ErrorCode.KAFKA_STORAGE_ERROR
        if code:
            then(code)
        else:
            self._await(_Pending(ordinal, result.end_offset, result.leader_epoch, one.deadline_ms, then))
        return True

    def _options_of(self, topic: Topic, append: Append) -> LogOptions:
        if append.producer is None:
            return self._logs.options_of(topic)[0]
        if self._transactional is None or self._transactional[0] is not topic.settings:
            self._transactional = (topic.settings, self._logs.coordinator_options_of(topic))
        return self._transactional[1]

    def await_cell(self, cell: Cell, now_ms: int, then: Then) -> None:
        """What an earlier run of a request appended must be acknowledged, too."""
        self.await_end(cell.ordinal, cell.end_offset, cell.leader_epoch, now_ms, then)

    def await_end(self, ordinal: int, end_offset: int, leader_epoch: int, now_ms: int, then: Then) -> None:
        """What somebody else appended up to an offset must be acknowledged."""
        self._await(_Pending(ordinal, end_offset, leader_epoch, now_ms + self._timeout_ms, then))

    def _await(self, pending: _Pending) -> None:
        code = self._verdict(pending)
        if code is None:
            if self._logs.flush_on_commit:
                self._logs.request_flush()
            self._port.watch(pending.ordinal)  # before the second look: no move is missed
            code = self._verdict(pending)
        if code is None:
            self._pending.setdefault(pending.ordinal, []).append(pending)
        else:
            pending.then(code)

    def moved(self, everything: bool, rows: Iterable[int]) -> None:
        """Partitions whose ends moved, by row modulo DIRTY_BITS."""
        if not self._pending:
            return
        hashes = set(rows)
        for ordinal in list(self._pending):
            if everything or ordinal % DIRTY_BITS in hashes:
                self._port.watch(ordinal)
                self._look_at(ordinal)

    def expire(self, now_ms: int) -> None:
        """What took too long is answered; its record stays in the log."""
        for ordinal, rows in list(self._pending.items()):
            late = [one for one in rows if one.deadline_ms <= now_ms]
            self._keep(ordinal, [one for one in rows if one.deadline_ms > now_ms])
            for one in late:
                one.then(ErrorCode.REQUEST_TIMED_OUT)

    def next_due_ms(self, now_ms: int) -> int | None:
        """The first deadline, or when to call `retry` again."""
        if self._waiting:
            return now_ms + RETRY_MS
        if not self._pending:
            return None
        return min(rows[0].deadline_ms for rows in self._pending.values())

    def _look_at(self, ordinal: int) -> None:
        verdicts = [(one, self._verdict(one)) for one in self._pending[ordinal]]
        self._keep(ordinal, [one for one, code in verdicts if code is None])
        for one, code in verdicts:
            if code is not None:
                one.then(code)

    def _keep(self, ordinal: int, rows: list[_Pending]) -> None:
        if rows:
            self._pending[ordinal] = rows
        else:
            del self._pending[ordinal]

    def _verdict(self, pending: _Pending) -> int | None:
        """An error code, NONE: acknowledged; None: not yet."""
        state = self._logs.state(pending.ordinal)
        if state is None:
            return ErrorCode.KAFKA_STORAGE_ERROR
        if not is_led_since(state, pending.leader_epoch):
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if state.hw < pending.end_offset:
            return None
        if is_under_min_isr(state):
            return ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        synced = not self._logs.flush_on_commit or state.flushed_offset >= pending.end_offset
        return ErrorCode.NONE if synced else None
