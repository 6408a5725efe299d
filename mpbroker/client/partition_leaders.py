"""Connections to the brokers that lead partitions, found through one broker of the cluster, and made when needed.

Any process; owns its connections, not the one it is given. What is known is what Metadata said last: `look_again` after
an error. While the broker first named is gone, the others that are known are asked.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from mpbroker.client.network_client import ConnectionLost, NetworkClient
from mpbroker.client.retries import MORE_PAUSES, PAUSES, pauses
from mpbroker.errors import ErrorCode, KafkaError
from mpbroker.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)

METADATA_VERSION = 8


class _Place(NamedTuple):
    """Where a broker listens."""

    host: str
    port: int


class PartitionLeaders:
    """Who leads what. Where there is one broker, it is asked over the connection given, whatever it calls itself; else
    that one is for Metadata alone, since a leader may have a request in hand."""

    def __init__(self, client: NetworkClient) -> None:
        self._client = client
        self._places: dict[int, _Place] = {}
        self._led: dict[str, dict[int, int]] = {}  # topic → partition → node id of the leader
        self._open: dict[_Place, NetworkClient] = {}
        self._alone = True

    def of(self, topic: str, partition: int) -> NetworkClient:
        """A connection to the leader of one partition; KafkaError, ConnectionLost."""
        [leader] = self.by_leader(topic, [partition])
        return leader

    def by_leader(self, topic: str, partitions: Iterable[int]) -> dict[NetworkClient, list[int]]:
        """Connection → those of these partitions that its broker leads. KafkaError (5) while one has no leader."""
        led = self._led[topic] if topic in self._led else self._look(topic)
        found: dict[NetworkClient, list[int]] = {}
        for number in partitions:
            place = self._places.get(led.get(number, -1))
            if place is None:
                self.look_again()
                raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, about=f"{topic}-{number}")
            found.setdefault(self._connection(place), []).append(number)
        return found

    def look_again(self, lost: NetworkClient | None = None) -> None:
        """Forget who leads what; with `lost`, its connection too."""
        self._led.clear()
        for place, one in list(self._open.items()):
            if one is lost:
                del self._open[place]
                one.close()
        if lost is self._client:
            with contextlib.suppress(ConnectionLost):  # then another broker is asked
                self._client.reconnect()

    def pauses(self) -> Iterator[float]:
        """Seconds before each further try: more of them where another broker may take over."""
        for number, pause_s in enumerate(pauses(PAUSES + MORE_PAUSES)):
            if number < PAUSES or not self._alone:
                yield pause_s

    def close(self) -> None:
        """Ends the connections made here."""
        for one in self._open.values():
            one.close()
        self._open.clear()

    def __enter__(self) -> PartitionLeaders:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    def _connection(self, place: _Place) -> NetworkClient:
        if self._alone:
            return self._client
        if place not in self._open:
            self._open[place] = self._connect(place)
        return self._open[place]

    def _look(self, topic: str) -> dict[int, int]:
        answer = self._ask(topic)
        self._places = {one.node_id: _Place(one.host, one.port) for one in answer.brokers}
        self._alone = self._alone and len(self._places) == 1
        [found] = answer.topics
        if found.error_code not in (ErrorCode.NONE, ErrorCode.LEADER_NOT_AVAILABLE):
            raise KafkaError(found.error_code, about=topic)
        self._led[topic] = _leaders(found)
        return self._led[topic]

    def _ask(self, topic: str) -> MetadataResponse:
        request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
        try:
            return self._client.call(request, MetadataResponse, METADATA_VERSION)
        except ConnectionLost as lost:
            problem = lost
        with contextlib.suppress(ConnectionLost):
            self._client.reconnect()
            return self._client.call(request, MetadataResponse, METADATA_VERSION)
        for place in self._places.values():
            with contextlib.suppress(ConnectionLost), self._connect(place) as other:
                return other.call(request, MetadataResponse, METADATA_VERSION)
        raise problem

    def _connect(self, place: _Place) -> NetworkClient:
        return NetworkClient(*place, self._client.client_id, self._client.timeout_ms)


def _leaders(topic: MetadataResponseTopic) -> dict[int, int]:
    return {row.partition_index: row.leader_id for row in topic.partitions}
