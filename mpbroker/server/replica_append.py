"""The append path of one partition of a Produce request. Runs in request handlers.

The append itself, with its commit and repair rules, is one native call under the partition's lock. This module
decides which partition, which settings and which of Kafka's error codes, in Kafka's order.
"""

from __future__ import annotations

from mpbroker.channel.handler_port import Cell, Request
from mpbroker.errors import ErrorCode
from mpbroker.log.log_manager import AppendResult
from mpbroker.metadata.metadata_cache import Topic
from mpbroker.protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceData,
    PartitionProduceResponse,
)
from mpbroker.record.validation import RequestCheck
from mpbroker.server.server_context import ServerContext

ADMIN_CLIENT_ID = "__admin_client"
LEGAL_ACKS = (-1, 0, 1)
ABORTABLE_SINCE = 11  # KIP-890: whoever sends it knows TRANSACTION_ABORTABLE
ADDS_PARTITIONS_SINCE = 12  # KIP-890, too: partitions need not be added to the transaction before
UNKNOWN = -1


def append_partition(
    context: ServerContext,
    request: Request,
    topic: Topic | None,
    data: PartitionProduceData,
    checked: RequestCheck,
    cell: int,
    acks: int,
) -> PartitionProduceResponse | None:
    """Appends one partition's records; returns its part of the response, with an error code or the offsets. None: the
    coordinator must first add the partition to the producer's transaction, or say whether it was added.

    `checked` is the RequestCheck of its records, `cell` the number of its result cell.
    """
    if topic is None or not 0 <= data.index < len(topic.partitions):
        return refused(data.index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if checked.code:
        return refused(data.index, checked.code)
    if acks not in LEGAL_ACKS:
        return refused(data.index, ErrorCode.INVALID_REQUIRED_ACKS)
    if topic.internal and request.client_id != ADMIN_CLIENT_ID:
        return refused(data.index, ErrorCode.INVALID_TOPIC_EXCEPTION)
    records = memoryview(data.records or b"")[: checked.batch_bytes]
    result = context.log_manager.append(topic, data.index, request, cell, records, request.api_version, acks)
    if result.unverified and (context.asks_coordinator or request.api_version >= ADDS_PARTITIONS_SINCE):
        return None
    if result.unverified:
        code = unverified_code(result.error, request.api_version)
        result = context.log_manager.refuse(topic, data.index, request, cell, code)
    return _response(data.index, result)


def unverified_code(code: int, version: int) -> int:
    """For a batch of a transaction of which the partition knows nothing; `code` is what the log said."""
    is_final = code == ErrorCode.INVALID_TXN_STATE
    return ErrorCode.TRANSACTION_ABORTABLE if is_final and version >= ABORTABLE_SINCE else code


def recorded_result(
    context: ServerContext, request: Request, topic: Topic | None, index: int, cell: int
) -> PartitionProduceResponse | None:
    """What an earlier run of this request came to for a partition, whatever became of its topic since; None:
    nothing."""
    filled = context.port.cell(request, cell)
    if filled is None:
        return None
    if topic is None or filled.error or filled.ordinal not in topic.partitions:
        return _response(index, filled)
    return _response(index, context.log_manager.sync_recorded(topic, filled.ordinal, request, cell) or filled)


def _response(index: int, result: AppendResult | Cell) -> PartitionProduceResponse:
    return PartitionProduceResponse(
        index=index,
        error_code=result.error,
        base_offset=result.base_offset,
        log_append_time_ms=result.append_time_ms,
        log_start_offset=result.log_start,
    )


def name_records(
    context: ServerContext,
    topic: Topic,
    data: PartitionProduceData,
    checked: RequestCheck,
    result: PartitionProduceResponse,
) -> None:
    """Puts the records that were refused, and why, into a result with INVALID_RECORD or INVALID_TIMESTAMP."""
    records = memoryview(data.records or b"")[: checked.batch_bytes]
    rejected = context.log_manager.rejected_records(topic, records, f"{topic.name}-{data.index}")
    if rejected is None:
        return
    result.error_message = rejected.sentence
    result.record_errors = [
        BatchIndexAndErrorMessage(batch_index=index, batch_index_error_message=sentence)
        for index, sentence in rejected.records
    ]


def refused(index: int, code: int) -> PartitionProduceResponse:
    """A partition that got nothing appended."""
    return PartitionProduceResponse(
        index=index, error_code=code, base_offset=UNKNOWN, log_append_time_ms=UNKNOWN, log_start_offset=UNKNOWN
    )
