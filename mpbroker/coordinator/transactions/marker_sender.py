"""Ends transactions in their partitions: one control batch in each. Runs in the coordinator process.

`Log.append_marker` appends the markers of partitions that are led here; those of a cluster's other partitions go to
their leaders as WriteTxnMarkers (`other_brokers`). A marker counts as written when it is replicated. One that cannot be
written is tried again for as long as its partition exists, wherever it is led: a decided transaction ends. One that
is not known here exists, as long as it may be metadata that lags behind.
Markers may be written twice, for a successor sends all of them again; the second one changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final, TypeAlias

import msgspec

from mpbroker.channel.handler_port import HandlerPort
from mpbroker.coordinator.effects import SendMarkers
from mpbroker.coordinator.offsets_log import BUSY, OffsetsLog
from mpbroker.coordinator.transactions.other_brokers import OtherBrokers
from mpbroker.errors import ErrorCode
from mpbroker.log.log_manager import LogManager
from mpbroker.metadata.metadata_cache import MetadataCache, Topic
from mpbroker.metadata.topic_names import OFFSETS_TOPIC
from mpbroker.shm.clock import Clock

RETRY_MS, MOVED_RETRY_MS, BROKEN_RETRY_MS = 20, 50, 1000
NO_SHARD = -1  # an administrator or another coordinator asked: he hears of errors, and may ask again
#: Its leader is another one by now, or not to be had.
_MOVED: Final = (
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.NETWORK_EXCEPTION,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,  # there not known yet; whether it is gone is looked at here
)
#: A newer coordinator or a newer producer was there: the partition needs this marker no more.
_OVERTAKEN: Final = (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED)
Codes: TypeAlias = dict[tuple[str, int], int]

#: Called once: a code for each partition.
Then: TypeAlias = Callable[[Codes], None]


class _Sending(msgspec.Struct):
    """One transaction: what was heard of its partitions."""

    markers: SendMarkers
    then: Then
    codes: Codes


class MarkerSender:
    """`others`: in a cluster only. `offsets_ended(partition, producer id, committed)` hears of markers in this broker's
    partitions of `__consumer_offsets`. `coordinates(shard, epoch)`: else another broker does by now, and sends the
    markers. `are_gone(shard)`: whether partitions of its transactions that are not known were deleted."""

    def __init__(
        self,
        port: HandlerPort,
        log_manager: LogManager,
        metadata: MetadataCache,
        appends: OffsetsLog,
        clock: Clock,
        offsets_ended: Callable[[int, int, bool], None],
        crash_point: Callable[[str], None],
        coordinates: Callable[[int, int], bool],
        are_gone: Callable[[int], bool],
        others: OtherBrokers | None = None,
    ) -> None:
        self._port = port
        self._logs = log_manager
        self._metadata = metadata
        self._appends = appends
        self._clock = clock
        self._offsets_ended = offsets_ended
        self._crash_point = crash_point
        self._coordinates = coordinates
        self._are_gone = are_gone
        self._others = others
        self._waiting: list[tuple[int, _Sending, tuple[str, int]]] = []  # from when on, what, where

    def send(self, markers: SendMarkers, then: Then) -> None:
        """End a transaction; however long that takes."""
        sending = _Sending(markers, then, {})
        if not markers.partitions:
            then({})
        for one in sorted(markers.partitions):
            self._write(sending, one)
        self._flush()

    def retry(self, now_ms: int) -> None:
        """Tries again what could not be written."""
        waiting, self._waiting = self._waiting, []
        for due_ms, sending, one in waiting:
            if due_ms <= now_ms:
                self._write(sending, one)
            else:
                self._waiting.append((due_ms, sending, one))
        self._flush()

    def _flush(self) -> None:
        if self._others is not None:
            self._others.flush()

    def next_due_ms(self) -> int | None:
        """When to call `retry`."""
        if not self._waiting:
            return None
        return min((due_ms for due_ms, _, _ in self._waiting), default=None)

    def _write(self, sending: _Sending, one: tuple[str, int]) -> None:
        topic = self._metadata.topic(one[0])
        if topic is None or one[1] >= len(topic.partitions):
            self._unknown(sending, one)
        elif self._others is None or sending.markers.shard == NO_SHARD or self._others.leads_here(*one):
            self._append(sending, one, topic)
        else:
            self._others.write_marker(sending.markers, one, partial(self._answered, sending, one))

    def _unknown(self, sending: _Sending, one: tuple[str, int]) -> None:
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if sending.markers.shard != NO_SHARD and self._are_gone(sending.markers.shard):
            self._settle(sending, one, code)
        else:
            self._refused(sending, one, code, self._clock.monotonic_ms())

    def _answered(self, sending: _Sending, one: tuple[str, int], code: int) -> None:
        """By the leader, on another broker."""
        if code:
            self._refused(sending, one, code, self._clock.monotonic_ms())
        else:
            self._settle(sending, one, ErrorCode.NONE)

    def _append(self, sending: _Sending, one: tuple[str, int], topic: Topic) -> None:
        ordinal = topic.partitions[one[1]]
        markers, now_ms = sending.markers, self._clock.monotonic_ms()
        result = self._logs.log.append_marker(
            ordinal,
            markers.producer_id,
            markers.producer_epoch,
            markers.coordinator_epoch,
            markers.committed,
            self._logs.options_of(topic)[0],
            self._clock.wall_ms(),
            topic_id=topic.id,
        )
        if result.busy:
            self._port.watch(ordinal)
        if result.error:
            self._refused(sending, one, BUSY if result.busy else result.error, now_ms)
            return
        self._crash_point("coordinator.marked")
        self._appends.await_end(
            ordinal, result.end_offset, result.leader_epoch, now_ms, partial(self._acknowledged, sending, one)
        )

    def _refused(self, sending: _Sending, one: tuple[str, int], code: int, now_ms: int) -> None:
        markers = sending.markers
        is_asked = markers.shard == NO_SHARD and code != BUSY
        if code in _OVERTAKEN or is_asked:
            self._settle(sending, one, code)
        elif markers.shard == NO_SHARD or self._coordinates(markers.shard, markers.coordinator_epoch):
            after_ms = RETRY_MS if code == BUSY else MOVED_RETRY_MS if code in _MOVED else BROKEN_RETRY_MS
            self._waiting.append((now_ms + after_ms, sending, one))

    def _acknowledged(self, sending: _Sending, one: tuple[str, int], code: int) -> None:
        """Not synced in time, say: then it is written once more."""
        if code:
            self._refused(sending, one, code, self._clock.monotonic_ms())
            return
        if one[0] == OFFSETS_TOPIC:
            self._offsets_ended(one[1], sending.markers.producer_id, sending.markers.committed)
        self._settle(sending, one, ErrorCode.NONE)

    def _settle(self, sending: _Sending, one: tuple[str, int], code: int) -> None:
        sending.codes[one] = code
        if len(sending.codes) == len(sending.markers.partitions):
            sending.then(sending.codes)
