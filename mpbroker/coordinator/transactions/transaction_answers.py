"""Answers about transactions that say only what went wrong, for every API; codes as older versions know them. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from mpbroker.coordinator.effects import GroupRequest
from mpbroker.errors import ErrorCode
from mpbroker.protocol.api_keys import ApiKey
from mpbroker.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from mpbroker.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
)
from mpbroker.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TransactionState,
)
from mpbroker.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from mpbroker.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from mpbroker.protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from mpbroker.protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from mpbroker.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from mpbroker.protocol.messages.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopic,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from mpbroker.protocol.types import Struct

SEVERAL_TRANSACTIONS: Final = 4  # the version from which AddPartitionsToTxn names several
KNOWS_LOADING: Final = 2  # the version of TxnOffsetCommit whose clients know COORDINATOR_LOAD_IN_PROGRESS
ABORTABLE_COMMIT: Final = 4  # the version of TxnOffsetCommit that knows TRANSACTION_ABORTABLE
#: The version from which clients know PRODUCER_FENCED; before it they are told INVALID_PRODUCER_EPOCH.
_KNOWS_FENCED: Final = {
    ApiKey.INIT_PRODUCER_ID: 4,
    ApiKey.ADD_PARTITIONS_TO_TXN: 2,
    ApiKey.ADD_OFFSETS_TO_TXN: 2,
    ApiKey.END_TXN: 2,
}
#: What clients hear when a record cannot be appended, as Kafka maps the log's codes.
_APPEND_ERRORS: Final = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.NONE: ErrorCode.NONE,
}


def append_error(code: int) -> int:
    """The log's code in a client's words."""
    return _APPEND_ERRORS.get(code, ErrorCode.UNKNOWN_SERVER_ERROR)


def code_for(request: GroupRequest, code: int) -> int:
    """The code as the request's version knows it."""
    is_fenced = code == ErrorCode.PRODUCER_FENCED
    if is_fenced and request.version < _KNOWS_FENCED.get(request.api_key, 0):
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return code


def topic_results(
    topics: list[AddPartitionsToTxnTopic], code: Callable[[str, int], int]
) -> list[AddPartitionsToTxnTopicResult]:
    """A code for each partition."""
    return [
        AddPartitionsToTxnTopicResult(
            topic.name,
            [AddPartitionsToTxnPartitionResult(number, code(topic.name, number)) for number in topic.partitions],
        )
        for topic in topics
    ]


def offsets_answer(
    message: TxnOffsetCommitRequest, codes: dict[tuple[str, int], int], code: int
) -> TxnOffsetCommitResponse:
    """One code for each partition of the request; `code` for those that have none in `codes`."""
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(
                topic.name,
                [
                    TxnOffsetCommitResponsePartition(index, codes.get((topic.name, index), code))
                    for index in (partition.partition_index for partition in topic.partitions)
                ],
            )
            for topic in message.topics
        ]
    )


def markers_answer(message: WriteTxnMarkersRequest, codes: list[dict[tuple[str, int], int]]) -> WriteTxnMarkersResponse:
    """A code for each partition of each marker."""
    return WriteTxnMarkersResponse(
        markers=[
            WritableTxnMarkerResult(one.producer_id, [_marker_topic(topic, found) for topic in one.topics])
            for one, found in zip(message.markers, codes, strict=True)
        ]
    )


def _marker_topic(topic: WritableTxnMarkerTopic, codes: dict[tuple[str, int], int]) -> WritableTxnMarkerTopicResult:
    rows = [WritableTxnMarkerPartitionResult(index, codes[topic.name, index]) for index in topic.partition_indexes]
    return WritableTxnMarkerTopicResult(topic.name, rows)


def _init(message: InitProducerIdRequest, version: int, code: int) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=code, producer_id=-1, producer_epoch=-1)


def _add_partitions(message: AddPartitionsToTxnRequest, version: int, code: int) -> AddPartitionsToTxnResponse:
    if version < SEVERAL_TRANSACTIONS:
        rows = topic_results(message.v3_and_below_topics, lambda topic, number: code)
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=rows)
    return AddPartitionsToTxnResponse(
        error_code=code,
        results_by_transaction=[
            AddPartitionsToTxnResult(one.transactional_id, topic_results(one.topics, lambda topic, number: code))
            for one in message.transactions
        ],
    )


def _add_offsets(message: AddOffsetsToTxnRequest, version: int, code: int) -> AddOffsetsToTxnResponse:
    return AddOffsetsToTxnResponse(error_code=code)


def _end(message: EndTxnRequest, version: int, code: int) -> EndTxnResponse:
    return EndTxnResponse(error_code=code)


def _commit(message: TxnOffsetCommitRequest, version: int, code: int) -> TxnOffsetCommitResponse:
    return offsets_answer(message, {}, code)


def _describe(message: DescribeTransactionsRequest, version: int, code: int) -> DescribeTransactionsResponse:
    return DescribeTransactionsResponse(
        transaction_states=[
            TransactionState(error_code=code, transactional_id=transactional_id)
            for transactional_id in message.transactional_ids
        ]
    )


def _list(message: ListTransactionsRequest, version: int, code: int) -> ListTransactionsResponse:
    return ListTransactionsResponse(error_code=code)


def _markers(message: WriteTxnMarkersRequest, version: int, code: int) -> WriteTxnMarkersResponse:
    partitions = [
        {(topic.name, index): code for topic in one.topics for index in topic.partition_indexes}
        for one in message.markers
    ]
    return markers_answer(message, partitions)


def _produce(message: ProduceRequest, version: int, code: int) -> ProduceResponse:
    """Only what fails as a whole is answered by the coordinator."""
    return ProduceResponse(
        responses=[
            TopicProduceResponse(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_responses=[
                    PartitionProduceResponse(index=data.index, error_code=code, base_offset=-1)
                    for data in topic.partition_data
                ],
            )
            for topic in message.topic_data
        ]
    )


TRANSACTION_FAILED: Final[dict[int, Callable[[Any, int, int], Struct]]] = {
    ApiKey.PRODUCE: _produce,
    ApiKey.INIT_PRODUCER_ID: _init,
    ApiKey.ADD_PARTITIONS_TO_TXN: _add_partitions,
    ApiKey.ADD_OFFSETS_TO_TXN: _add_offsets,
    ApiKey.END_TXN: _end,
    ApiKey.TXN_OFFSET_COMMIT: _commit,
    ApiKey.DESCRIBE_TRANSACTIONS: _describe,
    ApiKey.LIST_TRANSACTIONS: _list,
    ApiKey.WRITE_TXN_MARKERS: _markers,
}


def failure(request: GroupRequest, code: int) -> Struct:
    """The response when all of a request fails with one code."""
    return TRANSACTION_FAILED[request.api_key](request.message, request.version, code_for(request, code))
