"""FindCoordinator (key 10), versions 0 to 6: which broker coordinates a group or a transactional id. KIP-699 (4).

A broker that is alone coordinates every group and every transaction; in a cluster the leader of the partition does that
holds the key. The topic that they are kept in is created at the first
question; that request waits for it, where Kafka answers COORDINATOR_NOT_AVAILABLE for a while. So it does here to share
groups (KIP-932), which are not served; key types that do not exist are answered with INVALID_REQUEST.
"""

from __future__ import annotations

from collections.abc import Sequence

from mpbroker.channel.handler_port import Request
from mpbroker.errors import ERRORS, ErrorCode
from mpbroker.metadata.cluster_cache import ClusterCache
from mpbroker.metadata.commands import Answer, CreateTopics, encode_command
from mpbroker.metadata.coordinator_partitions import partition_of
from mpbroker.metadata.topic_names import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from mpbroker.protocol.api_keys import ApiKey
from mpbroker.protocol.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from mpbroker.server.apis import PARKED, Api, Outcome
from mpbroker.server.awaited_leader import awaited, hold
from mpbroker.server.delayed_command import park_for_controller
from mpbroker.server.internal_topics import new_topic
from mpbroker.server.server_context import ServerContext

GROUP, TRANSACTION, SHARE = 0, 1, 2
BATCHED_FROM, SHARE_FROM = 4, 6  # versions
CREATE_TIMEOUT_MS = 10_000
TOPICS = {GROUP: OFFSETS_TOPIC, TRANSACTION: TRANSACTIONS_TOPIC}


def handle(context: ServerContext, request: Request, message: FindCoordinatorRequest) -> Outcome:
    topic = TOPICS.get(message.key_type)
    if topic is None:
        known = message.key_type == SHARE and request.api_version >= SHARE_FROM
        code = ErrorCode.COORDINATOR_NOT_AVAILABLE if known else ErrorCode.INVALID_REQUEST
        return failed(message, request.api_version, code)
    context.metadata.refresh()
    if context.metadata.topic(topic) is None:
        return _create_topic(context, request, message, topic)
    if _is_coordinator_awaited(context, request, message, topic):
        return hold(context, request, lambda: handle(context, request, message))
    return _here(context, request, message)


def _is_coordinator_awaited(
    context: ServerContext, request: Request, message: FindCoordinatorRequest, name: str
) -> bool:
    """Whether the coordinator of one of the keys has just died, and nobody leads in its place yet."""
    cluster, topic = context.cluster, context.metadata.topic(name)
    if cluster is None or topic is None:
        return False
    cluster.refresh()
    lost = awaited(context, request)
    keys = message.coordinator_keys if request.api_version >= BATCHED_FROM else [message.key]
    rows = {topic.partitions[partition_of(key, len(topic.partitions))] for key in keys} if lost else set()
    return any((found := cluster.leader(row)) is not None and found[0] in lost for row in rows)


def _here(context: ServerContext, request: Request, message: FindCoordinatorRequest) -> FindCoordinatorResponse:
    if context.cluster is not None:
        return _in_cluster(context, context.cluster, request, message)
    listener = context.listener(request.listener)
    host, port = listener.advertised_host, listener.advertised_port
    if request.api_version >= BATCHED_FROM:
        rows = [Coordinator(key, context.node_id, host, port, ErrorCode.NONE, "") for key in message.coordinator_keys]
        return FindCoordinatorResponse(coordinators=rows)
    return FindCoordinatorResponse(error_message="NONE", node_id=context.node_id, host=host, port=port)


def _in_cluster(
    context: ServerContext, cluster: ClusterCache, request: Request, message: FindCoordinatorRequest
) -> FindCoordinatorResponse:
    """The leader of the partition that holds the key. Until there is one: COORDINATOR_NOT_AVAILABLE."""
    cluster.refresh()
    name = context.listener(request.listener).name
    keys = message.coordinator_keys if request.api_version >= BATCHED_FROM else [message.key]
    rows = [_of_key(context, cluster, TOPICS[message.key_type], key, name) for key in keys]
    if request.api_version >= BATCHED_FROM:
        return FindCoordinatorResponse(coordinators=rows)
    [one] = rows
    sentence = ERRORS[one.error_code].sentence if one.error_code else "NONE"
    return FindCoordinatorResponse(
        error_code=one.error_code, error_message=sentence, node_id=one.node_id, host=one.host, port=one.port
    )


def _of_key(context: ServerContext, cluster: ClusterCache, name: str, key: str, listener: str) -> Coordinator:
    topic = context.metadata.topic(name)
    assert topic is not None
    ordinal = topic.partitions[partition_of(key, len(topic.partitions))]
    found = cluster.assignment(ordinal, topic.id)
    broker = None if found is None else cluster.brokers.get(found.leader)
    end_point = None if broker is None or broker.id not in cluster.reached(listener) else broker.on(listener)
    if broker is None or end_point is None:
        return Coordinator(key, -1, "", -1, ErrorCode.COORDINATOR_NOT_AVAILABLE, "")
    return Coordinator(key, broker.id, end_point.host, end_point.port, ErrorCode.NONE, "")


def _create_topic(context: ServerContext, request: Request, message: FindCoordinatorRequest, topic: str) -> Outcome:
    def build(answers: Sequence[Answer | None]) -> FindCoordinatorResponse:
        context.metadata.refresh()
        if context.metadata.topic(topic) is not None:  # made now, or by whoever was faster
            context.port.want_coordinator()  # it reads the partitions before the client's next request is here
            return _here(context, request, message)
        if not _is_made(answers[0]):  # else this broker has not heard of it yet
            context.log.warning("offsets_topic_not_created", topic, reason=_reason(answers[0]))
        return failed(message, request.api_version, ErrorCode.COORDINATOR_NOT_AVAILABLE)

    command = encode_command(CreateTopics([new_topic(topic, context.config)], forward=True))
    if park_for_controller(context, request, [command], CREATE_TIMEOUT_MS, build):
        context.port.want_coordinator()  # it has time to get ready while the topic is made
        return PARKED
    return failed(message, request.api_version, ErrorCode.COORDINATOR_NOT_AVAILABLE)


def _is_made(answer: Answer | None) -> bool:
    results = getattr(answer, "results", [])
    return bool(results) and all(not one.error_code for one in results)


def _reason(answer: Answer | None) -> str:
    if answer is None:
        return "the controller did not answer in time"
    sentences = [one.error_message or f"error {one.error_code}" for one in getattr(answer, "results", [])]
    return "; ".join(sentences) or f"error {answer.error_code}"


def failed(message: FindCoordinatorRequest, version: int, code: int) -> FindCoordinatorResponse:
    if version >= BATCHED_FROM:
        return FindCoordinatorResponse(
            coordinators=[Coordinator(key, -1, "", -1, code, "") for key in message.coordinator_keys]
        )
    return FindCoordinatorResponse(error_code=code, error_message=ERRORS[code].sentence, node_id=-1, host="", port=-1)


API = Api(key=ApiKey.FIND_COORDINATOR, versions=(0, 6), request=FindCoordinatorRequest, handle=handle, failed=failed)
