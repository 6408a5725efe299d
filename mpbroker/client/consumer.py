"""A simple consumer by assignment: fetches partitions of one topic from given offsets. For the command line; no groups.

Any process; owns no socket (its NetworkClient does). A lost connection is made again, and what may pass is tried again
for some seconds: positions are the reader's own, so nothing is read twice.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

from mpbroker.client.network_client import ConnectionLost, NetworkClient
from mpbroker.client.retries import pauses
from mpbroker.errors import ErrorCode, KafkaError
from mpbroker.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData
from mpbroker.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from mpbroker.record.compression import Decompressor
from mpbroker.record.record_batch import ATTRIBUTE_CONTROL, Record, batch_records, iterate_batches

EARLIEST, LATEST = -2, -1
FETCH_VERSION, LIST_OFFSETS_VERSION = 11, 5
FETCH_BYTES_MAX = 16 * 1024 * 1024
PARTITION_BYTES_MAX = 1024 * 1024


def offset_for(client: NetworkClient, topic: str, partition: int, timestamp: int) -> int:
    """Offset at a timestamp in ms, or EARLIEST, or LATEST; the log end when no record is that young."""
    return offsets_for(client, topic, [partition], timestamp)[partition]


def offsets_for(client: NetworkClient, topic: str, partitions: list[int], timestamp: int) -> dict[int, int]:
    """As offset_for, of several partitions in one request; KafkaError for the first that has an error."""
    wanted = [ListOffsetsPartition(partition_index=number, timestamp=timestamp) for number in partitions]
    request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=wanted)])
    answer = client.call(request, ListOffsetsResponse, LIST_OFFSETS_VERSION)
    found = {}
    for row in answer.topics[0].partitions:
        if row.error_code:
            raise KafkaError(row.error_code, about=f"{topic}-{row.partition_index}")
        found[row.partition_index] = row.offset
    too_young = [number for number, offset in found.items() if offset < 0 and timestamp != LATEST]
    return {**found, **(offsets_for(client, topic, too_young, LATEST) if too_young else {})}


class Consumer:
    """Positions are plain data: {partition: next offset}. `poll` reads once and moves them; taking a partition out of
    them ends its reading."""

    def __init__(self, client: NetworkClient, topic: str, positions: dict[int, int]) -> None:
        self._client = client
        self._topic = topic
        self._decompressor = Decompressor()
        self.positions = dict(positions)

    def poll(self, max_wait_ms: int) -> Iterator[tuple[int, Record]]:
        """(partition, record) pairs of one fetch, possibly none; raises KafkaError for a partition's error."""
        for data in self._fetch(max_wait_ms):
            yield from self._records(data)

    def _fetch(self, max_wait_ms: int) -> list[PartitionData]:
        """What one request brings; tries again what may pass."""
        for pause_s in (*pauses(), None):
            try:
                return self._fetch_once(max_wait_ms)
            except KafkaError as error:
                if pause_s is None or not error.retriable:
                    raise
                time.sleep(pause_s)
            except ConnectionLost as lost:
                if pause_s is None or not lost.may_pass:
                    raise
                time.sleep(pause_s)
                self._reconnect()
        raise AssertionError("unreachable: the last try returns or raises")

    def _reconnect(self) -> None:
        with contextlib.suppress(ConnectionLost):  # the next try finds out
            self._client.reconnect()

    def _fetch_once(self, max_wait_ms: int) -> list[PartitionData]:
        request = FetchRequest(
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            max_bytes=FETCH_BYTES_MAX,
            topics=[
                FetchTopic(
                    topic=self._topic,
                    partitions=[
                        FetchPartition(partition=number, fetch_offset=offset, partition_max_bytes=PARTITION_BYTES_MAX)
                        for number, offset in self.positions.items()
                    ],
                )
            ],
        )
        response = self._client.call(request, FetchResponse, FETCH_VERSION, max_wait_ms + self._client.timeout_ms)
        if response.error_code:
            raise KafkaError(response.error_code, about=self._topic)
        found = [data for topic in response.responses for data in topic.partitions]
        for data in found:
            if data.error_code != ErrorCode.NONE:
                raise self._error(data)
        return found

    def _error(self, data: PartitionData) -> KafkaError:
        number, about = data.partition_index, f"{self._topic}-{data.partition_index}"
        if data.error_code != ErrorCode.OFFSET_OUT_OF_RANGE:
            return KafkaError(data.error_code, about=about)
        first = offset_for(self._client, self._topic, number, EARLIEST)
        end = offset_for(self._client, self._topic, number, LATEST)
        return KafkaError(
            data.error_code,
            f"offset {self.positions[number]} is out of range: the partition has {first} to {end}",
            about,
        )

    def _records(self, data: PartitionData) -> Iterator[tuple[int, Record]]:
        """Records from the position on: a batch may begin before it, and end in the middle of the answer."""
        number, stored = data.partition_index, data.records
        if stored is None or isinstance(stored, int):
            return
        for info, batch in iterate_batches(memoryview(stored)):
            begin, after = self.positions[number], info.base_offset + info.last_offset_delta + 1
            if after <= begin:
                continue
            if not info.attributes & ATTRIBUTE_CONTROL:
                for record in batch_records(batch, info, self._decompressor):
                    if record.offset >= begin:
                        self.positions[number] = record.offset + 1
                        yield number, record
                        if number not in self.positions:
                            return
            self.positions[number] = after  # also past markers, and offsets that compaction emptied
