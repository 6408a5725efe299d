"""A simple consumer by assignment: fetches partitions of one topic from given offsets. For the CLI; no groups."""

from __future__ import annotations

from collections.abc import Iterator

from mpbroker.client.network_client import NetworkClient
from mpbroker.errors import ErrorCode, KafkaError
from mpbroker.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from mpbroker.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from mpbroker.record.record_batch import iterate_records

EARLIEST, LATEST = -2, -1
FETCH_VERSION, LIST_OFFSETS_VERSION = 11, 5
FETCH_BYTES_MAX = 16 * 1024 * 1024
PARTITION_BYTES_MAX = 1024 * 1024


def offset_for(client: NetworkClient, topic: str, partition: int, timestamp: int) -> int:
    """Offset at a timestamp in ms, or EARLIEST, or LATEST; the log end when no record is that young."""
    asked = ListOffsetsTopic(
        name=topic, partitions=[ListOffsetsPartition(partition_index=partition, timestamp=timestamp)]
    )
    request = ListOffsetsRequest(replica_id=-1, topics=[asked])
    found = client.call(request, ListOffsetsResponse, LIST_OFFSETS_VERSION).topics[0].partitions[0]
    if found.error_code:
        raise KafkaError(found.error_code, about=f"{topic}-{partition}")
    return offset_for(client, topic, partition, LATEST) if found.offset < 0 else found.offset


class Consumer:
    """Positions are plain data: {partition: next offset}. `poll` reads once and moves them."""

    def __init__(self, client: NetworkClient, topic: str, positions: dict[int, int]) -> None:
        self._client = client
        self._topic = topic
        self.positions = dict(positions)

    def poll(self, max_wait_ms: int) -> Iterator[tuple[int, object]]:
        """(partition, record) pairs of one fetch, possibly none; raises KafkaError for a partition's error."""
        partitions = [
            FetchPartition(partition=number, fetch_offset=offset, partition_max_bytes=PARTITION_BYTES_MAX)
            for number, offset in self.positions.items()
        ]
        request = FetchRequest(
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            max_bytes=FETCH_BYTES_MAX,
            topics=[FetchTopic(topic=self._topic, partitions=partitions)],
        )
        response = self._client.call(request, FetchResponse, FETCH_VERSION, max_wait_ms + self._client.timeout_ms)
        if response.error_code:
            raise KafkaError(response.error_code, about=self._topic)
        for data in (part for topic in response.responses for part in topic.partitions):
            if data.error_code != ErrorCode.NONE:
                raise KafkaError(data.error_code, about=f"{self._topic}-{data.partition_index}")
            yield from self._records(data)

    def _records(self, data) -> Iterator[tuple[int, object]]:
        """Records from the position on: a batch may begin before it, and end in the middle of the answer."""
        for record in iterate_records(data.records or b"", self.positions[data.partition_index]):
            self.positions[data.partition_index] = record.offset + 1
            yield data.partition_index, record
