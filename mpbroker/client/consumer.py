"""A simple consumer by assignment: fetches partitions of one topic from given offsets. For the command line; no groups.

Any process; owns no socket (its PartitionLeaders do). Every leader has a Fetch in hand while the others are awaited. A
lost connection is made again, and what may pass is tried again for some seconds: positions are the reader's own, so
nothing is read twice.
"""

from __future__ import annotations

import select
import time
from collections.abc import Iterator
from typing import NamedTuple

from mpbroker.client.network_client import Asked, ConnectionLost, NetworkClient
from mpbroker.client.partition_leaders import PartitionLeaders
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


def offset_for(leaders: PartitionLeaders, topic: str, partition: int, timestamp: int) -> int:
    """Offset at a timestamp in ms, or EARLIEST, or LATEST; the log end when no record is that young."""
    return offsets_for(leaders, topic, [partition], timestamp)[partition]


def offsets_for(leaders: PartitionLeaders, topic: str, partitions: list[int], timestamp: int) -> dict[int, int]:
    """As offset_for, of several partitions, one request to each leader; KafkaError for the first that has an error that
    does not pass."""
    for pause_s in leaders.pauses():
        try:
            return offsets_now(leaders, topic, partitions, timestamp)
        except KafkaError as error:
            if not error.retriable or error.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise
            leaders.look_again()
        time.sleep(pause_s)
    return offsets_now(leaders, topic, partitions, timestamp)


def offsets_now(leaders: PartitionLeaders, topic: str, partitions: list[int], timestamp: int) -> dict[int, int]:
    """The same without another try; KafkaError also for what passes, ConnectionLost."""
    found: dict[int, int] = {}
    for leader, numbers in leaders.by_leader(topic, partitions).items():
        wanted = [ListOffsetsPartition(partition_index=number, timestamp=timestamp) for number in numbers]
        request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=wanted)])
        try:
            answer = leader.call(request, ListOffsetsResponse, LIST_OFFSETS_VERSION)
        except ConnectionLost:
            leaders.look_again(leader)
            raise
        for row in answer.topics[0].partitions:
            if row.error_code:
                raise KafkaError(row.error_code, about=f"{topic}-{row.partition_index}")
            found[row.partition_index] = row.offset
    too_young = [number for number, offset in found.items() if offset < 0 and timestamp != LATEST]
    return {**found, **(offsets_now(leaders, topic, too_young, LATEST) if too_young else {})}


class _Asked(NamedTuple):
    """A Fetch in a leader's hand, and until when it has time to answer."""

    request: Asked
    until_s: float


class Consumer:
    """Positions are plain data: {partition: next offset}. `poll` reads once and moves them; taking a partition out of
    them ends its reading."""

    def __init__(self, leaders: PartitionLeaders, topic: str, positions: dict[int, int]) -> None:
        self._leaders = leaders
        self._topic = topic
        self._decompressor = Decompressor()
        self._asked: dict[NetworkClient, _Asked] = {}
        self.positions = dict(positions)

    def poll(self, max_wait_ms: int) -> Iterator[tuple[int, Record]]:
        """(partition, record) pairs of what came first, possibly none; raises KafkaError for a partition's error."""
        for data in self._fetch(max_wait_ms):
            yield from self._records(data)

    def _fetch(self, max_wait_ms: int) -> list[PartitionData]:
        """What the leaders that answer first bring; tries again what may pass."""
        for pause_s in self._tries():
            try:
                return self._fetch_once(max_wait_ms)
            except KafkaError as error:
                if pause_s is None or not error.retriable:
                    raise
                time.sleep(pause_s)
                self._leaders.look_again()
            except ConnectionLost as lost:
                if pause_s is None or not lost.may_pass:
                    raise
                time.sleep(pause_s)
        raise AssertionError("unreachable: the last try returns or raises")

    def _tries(self) -> Iterator[float | None]:
        """The pause after each try; None after the last."""
        yield from self._leaders.pauses()
        yield None

    def _fetch_once(self, max_wait_ms: int) -> list[PartitionData]:
        """Ask every leader that has nothing in hand, and take what comes first."""
        for leader, numbers in self._leaders.by_leader(self._topic, self.positions).items():
            if leader not in self._asked:
                self._ask(leader, numbers, max_wait_ms)
        return [data for leader in self._first_to_answer(max_wait_ms) for data in self._answer(leader)]

    def _ask(self, leader: NetworkClient, numbers: list[int], max_wait_ms: int) -> None:
        try:
            asked = leader.ask(self._request(numbers, max_wait_ms), FETCH_VERSION)
        except ConnectionLost:
            self._leaders.look_again(leader)
            raise
        self._asked[leader] = _Asked(asked, time.monotonic() + (max_wait_ms + leader.timeout_ms) / 1000)

    def _answer(self, leader: NetworkClient) -> list[PartitionData]:
        """Of one that has begun to, or has had its time; KafkaError for the first partition that has an error."""
        asked, until_s = self._asked.pop(leader)
        left_ms = max(1, round((until_s - time.monotonic()) * 1000))
        try:
            response = leader.answer_to(asked, FetchResponse, left_ms)
        except ConnectionLost:
            self._leaders.look_again(leader)
            raise
        if response.error_code:
            raise KafkaError(response.error_code, about=self._topic)
        found = [data for topic in response.responses for data in topic.partitions]
        for data in found:
            if data.error_code != ErrorCode.NONE:
                raise self._error(data)
        return found

    def _request(self, numbers: list[int], max_wait_ms: int) -> FetchRequest:
        wanted = [
            FetchPartition(partition=at, fetch_offset=self.positions[at], partition_max_bytes=PARTITION_BYTES_MAX)
            for at in numbers
        ]
        return FetchRequest(
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            max_bytes=FETCH_BYTES_MAX,
            topics=[FetchTopic(topic=self._topic, partitions=wanted)],
        )

    def _first_to_answer(self, max_wait_ms: int) -> list[NetworkClient]:
        """Those whose answers have begun to come, and those whose time is over; a single one is waited for."""
        if len(self._asked) <= 1:
            return list(self._asked)
        poll, numbers = select.poll(), {one.fileno(): one for one in self._asked}
        for number in numbers:
            poll.register(number, select.POLLIN)
        ready = {numbers[number] for number, _ in poll.poll(max_wait_ms)}
        now_s = time.monotonic()
        return [one for one, (_, until_s) in self._asked.items() if one in ready or until_s <= now_s]

    def _error(self, data: PartitionData) -> KafkaError:
        number, about = data.partition_index, f"{self._topic}-{data.partition_index}"
        if data.error_code != ErrorCode.OFFSET_OUT_OF_RANGE:
            return KafkaError(data.error_code, about=about)
        first = offset_for(self._leaders, self._topic, number, EARLIEST)
        end = offset_for(self._leaders, self._topic, number, LATEST)
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
