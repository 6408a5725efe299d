"""Metadata (key 3), versions 0 to 13: brokers, topics, partitions, leaders, as seen from the listener asked.

Version 0 reads an empty list as "all topics", later versions null. A topic that does not exist is created when the
broker and the request allow it (versions 0 to 3 imply it), and answered with UNKNOWN_TOPIC_OR_PARTITION until it
exists, as Kafka does: clients ask again. Authorized operations, when asked for (KIP-430), are all of them; those of
the cluster are told in versions 8 to 10.

Topic ids (KIP-516) are told from version 10 on, and may be asked for from version 12 on: an id in versions 10 and 11 is
INVALID_REQUEST for every topic. As soon as one topic is asked for by id, names count for nothing, as in Kafka; an
unknown id is UNKNOWN_TOPIC_ID and comes without a name. A topic with neither is error −1; version 13 says that at the
top too.
"""

from __future__ import annotations

from mpbroker.channel.handler_port import Request
from mpbroker.errors import ErrorCode
from mpbroker.metadata.cluster_cache import ClusterCache
from mpbroker.metadata.metadata_cache import Topic
from mpbroker.metadata.topic_names import is_legal_topic_name
from mpbroker.protocol.api_keys import ApiKey
from mpbroker.protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from mpbroker.protocol.types import ZERO_UUID
from mpbroker.server.apis import Api, Outcome
from mpbroker.server.awaited_leader import awaited, hold
from mpbroker.server.server_context import ServerContext

IDS_SINCE = 12  # the version that may ask by id; older ones with an id are refused
LISTENERS_SINCE = 6  # the version whose clients know LISTENER_NOT_FOUND
OPERATIONS_UNKNOWN = -(2**31)
# Bits by Kafka's numbers of operations: read 3, write 4, create 5, delete 6, alter 7, describe 8, cluster action 9,
# describe configs 10, alter configs 11, idempotent write 12. Without an authorizer everybody may do everything.
TOPIC_OPERATIONS = sum(1 << bit for bit in (3, 4, 5, 6, 7, 8, 10, 11))
CLUSTER_OPERATIONS = sum(1 << bit for bit in (5, 7, 8, 9, 10, 11, 12))


def handle(context: ServerContext, request: Request, message: MetadataRequest) -> Outcome:
    code = _refusal(request, message)
    if code:
        return failed(message, request.api_version, code)
    context.metadata.refresh()
    if context.cluster is not None:
        context.cluster.refresh()
    ids = {topic.topic_id for topic in message.topics or () if topic.topic_id != ZERO_UUID}
    if _wants_all(request, message):
        topics = [_existing(context, request, topic) for topic in context.metadata.topics()]
    elif ids:
        topics = [_identified(context, request, topic_id) for topic_id in ids]
    else:
        topics = _named(context, request, message)
    if message.include_topic_authorized_operations:
        for topic in topics:
            topic.topic_authorized_operations = TOPIC_OPERATIONS
    if _is_leader_awaited(context, request, topics):
        return hold(context, request, lambda: handle(context, request, message))
    wanted = message.include_cluster_authorized_operations
    return _response(context, request, topics, CLUSTER_OPERATIONS if wanted else OPERATIONS_UNKNOWN)


def _is_leader_awaited(context: ServerContext, request: Request, topics: list[MetadataResponseTopic]) -> bool:
    """Whether the leader of one of them has just died, and nobody leads in its place yet."""
    lost = awaited(context, request)
    if not lost:
        return False
    known = {topic.name: context.metadata.topic(topic.name) for topic in topics if topic.name is not None}
    rows = [
        topic.partitions[one.partition_index]
        for told in topics
        if told.name is not None and (topic := known[told.name]) is not None
        for one in told.partitions
        if one.error_code == ErrorCode.LEADER_NOT_AVAILABLE
    ]
    assert context.cluster is not None
    leaders = {found[0] for ordinal in rows if (found := context.cluster.leader(ordinal)) is not None}
    return not leaders.isdisjoint(lost)


def _refusal(request: Request, message: MetadataRequest) -> int:
    """Why nothing is answered at all; 0: no reason."""
    asked = message.topics or ()
    by_name_only = all(topic.topic_id == ZERO_UUID for topic in asked)
    nameless = any(topic.name is None for topic in asked)
    if request.api_version < IDS_SINCE and (nameless or not by_name_only):
        return ErrorCode.INVALID_REQUEST
    return ErrorCode.UNKNOWN_SERVER_ERROR if nameless and by_name_only else ErrorCode.NONE


def _wants_all(request: Request, message: MetadataRequest) -> bool:
    return message.topics is None or (request.api_version == 0 and not message.topics)


def _named(context: ServerContext, request: Request, message: MetadataRequest) -> list[MetadataResponseTopic]:
    names = list(dict.fromkeys(topic.name for topic in message.topics or () if topic.name is not None))
    may_create = context.config.auto_create_topics_enable and (
        request.api_version < 4 or message.allow_auto_topic_creation
    )
    missing = [name for name in names if context.metadata.topic(name) is None]
    wanted = [name for name in missing if is_legal_topic_name(name)] if may_create else []
    if missing and may_create and not context.auto_creation.create(wanted):
        context.count("controller_commands_refused")
    found = [(name, context.metadata.topic(name)) for name in names]
    return [_missing(name) if topic is None else _existing(context, request, topic) for name, topic in found]


def _missing(name: str) -> MetadataResponseTopic:
    legal = is_legal_topic_name(name)
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if legal else ErrorCode.INVALID_TOPIC_EXCEPTION
    return MetadataResponseTopic(
        error_code=code, name=name, is_internal=False, partitions=[], topic_authorized_operations=OPERATIONS_UNKNOWN
    )


def _identified(context: ServerContext, request: Request, topic_id: bytes) -> MetadataResponseTopic:
    topic = context.metadata.topic_by_id(topic_id)
    if topic is not None:
        return _existing(context, request, topic)
    return MetadataResponseTopic(error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=topic_id)


def _existing(context: ServerContext, request: Request, topic: Topic) -> MetadataResponseTopic:
    partitions = [
        partition_of(context, request, topic, number, ordinal) for number, ordinal in enumerate(topic.partitions)
    ]
    return MetadataResponseTopic(
        error_code=ErrorCode.NONE,
        name=topic.name,
        topic_id=topic.id,
        is_internal=topic.internal,
        partitions=partitions,
        topic_authorized_operations=OPERATIONS_UNKNOWN,
    )


def _of_cluster(
    cluster: ClusterCache, request: Request, listener: str, topic: Topic, number: int, ordinal: int
) -> MetadataResponsePartition:
    """A partition as the controller told it. Without a leader that lives: LEADER_NOT_AVAILABLE, as in Kafka; with one
    that the client's listener does not lead to: LISTENER_NOT_FOUND."""
    found = cluster.assignment(ordinal, topic.id)
    if found is None:
        return MetadataResponsePartition(
            error_code=ErrorCode.LEADER_NOT_AVAILABLE, partition_index=number, leader_id=-1, leader_epoch=-1
        )
    reached, code = cluster.reached(listener), ErrorCode.NONE
    if found.leader not in reached:
        live = cluster.brokers.get(found.leader)
        hidden = live is not None and live.on(listener) is None and _knows_listeners(request)
        code = ErrorCode.LISTENER_NOT_FOUND if hidden else ErrorCode.LEADER_NOT_AVAILABLE
    return MetadataResponsePartition(
        error_code=code,
        partition_index=number,
        leader_id=-1 if code else found.leader,
        leader_epoch=found.leader_epoch,
        replica_nodes=found.replicas,
        isr_nodes=found.isr,
        offline_replicas=[broker for broker in found.replicas if broker not in reached],
    )


def _knows_listeners(request: Request) -> bool:
    return request.api_key != ApiKey.METADATA or request.api_version >= LISTENERS_SINCE


def partition_of(
    context: ServerContext, request: Request, topic: Topic, number: int, ordinal: int
) -> MetadataResponsePartition:
    """A partition of a topic, by its number and its row, as the listener that was asked shows it."""
    if context.cluster is not None:
        name = context.listener(request.listener).name
        return _of_cluster(context.cluster, request, name, topic, number, ordinal)
    here = [context.node_id]
    return MetadataResponsePartition(
        error_code=ErrorCode.NONE,
        partition_index=number,
        leader_id=context.node_id,
        leader_epoch=context.log_manager.leader_epoch(ordinal),
        replica_nodes=here,
        isr_nodes=here,
        offline_replicas=here if context.log_manager.is_offline(ordinal) else [],
    )


def _response(
    context: ServerContext, request: Request, topics: list[MetadataResponseTopic], operations: int
) -> MetadataResponse:
    return MetadataResponse(
        brokers=[
            MetadataResponseBroker(node_id=id, host=host, port=port, rack=rack)
            for id, host, port, rack in _brokers_shown(context, request)
        ],
        cluster_id=context.cluster_id,
        controller_id=context.node_id if context.cluster is None else context.cluster.controller_id,
        topics=topics,
        cluster_authorized_operations=operations,
    )


def brokers_on(context: ServerContext, request: Request) -> list[tuple[int, str, int, str | None]]:
    """(id, host, port, rack) of the brokers that live, as the listener that was asked shows them."""
    listener = context.listener(request.listener)
    here = (context.node_id, listener.advertised_host, listener.advertised_port, context.config.broker_rack)
    if context.cluster is None:
        return [here]
    shown = [(each, each.on(listener.name)) for each in context.cluster.brokers.values()]
    return [(each.id, end.host, end.port, each.rack) for each, end in shown if end is not None] or [here]


def _brokers_shown(context: ServerContext, request: Request) -> list[tuple[int, str, int, str | None]]:
    """The same, and after them those that are gone since not long ago."""
    shown, cluster = brokers_on(context, request), context.cluster
    if cluster is None or not cluster.gone:
        return shown
    gone = [(each, each.on(context.listener(request.listener).name)) for each in cluster.gone.values()]
    return shown + [(each.id, end.host, end.port, each.rack) for each, end in gone if end is not None]


def failed(message: MetadataRequest, version: int, code: int) -> MetadataResponse:
    """Every topic asked for carries the code; brokers stay empty, so that the client asks elsewhere or again."""
    topics = [
        MetadataResponseTopic(error_code=code, name=topic.name or "", topic_id=topic.topic_id)
        for topic in message.topics or []
    ]
    return MetadataResponse(brokers=[], topics=topics, error_code=code)


API = Api(key=ApiKey.METADATA, versions=(0, 13), request=MetadataRequest, handle=handle, failed=failed)
