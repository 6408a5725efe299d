"""DeleteRecords (key 21), versions 0 to 2: the oldest records of partitions are given up (KIP-107).

The log start moves in shared memory at once and is told when it is written down. An offset of −1 is the high watermark;
a log start never goes back: an offset below it is answered with where it is. A topic whose cleanup.policy only compacts
keeps its records. A topic or partition named twice is one, as in the map that Kafka reads a request into; the last
offset counts.
"""

from __future__ import annotations

from functools import partial

from mpbroker.channel.handler_port import Request
from mpbroker.errors import ErrorCode
from mpbroker.log.log_manager import PartitionBusyError
from mpbroker.metadata.metadata_cache import Topic
from mpbroker.protocol.api_keys import ApiKey
from mpbroker.protocol.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from mpbroker.server.apis import PARKED, Api, Outcome
from mpbroker.server.delayed_delete_records import NO_LOW_WATERMARK, DelayedDeleteRecords, MovedStart
from mpbroker.server.server_context import ServerContext
from mpbroker.server.waiting_for_locks import LEAST_PATIENCE_MS, wait_for_partitions

DELETE, COMPACT = "delete", "compact"


def handle(context: ServerContext, request: Request, message: DeleteRecordsRequest) -> Outcome:
    """A request whose own time is over at once is waited for a second all the same: the disk takes some."""
    return _run(context, request, message, context.clock.monotonic_ms() + max(message.timeout_ms, LEAST_PATIENCE_MS))


def _run(context: ServerContext, request: Request, message: DeleteRecordsRequest, until_ms: int) -> Outcome:
    context.metadata.refresh()
    response, moved, busy = DeleteRecordsResponse(), list[MovedStart](), set[int]()
    for name, offsets in _asked(message).items():
        topic = context.metadata.topic(name)
        results = [_delete(context, topic, number, offset, moved, busy) for number, offset in offsets.items()]
        response.topics.append(DeleteRecordsTopicResult(name=name, partitions=results))
    if busy and context.clock.monotonic_ms() < until_ms:
        again = partial(_run, context, request, message)
        wait_for_partitions(context, request, busy, until_ms, again)
        return PARKED
    return _wait(context, request, until_ms, moved, response)


def _asked(message: DeleteRecordsRequest) -> dict[str, dict[int, int]]:
    """Topic → partition → offset, topics without partitions left out."""
    asked: dict[str, dict[int, int]] = {}
    for topic in message.topics:
        for partition in topic.partitions:
            asked.setdefault(topic.name, {})[partition.partition_index] = partition.offset
    return asked


def _delete(
    context: ServerContext, topic: Topic | None, number: int, offset: int, moved: list[MovedStart], busy: set[int]
) -> DeleteRecordsPartitionResult:
    """Moves one partition's log start; notes what is to be waited for in `moved` or `busy`."""
    result = DeleteRecordsPartitionResult(partition_index=number, low_watermark=NO_LOW_WATERMARK)
    if topic is None or not 0 <= number < len(topic.partitions):
        result.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return result
    result.error_code = _refusal(topic)
    if result.error_code:
        return result
    ordinal = topic.partitions[number]
    try:
        result.error_code, start = context.log_manager.delete_records(topic, ordinal, offset)
    except PartitionBusyError:
        busy.add(ordinal)
        result.error_code = ErrorCode.REQUEST_TIMED_OUT
        return result
    if result.error_code == ErrorCode.NONE:
        result.low_watermark = start
        moved.append(MovedStart(topic.id, ordinal, start, result))
    return result


def _refusal(topic: Topic) -> int:
    if topic.internal:
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    policy = topic.settings.cleanup_policy
    return ErrorCode.POLICY_VIOLATION if COMPACT in policy and DELETE not in policy else ErrorCode.NONE


def _wait(
    context: ServerContext,
    request: Request,
    until_ms: int,
    moved: list[MovedStart],
    response: DeleteRecordsResponse,
) -> Outcome:
    delayed = DelayedDeleteRecords(context, request, until_ms, moved, response)
    if delayed.try_complete():
        return response
    context.log_manager.request_flush()  # the log keeper's bell
    context.port.park(request, DelayedDeleteRecords.PARKED_KIND)
    context.purgatory.try_complete_else_watch(delayed)
    return PARKED


def failed(message: DeleteRecordsRequest, version: int, code: int) -> DeleteRecordsResponse:
    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(
                name=name,
                partitions=[
                    DeleteRecordsPartitionResult(
                        partition_index=number, low_watermark=NO_LOW_WATERMARK, error_code=code
                    )
                    for number in offsets
                ],
            )
            for name, offsets in _asked(message).items()
        ]
    )


API = Api(key=ApiKey.DELETE_RECORDS, versions=(0, 2), request=DeleteRecordsRequest, handle=handle, failed=failed)
