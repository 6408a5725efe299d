"""A simple producer: batches of one topic, one request at a time. For the command line and the demo.

Any process; owns no socket (its PartitionLeaders do). With acks=all it is idempotent (KIP-98): a batch whose answer was
lost is sent again under the same sequence numbers, and the broker stores it once. A batch that is larger than the topic
takes is halved until a single record is.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from mpbroker.client.network_client import ConnectionLost, NetworkClient
from mpbroker.client.partition_leaders import PartitionLeaders
from mpbroker.client.topic_admin import topic_configs
from mpbroker.errors import ErrorCode, KafkaError, MpbrokerError
from mpbroker.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from mpbroker.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from mpbroker.record import compression
from mpbroker.record.batch_builder import NO_PRODUCER_ID, RecordBatchBuilder

PRODUCE_VERSION, INIT_PRODUCER_ID_VERSION = 7, 1
ACKS_ALL = -1
MAX_SEQUENCE = 0x7FFFFFFF


class Outgoing(NamedTuple):
    """A record to send. `timestamp_ms` since 1970, None: the time it is sent."""

    key: bytes | None
    value: bytes | None
    timestamp_ms: int | None = None
    headers: Sequence[tuple[bytes, bytes | None]] = ()


class Batch(NamedTuple):
    """A finished batch, and how many bytes its records take uncompressed (with the batch's header)."""

    data: bytes
    plain_bytes: int


class Producer:
    """Sends records of one topic. `acks`: −1 (all), 1, or 0, with which nothing is known about the result."""

    def __init__(
        self,
        leaders: PartitionLeaders,
        topic: str,
        acks: int = ACKS_ALL,
        codec: int = compression.NONE,
        timeout_ms: int = 30_000,
    ) -> None:
        self._leaders = leaders
        self._topic = topic
        self._acks = acks
        self._codec = codec
        self._timeout_ms = timeout_ms
        self._id = (NO_PRODUCER_ID, -1)  # and its epoch
        self._sequences: dict[int, int] = {}  # partition → of the next record
        self.acknowledged = 0  # records the broker said it has
        self._in_doubt = False  # whether the batch in hand was sent, and its answer lost
        self.unknown = 0  # records sent without an answer: with acks=0, or the connection was lost

    def send(self, partition: int, records: Sequence[Outgoing]) -> int | None:
        """Appends records as one batch, or several if one is too large. Returns the first one's offset, None with
        acks=0. KafkaError or ConnectionLost: `acknowledged` counts what was stored before."""
        batch = self._build(partition, records)
        answer = self._deliver(partition, batch, len(records))
        if answer is None:
            return None
        if answer.error_code == ErrorCode.MESSAGE_TOO_LARGE and len(records) > 1:
            half = len(records) // 2
            base_offset = self.send(partition, records[:half])
            self.send(partition, records[half:])
            return base_offset
        if answer.error_code not in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
            raise self._refused(partition, batch, answer.error_code)
        self.acknowledged += len(records)
        self._sequences[partition] = (self._sequences.get(partition, 0) + len(records)) & MAX_SEQUENCE
        return answer.base_offset

    def _build(self, partition: int, records: Sequence[Outgoing]) -> Batch:
        if self._acks == ACKS_ALL and self._id[0] == NO_PRODUCER_ID:
            self._id = self._take_id(partition)
        idempotent = self._id[0] != NO_PRODUCER_ID
        builder = RecordBatchBuilder(
            codec=self._codec,
            producer_id=self._id[0],
            producer_epoch=self._id[1],
            base_sequence=self._sequences.get(partition, 0) if idempotent else -1,
        )
        now_ms = time.time_ns() // 1_000_000
        for key, value, timestamp_ms, headers in records:
            builder.append(key, value, now_ms if timestamp_ms is None else timestamp_ms, headers)
        return Batch(builder.build(), builder.size_bytes)

    def _take_id(self, partition: int) -> tuple[int, int]:
        """Any broker gives one: the partition's leader, which is needed next."""
        request = InitProducerIdRequest(transactional_id=None)
        for pause_s in self._tries():
            leader: NetworkClient | None = None
            try:
                leader = self._leaders.of(self._topic, partition)
                answer = leader.call(request, InitProducerIdResponse, INIT_PRODUCER_ID_VERSION)
                problem: MpbrokerError = KafkaError(answer.error_code, about="a producer id for acks=all")
                if not answer.error_code:
                    return answer.producer_id, answer.producer_epoch
            except (ConnectionLost, KafkaError) as caught:
                problem = caught
            self._before_another_try(problem, pause_s, leader)
        raise AssertionError("unreachable: the last try returns or raises")

    def _tries(self) -> Iterator[float | None]:
        """The pause after each try; None after the last."""
        yield from self._leaders.pauses()
        yield None

    def _deliver(self, partition: int, batch: Batch, count: int) -> PartitionProduceResponse | None:
        """The broker's final answer, None with acks=0; what may pass is tried again for some seconds."""
        self._in_doubt = False
        try:
            answer = self._try_to_deliver(partition, batch)
        except (MpbrokerError, KeyboardInterrupt) as problem:
            self.unknown += count if self._in_doubt else 0
            if isinstance(problem, ConnectionLost) and self._in_doubt:
                raise ConnectionLost(f"{problem} (a batch of {len(batch.data)} bytes)", problem.may_pass) from problem
            raise
        if answer is None:
            self.unknown += count
        return answer

    def _try_to_deliver(self, partition: int, batch: Batch) -> PartitionProduceResponse | None:
        for pause_s in self._tries():
            leader: NetworkClient | None = None
            try:
                leader = self._leaders.of(self._topic, partition)
                answer = self._send_once(leader, partition, batch.data)
                if answer is None or not answer.error_code:
                    return answer
                problem: MpbrokerError = KafkaError(answer.error_code, about=f"{self._topic}-{partition}")
                if not _may_pass(problem) or pause_s is None:
                    return answer
            except KafkaError as refused:  # nobody to send it to
                problem = refused
            except ConnectionLost as lost:
                problem = lost
                self._in_doubt |= leader is not None
                if leader is not None and self._id[0] == NO_PRODUCER_ID:  # again might be twice
                    raise
            except KeyboardInterrupt:
                self._in_doubt |= leader is not None
                raise
            self._before_another_try(problem, pause_s, leader)
        raise AssertionError("unreachable: the last try returns or raises")

    def _before_another_try(self, problem: MpbrokerError, pause_s: float | None, leader: NetworkClient | None) -> None:
        """Waits, and forgets who leads, and a connection that is gone; raises what is not worth another try."""
        if pause_s is None or not _may_pass(problem):
            raise problem
        time.sleep(pause_s)
        self._leaders.look_again(leader if isinstance(problem, ConnectionLost) else None)

    def _send_once(self, leader: NetworkClient, partition: int, batch: bytes) -> PartitionProduceResponse | None:
        data = TopicProduceData(name=self._topic, partition_data=[PartitionProduceData(index=partition, records=batch)])
        request = ProduceRequest(acks=self._acks, timeout_ms=self._timeout_ms, topic_data=[data])
        if self._acks == 0:
            leader.send_only(request, leader.version_for(ProduceRequest, PRODUCE_VERSION))
            return None
        response = leader.call(request, ProduceResponse, PRODUCE_VERSION)
        return response.responses[0].partition_responses[0]

    def _refused(self, partition: int, batch: Batch, code: int) -> KafkaError:
        about = f"{self._topic}-{partition}"
        if code != ErrorCode.MESSAGE_TOO_LARGE:
            return KafkaError(code, about=about)
        size, limit = f"a record takes {len(batch.data)} bytes as a batch", self._most_bytes(partition)
        if limit is not None and len(batch.data) > limit:
            return KafkaError(code, f"{size}, the topic accepts at most {limit} (max.message.bytes)", about)
        return KafkaError(code, f"{size}, {batch.plain_bytes} uncompressed", about)

    def _most_bytes(self, partition: int) -> int | None:
        """The topic's max.message.bytes, None if the broker does not say."""
        try:
            value = topic_configs(self._leaders.of(self._topic, partition), self._topic)["max.message.bytes"]["value"]
        except (MpbrokerError, KeyError):
            return None
        return int(value) if value is not None and value.isdigit() else None


def _may_pass(problem: MpbrokerError) -> bool:
    return problem.may_pass if isinstance(problem, ConnectionLost) else getattr(problem, "retriable", False)
