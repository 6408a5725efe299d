"""The append path of one partition of a Produce request. Runs in request handlers.

The append itself, with its commit and repair rules, is one native call under the partition's lock; what stands here
is which partition, which settings and which of Kafka's error codes.
"""

from __future__ import annotations

from mpbroker.errors import ErrorCode
from mpbroker.protocol.messages.produce import PartitionProduceResponse

ADMIN_CLIENT_ID = "__admin_client"


def append_partition(context, request, topic, data, cell: int, acks_code: int, acks: int) -> PartitionProduceResponse:
    """Appends one partition's records; returns its part of the response, with an error code or the offsets."""
    if topic is None or not 0 <= data.index < len(topic.partitions):
        return _refused(data.index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    code, checked = context.log_manager.check_records(data.records, topic.settings, request.api_version)
    if code in (ErrorCode.INVALID_RECORD, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE) and not checked:
        return _refused(data.index, code)
    if acks_code:
        return _refused(data.index, acks_code)
    if topic.internal and context.client_id != ADMIN_CLIENT_ID:
        return _refused(data.index, ErrorCode.INVALID_TOPIC_EXCEPTION)
    if acks == -1 and topic.settings.min_insync_replicas > 1:
        return _refused(data.index, ErrorCode.NOT_ENOUGH_REPLICAS)
    if code:
        return _refused(data.index, code)
    return _append(context, request, topic, data, cell)


def _refused(index: int, code: int) -> PartitionProduceResponse:
    return PartitionProduceResponse(index=index, error_code=code, base_offset=-1, log_append_time_ms=-1,
                                    log_start_offset=-1)


def _append(context, request, topic, data, cell: int) -> PartitionProduceResponse:
    error, base_offset, append_time_ms, log_start = context.log_manager.append(
        topic.partitions[data.index], request, cell, data.records, topic)
    return PartitionProduceResponse(index=data.index, error_code=error, base_offset=base_offset,
                                    log_append_time_ms=append_time_ms, log_start_offset=log_start)
