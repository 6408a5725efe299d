"""Produce (key 0): appends record batches to partitions. Runs in request handlers.

Most Produce requests never come here: the native path (native/produce/serve_produce.c) answers them. Both make the
checks of docs/produce-checks.md and leave the same answer, trace record, counters and result cells.

- acks=1 is answered after the append; acks=-1 (all) when every in-sync replica has the batch. With one replica that is
  the append itself; with `mpbroker.log.flush=commit` it is the log keeper's sync, for acks=1 too.
- acks=0 is never answered. An error closes the connection: the client learns it in no other way.
- A topic or partition named twice is one, as in the map that Kafka reads a request into; the last records count.
- A partition whose lock a stopped process holds costs the request a short wait; then it is parked, made again when the
  holder goes on, and answered REQUEST_TIMED_OUT for that partition at its own timeout.
- The result of each partition also goes into a result cell of the request. If this handler dies, the next one takes
  from the cells what is done and does the rest.

Versions 0 to 13 are advertised, 3 to 13 are served:

- 0 to 2 carry record formats 0 and 1; the connection is closed. They are advertised because old librdkafka, 2.0.2
  for one, compresses only if it sees them (KAFKA-18659).
- 3 brings batches of format 2 and the transactional id (KIP-98).
- 4 may answer KAFKA_STORAGE_ERROR (KIP-112).
- 5 answers the log start offset too (KIP-107).
- 6 changes who waits when a client is throttled (KIP-219); nothing throttles here.
- 7 may carry zstd (KIP-110).
- 8 tells which records were refused and why (KIP-467).
- 10 names the leader in an answer with NOT_LEADER_OR_FOLLOWER (KIP-951).
- 11 may be answered TRANSACTION_ABORTABLE.
- Before 12 the coordinator says what is wrong with a batch whose partition knows nothing of its transaction.
- 12 adds its partitions to the producer's transaction by itself (KIP-890): a request for a partition that knows nothing
  of the transaction goes to the coordinator first, and comes back when they are added. If they cannot be, it comes back
  with the reason in its cells.
- 13 names topics by id (KIP-516): one that is not known is UNKNOWN_TOPIC_ID.

Rule → file: one batch, its format and codec, its header and its records → mpbroker/record/validation.py and
native/record/record_batch.c, record_walk.c · which partition, acks, internal topics → server/replica_append.py ·
compressed batches, recompression, flush.messages → log/log_manager.py · size, producer epochs and sequences, the
append itself → native/log/append.c, producer.c · transactions → native/log/transaction.c · when it is acknowledged →
server/delayed_produce.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from mpbroker.channel.handler_port import Request
from mpbroker.channel.response_frame import note_error
from mpbroker.errors import ERRORS, ErrorCode
from mpbroker.log.log_manager import PartitionBusyError
from mpbroker.metadata.metadata_cache import Topic
from mpbroker.protocol.api_keys import ApiKey
from mpbroker.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from mpbroker.protocol.repeated_partitions import merge_repeated
from mpbroker.record.record_batch import producer_of
from mpbroker.record.rejected_records import CODES as REJECTED
from mpbroker.record.validation import RequestCheck, check_request_records
from mpbroker.server.apis import CLOSE, HANDED_OVER, NO_ANSWER, PARKED, Api, Outcome
from mpbroker.server.delayed_produce import DelayedProduce
from mpbroker.server.replica_append import append_partition, name_records, recorded_result, refused
from mpbroker.server.request_trace import IO_DONE, describe_produce
from mpbroker.server.server_context import ServerContext
from mpbroker.server.waiting_for_locks import LEAST_PATIENCE_MS, wait_for_partitions

BEFORE_AUTHORIZATION, AFTER_AUTHORIZATION = 1, 2
RECORD_ERRORS_SINCE, IDS_SINCE = 8, 13


def handle(context: ServerContext, request: Request, message: ProduceRequest) -> Outcome:
    context.metadata.refresh()
    if request.api_version >= IDS_SINCE:
        _name_topics(context, message)
    describe_produce(request, message)
    merge_repeated(message)
    until_ms = context.clock.monotonic_ms() + max(message.timeout_ms, LEAST_PATIENCE_MS)
    return _serve(context, request, message, until_ms)


def _serve(context: ServerContext, request: Request, message: ProduceRequest, until_ms: int) -> Outcome:
    """One run of a request. While a partition is busy it comes to nothing and is made again, until `until_ms`."""
    checks = [
        check_request_records(data.records, request.api_version)
        for topic in message.topic_data
        for data in topic.partition_data
    ]
    code = _whole_request_code(message, checks)
    if code:
        return _tell_errors(request, message, failed(message, request.api_version, code))
    results, busy, unadded = _append_all(context, request, message, checks)
    if busy and context.clock.monotonic_ms() < until_ms:
        again = partial(_serve_again, context, request, message)
        wait_for_partitions(context, request, busy, until_ms, again)
        return PARKED
    if unadded:
        context.port.give_to_coordinator(request)
        return HANDED_OVER
    if busy:
        request.flag_timed_out()
        context.count("purgatory_expired")
    request.stamp(IO_DONE)
    response = _response(message, results)
    errors = sum(1 for result in results if result.error_code)
    if errors:
        context.count("produce_partition_errors", errors)
    if message.acks == 0 and not errors:
        return NO_ANSWER
    if message.acks == 0:
        return _tell_errors(request, message, response)
    return _answer_or_park(context, request, message, results, response)


def _serve_again(context: ServerContext, request: Request, message: ProduceRequest, until_ms: int) -> Outcome:
    context.metadata.refresh()
    return _serve(context, request, message, until_ms)


def _tell_errors(request: Request, message: ProduceRequest, response: ProduceResponse) -> Outcome:
    """An answer with errors: a producer with acks=0 hears of them by a closed connection."""
    if message.acks != 0:
        return response
    note_error(request, response)
    return CLOSE


def _name_topics(context: ServerContext, message: ProduceRequest) -> None:
    """A request by ids gets the names too; none where the id is not known."""
    for asked in message.topic_data:
        topic = context.metadata.topic_by_id(asked.topic_id)
        asked.name = topic.name if topic is not None else ""


def _whole_request_code(message: ProduceRequest, checks: Sequence[RequestCheck]) -> int:
    """A batch that cannot be read at all, or is transactional without an id, fails every partition of its request."""
    for check in checks:
        if check.whole_request == BEFORE_AUTHORIZATION:
            return check.code
    if message.transactional_id is None and any(check.transactional for check in checks):
        return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    code = next((check.code for check in checks if check.whole_request == AFTER_AUTHORIZATION), ErrorCode.NONE)
    return code or _several_producers_code(message, checks)


def _several_producers_code(message: ProduceRequest, checks: Sequence[RequestCheck]) -> int:
    if message.transactional_id is None:
        return ErrorCode.NONE
    batches = (data.records or b"" for topic in message.topic_data for data in topic.partition_data)
    producers = {
        producer_of(batch)
        for batch, check in zip(batches, checks, strict=True)
        if check.transactional and not check.code
    }
    of_some = [producer for producer in producers if producer[0] >= 0]
    return ErrorCode.INVALID_PRODUCER_ID_MAPPING if len(of_some) > 1 else ErrorCode.NONE


def _append_all(
    context: ServerContext, request: Request, message: ProduceRequest, checks: Sequence[RequestCheck]
) -> tuple[list[PartitionProduceResponse], list[int], bool]:
    """One result per partition, in the order of the request: the order is also the number of its result cell. And the
    rows of those that are busy, whose result is that they timed out; and whether the coordinator must add one to its
    transaction first."""
    run_before = request.cell_count > 0  # by a handler that died: its appends are in the cells
    if not context.port.ensure_cells(request, len(checks)):
        context.count("answer_memory_exhausted")
        late = [
            refused(data.index, ErrorCode.REQUEST_TIMED_OUT)
            for topic in message.topic_data
            for data in topic.partition_data
        ]
        return late, [], False
    results: list[PartitionProduceResponse] = []
    busy: list[int] = []
    unadded, cell = False, -1
    for topic_data in message.topic_data:
        topic = _topic(context, request, topic_data)
        if topic is not None:
            context.native_topics.learn(topic)
        for data in topic_data.partition_data:
            cell += 1
            try:
                result = recorded_result(context, request, topic, data.index, cell) if run_before else None
                if result is None:
                    result = append_partition(context, request, topic, data, checks[cell], cell, message.acks)
            except PartitionBusyError as error:
                busy.append(error.ordinal)
                result = refused(data.index, ErrorCode.REQUEST_TIMED_OUT)
            if result is None:
                unadded = True
                continue
            _explain(context, request, topic, data, checks[cell], result)
            results.append(result)
    return results, busy, unadded


def _topic(context: ServerContext, request: Request, asked: TopicProduceData) -> Topic | None:
    by_id = request.api_version >= IDS_SINCE
    return context.metadata.topic_by_id(asked.topic_id) if by_id else context.metadata.topic(asked.name)


def _explain(
    context: ServerContext,
    request: Request,
    topic: Topic | None,
    data: PartitionProduceData,
    checked: RequestCheck,
    result: PartitionProduceResponse,
) -> None:
    """What newer versions say about an error, beside its code."""
    if topic is None:
        if request.api_version >= IDS_SINCE and result.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            result.error_code = ErrorCode.UNKNOWN_TOPIC_ID
    elif result.error_code in REJECTED and request.api_version >= RECORD_ERRORS_SINCE and not checked.code:
        name_records(context, topic, data, checked, result)


def _response(message: ProduceRequest, results: list[PartitionProduceResponse]) -> ProduceResponse:
    remaining = iter(results)
    topics = [
        TopicProduceResponse(
            name=topic.name,
            topic_id=topic.topic_id,
            partition_responses=[next(remaining) for _ in topic.partition_data],
        )
        for topic in message.topic_data
    ]
    return ProduceResponse(responses=topics)


def _answer_or_park(
    context: ServerContext,
    request: Request,
    message: ProduceRequest,
    results: Sequence[PartitionProduceResponse],
    response: ProduceResponse,
) -> Outcome:
    """acks=1 without a flush demand is answered now; the rest waits for what it was promised."""
    waits = context.log_manager.flush_on_commit or message.acks == -1
    if not waits or all(result.error_code for result in results):
        return response
    pending = DelayedProduce.of(context, request, message, results, response)
    if pending is None:
        return response
    context.port.park(request, DelayedProduce.PARKED_KIND)
    context.purgatory.try_complete_else_watch(pending)
    return PARKED


def failed(message: ProduceRequest, version: int, code: int) -> ProduceResponse:
    """The whole request failed with one code: every partition carries it, and Kafka has a sentence for one of them."""
    topics = [
        TopicProduceResponse(
            name=topic.name,
            topic_id=topic.topic_id,
            partition_responses=[refused(data.index, code) for data in topic.partition_data],
        )
        for topic in message.topic_data
    ]
    if code == ErrorCode.CORRUPT_MESSAGE:
        for topic in topics:
            for result in topic.partition_responses:
                result.error_message = ERRORS[code].sentence
    return ProduceResponse(responses=topics)


API = Api(key=ApiKey.PRODUCE, versions=(0, 13), served_from=3, request=ProduceRequest, handle=handle, failed=failed)
