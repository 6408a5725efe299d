"""Fetch (key 1), versions 4 to 17: read record batches, at once or when enough have arrived.

From version 7 on a client may have a session (KIP-227, server/fetch_session.py): then it names only what has changed,
and is told only what has changed. What followers ask for also says what they have (server/follower_fetch.py). From
version 11 on consumers may read from followers, and are sent to one near them (KIP-392, server/preferred_replica.py).

From version 12 on a reader that names the epoch of its last record is told where its log parts from this one (KIP-595),
from 13 on topics are named by id (KIP-516: one that is not known is UNKNOWN_TOPIC_ID), from 16 on an answer with
NOT_LEADER_OR_FOLLOWER or FENCED_LEADER_EPOCH names the leader (KIP-951).
"""

from __future__ import annotations

from itertools import groupby

from mpbroker.channel.handler_port import Request
from mpbroker.channel.response_frame import encode_answer_into
from mpbroker.errors import ErrorCode
from mpbroker.protocol.api_keys import ApiKey
from mpbroker.protocol.codec import encoded_size
from mpbroker.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)
from mpbroker.server.apis import PARKED, Api, NoResponse, Outcome
from mpbroker.server.current_leader import current_leader, places_of
from mpbroker.server.delayed_fetch import DelayedFetch, FetchWithoutMemory
from mpbroker.server.fetch_session import FetchContext, SessionError, Topics, open_fetch
from mpbroker.server.replica_read import FIRST_WITH_IDS, ISOLATION_LEVELS, FetchPlan, fill, plan_fetch
from mpbroker.server.request_trace import IO_DONE, describe_fetch
from mpbroker.server.server_context import ServerContext

LEADERS_SINCE = 16
LEADER_ERRORS = frozenset((ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH))
FRAME_OVERHEAD_BYTES = 16  # length, correlation id, and room for a flexible header
ONE_BATCH = 0  # bytes: the first partition with records still gives a whole batch
MAX_READ_ATTEMPTS = 3  # a log truncated between plan and read is planned again, then answered empty


def handle(context: ServerContext, request: Request, message: FetchRequest) -> Outcome:
    merge_repeated(message)
    context.metadata.refresh()
    try:
        fetch = open_fetch(context, request, message)
    except SessionError as error:
        names_it = error.code == ErrorCode.UNKNOWN_SERVER_ERROR or request.parked_kind  # was overtaken while it waited
        return FetchResponse(error_code=error.code, session_id=message.session_id if names_it else 0)
    plan = plan_fetch(context, message, request.api_version, first_look=True)
    if message.isolation_level not in ISOLATION_LEVELS and any(read.ordinal >= 0 for read in plan.reads()):
        return failed(message, request.api_version, ErrorCode.UNKNOWN_SERVER_ERROR)  # as Kafka, which knows no better
    partitions = sum(len(topic.partitions) for topic in message.topics)
    describe_fetch(request, message, partitions, _learn_topics(context, message))
    if not _may_wait(context, message) or not partitions or plan.is_urgent or plan.total_bytes >= message.min_bytes:
        return send(context, request, fetch, plan)
    context.port.park(request, DelayedFetch.PARKED_KIND)
    context.purgatory.try_complete_else_watch(DelayedFetch(context, request, fetch, plan, send))
    return PARKED


def _may_wait(context: ServerContext, message: FetchRequest) -> bool:
    """Not if it has waited already (native/fetch/waiting_fetch.h), for as long as the client wants."""
    deadline_ms = context.fetch_deadline_ms
    return message.max_wait_ms > 0 and (deadline_ms is None or context.clock.monotonic_ms() < deadline_ms)


def _learn_topics(context: ServerContext, message: FetchRequest) -> str:
    """The native path may serve the next request for these; the first one's name."""
    first = ""
    for number, asked in enumerate(message.topics):
        named = context.metadata.topic(asked.topic) if asked.topic else context.metadata.topic_by_id(asked.topic_id)
        if named is not None:
            context.native_topics.learn(named)
            first = first or (named.name if number == 0 else "")
    return first or (message.topics[0].topic if message.topics else "")


def merge_repeated(message: FetchRequest) -> None:
    """Kafka reads a request into an ordered map: a partition named twice keeps its first place and its last
    fields, and a topic without partitions is not answered."""
    if len(message.topics) == 1 and len(message.topics[0].partitions) == 1:
        return
    asked = {
        (topic.topic, topic.topic_id, each.partition): each for topic in message.topics for each in topic.partitions
    }
    message.topics = [
        FetchTopic(topic=name, topic_id=topic_id, partitions=[each for _, each in group])
        for (name, topic_id), group in groupby(asked.items(), key=lambda item: item[0][:2])
    ]


def send(
    context: ServerContext, request: Request, fetch: FetchContext, plan: FetchPlan, until_ms: int | None = None
) -> NoResponse:
    """Reads the planned ranges straight into the answer's memory and hands it over. Always answers: where memory is
    short with less than was planned, but a whole batch; if there is none for that, it waits (`until_ms`: how long
    still), then answers an error."""
    for _ in range(MAX_READ_ATTEMPTS):
        sent = _send_shortened(context, request, fetch, plan)
        if sent:
            return PARKED
        if sent is None:
            if not _wait_for_memory(context, request, fetch, plan, until_ms):
                _refuse(context, request, fetch, plan)
            return PARKED
        plan = plan_fetch(context, fetch.message, request.api_version)
    for read in plan.reads():
        read.drop()
    _send_without_records(context, request, fetch, plan)
    return PARKED


def _send_shortened(context: ServerContext, request: Request, fetch: FetchContext, plan: FetchPlan) -> bool | None:
    """As _send_once, of what there is room for: nobody takes more than his part of the memory that is free."""
    wanted_bytes = plan.total_bytes
    room_bytes = context.port.room(wanted_bytes)
    if room_bytes < wanted_bytes:
        plan = plan_fetch(context, fetch.message, request.api_version, room_bytes)
    sent = _send_once(context, request, fetch, plan)
    if sent is None:  # in pieces, or not even enough for a batch
        plan = plan_fetch(context, fetch.message, request.api_version, ONE_BATCH)
        sent = _send_once(context, request, fetch, plan)
    if sent and plan.total_bytes < wanted_bytes and context.port.crowded():
        context.count("fetches_shortened")
    return sent


def _refuse(context: ServerContext, request: Request, fetch: FetchContext, plan: FetchPlan) -> None:
    """No memory, and none came: a client that is told so asks again. A broker about to stop just sends no records."""
    for read in plan.reads():
        if read.length and not context.is_ending():
            read.refuse(ErrorCode.KAFKA_STORAGE_ERROR)
        read.drop()
    _send_without_records(context, request, fetch, plan)


def _send_without_records(context: ServerContext, request: Request, fetch: FetchContext, plan: FetchPlan) -> None:
    response = _response(context, request, fetch, plan)
    context.answer(request, _concluded(context, fetch, plan, response))


def _concluded(context: ServerContext, fetch: FetchContext, plan: FetchPlan, response: FetchResponse) -> FetchResponse:
    """What is sent: the response with its session's id, or what the session has against it."""
    code = fetch.conclude(plan)
    if code:
        context.count("fetch_sessions_wrong")
        return FetchResponse(error_code=code, session_id=fetch.session_id)
    response.session_id = fetch.session_id
    return response


def _send_once(context: ServerContext, request: Request, fetch: FetchContext, plan: FetchPlan) -> bool | None:
    """False: the log changed under the plan. None: there is no memory for the answer."""
    if plan.total_bytes == 0:
        _send_without_records(context, request, fetch, plan)
        return True
    response = _response(context, request, fetch, plan)
    size = FRAME_OVERHEAD_BYTES + encoded_size(response, request.api_version)
    allocated = context.port.allocate(size)
    if allocated is None:
        return None
    view, token = allocated
    sent = False
    try:
        response = _concluded(context, fetch, plan, response)
        end, holes = encode_answer_into(request, response, view)
        filled = bool(response.error_code) or fill(context, plan, view, holes)
        request.stamp(IO_DONE)
        sent = filled and context.port.answer_extent(request, token, end)
        if sent and (throttled := sum(read.length for read in plan.reads() if read.throttled)):
            context.count("leader_throttled_bytes", throttled)
    finally:
        if not sent:
            fetch.undo()
            context.port.release(token)
    return sent


def _wait_for_memory(
    context: ServerContext, request: Request, fetch: FetchContext, plan: FetchPlan, until_ms: int | None
) -> bool:
    """Parks a request whose records found no memory; False: it has waited for long enough."""
    if until_ms is None:
        context.count("answer_memory_exhausted")
    waits = FetchWithoutMemory(context, request, fetch, plan, send, until_ms)
    if not waits.has_patience():
        return False
    context.port.park(request, DelayedFetch.PARKED_KIND)
    context.purgatory.try_complete_else_watch(waits)
    return True


def _response(context: ServerContext, request: Request, fetch: FetchContext, plan: FetchPlan) -> FetchResponse:
    for read in plan.reads():
        if read.is_busy:  # still, and nothing waits any longer; clients that are told so ask again
            read.refuse(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    told = fetch.told(plan)
    response = FetchResponse(
        responses=[
            FetchableTopicResponse(topic=name, topic_id=topic_id, partitions=[read.to_message() for read in reads])
            for (name, topic_id), reads in told
        ]
    )
    if request.api_version >= LEADERS_SINCE and plan.is_urgent:
        _name_leaders(context, request, told, response)
    return response


def _name_leaders(context: ServerContext, request: Request, told: Topics, response: FetchResponse) -> None:
    """KIP-951: who leads now, where that is news to the client; it need not ask for metadata first."""
    answered = [partition for topic in response.responses for partition in topic.partitions]
    reads = (read for _, group in told for read in group)
    leaders = []
    for read, partition in zip(reads, answered, strict=True):
        if read.error in LEADER_ERRORS:
            leaders.append(current_leader(context, read.ordinal))
            partition.current_leader = LeaderIdAndEpoch(*leaders[-1])
    if leaders:
        response.node_endpoints = [NodeEndpoint(*place) for place in places_of(context, request, leaders)]


def failed(message: FetchRequest, version: int, code: int) -> FetchResponse:
    """Version 7 and later carry the code at the top; those before 13 on every partition too."""
    if version >= FIRST_WITH_IDS:
        return FetchResponse(error_code=code, session_id=message.session_id)
    topics = [
        FetchableTopicResponse(
            topic=topic.topic,
            topic_id=topic.topic_id,
            partitions=[
                PartitionData(partition_index=asked.partition, error_code=code, high_watermark=-1, records=None)
                for asked in topic.partitions
            ],
        )
        for topic in message.topics
    ]
    return FetchResponse(error_code=code, session_id=message.session_id, responses=topics)


API = Api(key=ApiKey.FETCH, versions=(4, 17), request=FetchRequest, handle=handle, failed=failed)
