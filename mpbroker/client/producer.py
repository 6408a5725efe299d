"""A simple producer: batches per partition, one request at a time, retries what may be retried. For the CLI."""

from __future__ import annotations

import time

from mpbroker.client.network_client import NetworkClient
from mpbroker.errors import KafkaError
from mpbroker.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from mpbroker.record.batch_builder import encode_batch

PRODUCE_VERSION = 7
RETRIES, RETRY_BACKOFF_MS = 5, 200


class Producer:
    """Sends records of one topic. `acks` is −1 (all), 0 or 1; with 0 nothing is known about the result."""

    def __init__(self, client: NetworkClient, topic: str, acks: int = -1, timeout_ms: int = 30_000) -> None:
        self._client = client
        self._topic = topic
        self._acks = acks
        self._timeout_ms = timeout_ms

    def send(self, partition: int, records: list[tuple[bytes | None, bytes | None]]) -> int | None:
        """Appends (key, value) pairs as one batch. Returns the base offset, None with acks=0; raises KafkaError."""
        now_ms = time.time_ns() // 1_000_000
        batch = encode_batch([(key, value, now_ms) for key, value in records])
        for attempt in range(RETRIES + 1):
            result = self._send_once(partition, batch)
            if result is None or result.error_code == 0:
                return None if result is None else result.base_offset
            error = KafkaError(result.error_code, about=f"{self._topic}-{partition}")
            if attempt == RETRIES or not error.retriable:
                raise error
            time.sleep(RETRY_BACKOFF_MS / 1000)
        raise AssertionError("unreachable: the last attempt returns or raises")

    def _send_once(self, partition: int, batch: bytes):
        data = TopicProduceData(name=self._topic, partition_data=[PartitionProduceData(index=partition, records=batch)])
        request = ProduceRequest(acks=self._acks, timeout_ms=self._timeout_ms, topic_data=[data])
        if self._acks == 0:
            self._client.send_only(request, self._client.version_for(ProduceRequest, PRODUCE_VERSION))
            return None
        response = self._client.call(request, ProduceResponse, PRODUCE_VERSION)
        return response.responses[0].partition_responses[0]
