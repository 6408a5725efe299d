"""Transactions through the protocol: list, describe, abort. Any process; any broker of Kafka 3.0 or later.

Each function asks the broker it is given once; `group_admin.ask_coordinator` with `TRANSACTION` finds the one that
answers for a transactional id.
"""

from __future__ import annotations

import time
from typing import NamedTuple

from mpbroker.client.network_client import NetworkClient
from mpbroker.client.partition_leaders import PartitionLeaders
from mpbroker.client.retries import pauses
from mpbroker.errors import ErrorCode, KafkaError
from mpbroker.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    ProducerState,
    TopicRequest,
)
from mpbroker.protocol.messages.describe_transactions import DescribeTransactionsRequest, DescribeTransactionsResponse
from mpbroker.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from mpbroker.protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from mpbroker.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

TRANSACTION = 1  # the key type of FindCoordinator
ONGOING = "Ongoing"
STATES = (
    "Empty",
    ONGOING,
    "PrepareCommit",
    "PrepareAbort",
    "CompleteCommit",
    "CompleteAbort",
    "Dead",
    "PrepareEpochFence",
)
"""Of a transactional id, as every broker names them."""


class TransactionListing(NamedTuple):
    """One transactional id of a list."""

    transactional_id: str
    state: str
    producer_id: int


class TransactionDescription(NamedTuple):
    """One transactional id; `started_ms` since 1970, -1 while no transaction was on yet."""

    transactional_id: str
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    started_ms: int
    partitions: list[tuple[str, int]]


def list_transactions(client: NetworkClient, states: list[str]) -> list[TransactionListing]:
    """The transactional ids that this broker coordinates, by name; no states: all. KafkaError, also for a state that
    does not exist."""
    answer = client.call(ListTransactionsRequest(state_filters=states), ListTransactionsResponse, 0)
    if answer.error_code:
        raise KafkaError(answer.error_code)
    if answer.unknown_state_filters:
        raise KafkaError(ErrorCode.INVALID_REQUEST, about=f"no such state: {', '.join(answer.unknown_state_filters)}")
    return sorted(
        TransactionListing(one.transactional_id, one.transaction_state, one.producer_id)
        for one in answer.transaction_states
    )


def describe_transaction(client: NetworkClient, transactional_id: str) -> TransactionDescription:
    """One id of this coordinator; KafkaError."""
    request = DescribeTransactionsRequest([transactional_id])
    [found] = client.call(request, DescribeTransactionsResponse, 0).transaction_states
    if found.error_code:
        raise KafkaError(found.error_code, about=transactional_id)
    return TransactionDescription(
        found.transactional_id,
        found.transaction_state,
        found.producer_id,
        found.producer_epoch,
        found.transaction_timeout_ms,
        found.transaction_start_time_ms,
        sorted((topic.topic, number) for topic in found.topics for number in topic.partitions),
    )


def abort_transaction(client: NetworkClient, found: TransactionDescription) -> None:
    """Ends the id's transaction as its next producer would, which fences the present one; returns when it is aborted.
    KafkaError."""
    request = InitProducerIdRequest(found.transactional_id, found.timeout_ms)
    for pause_s in (*pauses(), None):
        answer = client.call(request, InitProducerIdResponse, 4)
        if not answer.error_code:
            return
        if answer.error_code != ErrorCode.CONCURRENT_TRANSACTIONS or pause_s is None:
            raise KafkaError(answer.error_code, about=found.transactional_id)
        time.sleep(pause_s)


def abort_at(client: NetworkClient, topic: str, partition: int, start_offset: int) -> int | None:
    """Ends the transaction that is open in a partition from an offset on, which no coordinator knows any more, by a
    marker in that partition. Returns the producer's id; None: none is open from there on. KafkaError."""
    with PartitionLeaders(client) as leaders:
        leader = leaders.of(topic, partition)
        found = _producer_at(leader, topic, partition, start_offset)
        if found is None:
            return None
        marker = WritableTxnMarker(
            found.producer_id,
            found.producer_epoch,
            False,
            [WritableTxnMarkerTopic(topic, [partition])],
            max(found.coordinator_epoch, 0),
        )
        answer = leader.call(WriteTxnMarkersRequest([marker]), WriteTxnMarkersResponse, 1)
        code = answer.markers[0].topics[0].partitions[0].error_code
        if code:
            raise KafkaError(code, about=f"{topic}-{partition}")
        return found.producer_id


def _producer_at(leader: NetworkClient, topic: str, partition: int, start_offset: int) -> ProducerState | None:
    request = DescribeProducersRequest([TopicRequest(topic, [partition])])
    [found] = leader.call(request, DescribeProducersResponse, 0).topics[0].partitions
    if found.error_code:
        raise KafkaError(found.error_code, about=f"{topic}-{partition}")
    return next((one for one in found.active_producers if one.current_txn_start_offset == start_offset), None)
