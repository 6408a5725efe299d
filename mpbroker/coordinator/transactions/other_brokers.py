"""Where partitions are led, as the coordinator's process sees it; what it asks their leaders and other coordinators.

Coordinator process of a broker of a cluster. Answers are Kafka's codes by partition; a request without an answer is
NETWORK_EXCEPTION for each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple, TypeAlias

from mpbroker.coordinator.effects import AskCoordinator, SendMarkers
from mpbroker.coordinator.transactions.broker_requests import Address, BrokerRequests
from mpbroker.errors import ErrorCode
from mpbroker.metadata.cluster_cache import ClusterCache
from mpbroker.metadata.metadata_cache import MetadataCache
from mpbroker.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from mpbroker.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from mpbroker.protocol.types import Struct

NOBODY: Final = -1
AT_ONCE: Final = 4  # requests with markers to one broker; then they are collected
MAX_MARKERS: Final = 1000  # partitions in one request
Partition: TypeAlias = tuple[str, int]
Codes: TypeAlias = dict[Partition, int]


class _Marker(NamedTuple):
    """One partition of a transaction that ends."""

    markers: SendMarkers
    partition: Partition
    then: Callable[[int], None]

    @property
    def key(self) -> tuple[int, int, bool, int]:
        """Markers of one key are one in a request."""
        one = self.markers
        return one.producer_id, one.producer_epoch, one.committed, one.coordinator_epoch


class OtherBrokers:
    """`listener`: the one between brokers."""

    def __init__(
        self, cluster: ClusterCache, metadata: MetadataCache, listener: str, node_id: int, requests: BrokerRequests
    ) -> None:
        self._cluster = cluster
        self._metadata = metadata
        self._listener = listener
        self._node_id = node_id
        self._requests = requests
        self._markers: dict[Address, list[_Marker]] = {}
        self._under_way: dict[Address, int] = {}

    def deliver(self) -> None:
        """Hands over the answers that came."""
        self._requests.deliver()

    def leads_here(self, topic: str, partition: int) -> bool:
        """Whether this broker is the leader, or should be."""
        return self._leader(topic, partition) == self._node_id

    def address(self, topic: str, partition: int) -> Address | None:
        """Of the leader; None: nobody leads it now."""
        self._cluster.refresh()
        broker = self._cluster.brokers.get(self._leader(topic, partition))
        end_point = None if broker is None else broker.on(self._listener)
        return None if end_point is None else (end_point.host, end_point.port)

    def _leader(self, name: str, partition: int) -> int:
        topic = self._metadata.topic(name)
        if topic is None or not 0 <= partition < len(topic.partitions):
            return NOBODY
        found = self._cluster.assignment(topic.partitions[partition], topic.id)
        return NOBODY if found is None else found.leader

    # markers

    def write_marker(self, markers: SendMarkers, partition: Partition, then: Callable[[int], None]) -> None:
        """The leader of a partition shall write a marker; `then(code)` later, or at once if there is none. Goes out
        with `flush`."""
        address = self.address(*partition)
        if address is None:
            then(ErrorCode.LEADER_NOT_AVAILABLE)
        else:
            self._markers.setdefault(address, []).append(_Marker(markers, partition, then))

    def flush(self) -> None:
        """Sends what was collected, as far as not too much is under way."""
        for address, waiting in list(self._markers.items()):
            while waiting and self._under_way.get(address, 0) < AT_ONCE:
                self._send_markers(address, waiting[:MAX_MARKERS])
                del waiting[:MAX_MARKERS]
            if not waiting:
                del self._markers[address]

    def _send_markers(self, address: Address, those: list[_Marker]) -> None:
        self._under_way[address] = self._under_way.get(address, 0) + 1
        rows: dict[tuple[int, int, bool, int], list[_Marker]] = {}
        for one in those:
            rows.setdefault(one.key, []).append(one)

        def answered(response: Struct | None) -> None:
            self._under_way[address] -= 1
            codes = _marker_codes(response)
            for number, row in enumerate(rows.values()):
                for one in row:
                    one.then(codes.get((number, *one.partition), ErrorCode.NETWORK_EXCEPTION))
            self.flush()

        markers = [_marker(key, [one.partition for one in row]) for key, row in rows.items()]
        self._requests.send(address, WriteTxnMarkersRequest(markers=markers), answered)

    # other coordinators

    def ask(self, asked: AskCoordinator, address: Address | None, then: Callable[[Codes], None]) -> None:
        """Add partitions to a transaction at its coordinator, or ask whether they are part of it (KIP-890)."""

        def answered(response: Struct | None) -> None:
            then(_addition_codes(response, asked))

        if address is None:
            answered(None)
            return
        one = AddPartitionsToTxnTransaction(
            asked.transactional_id,
            asked.producer_id,
            asked.producer_epoch,
            asked.verify_only,
            [AddPartitionsToTxnTopic(name, numbers) for name, numbers in _by_topic(asked.partitions).items()],
        )
        self._requests.send(address, AddPartitionsToTxnRequest(transactions=[one]), answered)


def _by_topic(partitions: Iterable[Partition]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for name, number in sorted(partitions):
        found.setdefault(name, []).append(number)
    return found


def _marker(key: tuple[int, int, bool, int], partitions: list[Partition]) -> WritableTxnMarker:
    producer_id, producer_epoch, committed, coordinator_epoch = key
    topics = [WritableTxnMarkerTopic(name, numbers) for name, numbers in _by_topic(partitions).items()]
    return WritableTxnMarker(producer_id, producer_epoch, committed, topics, coordinator_epoch)


def _marker_codes(response: Struct | None) -> dict[tuple[int, str, int], int]:
    """By number of the marker in the request, topic and partition."""
    if not isinstance(response, WriteTxnMarkersResponse):
        return {}
    return {
        (number, topic.name, one.partition_index): one.error_code
        for number, marker in enumerate(response.markers)
        for topic in marker.topics
        for one in topic.partitions
    }


def _addition_codes(response: Struct | None, asked: AskCoordinator) -> Codes:
    codes = dict.fromkeys(asked.partitions, int(ErrorCode.NETWORK_EXCEPTION))
    if not isinstance(response, AddPartitionsToTxnResponse):
        return codes
    if response.error_code:
        return dict.fromkeys(asked.partitions, response.error_code)
    for result in response.results_by_transaction:
        for topic in result.topic_results:
            for one in topic.results_by_partition:
                codes[topic.name, one.partition_index] = one.partition_error_code
    return codes
