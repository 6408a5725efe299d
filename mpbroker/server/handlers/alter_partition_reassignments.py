"""AlterPartitionReassignments (key 45), version 0: moves of partitions between brokers (KIP-455).

Every partition lies on this broker and can lie on no other: replicas that are this broker alone are accepted and change
nothing, all others are INVALID_REPLICA_ASSIGNMENT. There is never a move to cancel.
"""

from __future__ import annotations

from mpbroker.channel.handler_port import Request
from mpbroker.errors import ERRORS, ErrorCode
from mpbroker.metadata.metadata_cache import Topic
from mpbroker.protocol.api_keys import ApiKey
from mpbroker.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from mpbroker.server.apis import Api, Outcome
from mpbroker.server.control_request import ask_cluster_controller
from mpbroker.server.server_context import ServerContext

WITHOUT_SENTENCE = frozenset((ErrorCode.NONE, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS))


def handle(context: ServerContext, request: Request, message: AlterPartitionReassignmentsRequest) -> Outcome:
    if context.cluster is not None:
        version, patience_ms = request.api_version, message.timeout_ms
        return ask_cluster_controller(
            context,
            request,
            AlterPartitionReassignmentsResponse,
            lambda code: failed(message, version, code),
            patience_ms,
        )
    context.metadata.refresh()
    responses = []
    for asked in message.topics:
        topic = context.metadata.topic(asked.name)
        partitions = [_result(each, _code(context, topic, each)) for each in asked.partitions]
        responses.append(ReassignableTopicResponse(name=asked.name, partitions=partitions))
    # Kafka says "" where nothing was asked for, and nothing else.
    return AlterPartitionReassignmentsResponse(error_message=None if message.topics else "", responses=responses)


def _code(context: ServerContext, topic: Topic | None, asked: ReassignablePartition) -> int:
    if topic is None or not 0 <= asked.partition_index < len(topic.partitions):
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if asked.replicas is None:
        return ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
    return ErrorCode.NONE if asked.replicas == [context.node_id] else ErrorCode.INVALID_REPLICA_ASSIGNMENT


def _result(asked: ReassignablePartition, code: int) -> ReassignablePartitionResponse:
    sentence = None if code in WITHOUT_SENTENCE else ERRORS[code].sentence
    return ReassignablePartitionResponse(partition_index=asked.partition_index, error_code=code, error_message=sentence)


def failed(message: AlterPartitionReassignmentsRequest, version: int, code: int) -> AlterPartitionReassignmentsResponse:
    return AlterPartitionReassignmentsResponse(error_code=code, error_message=ERRORS[code].sentence)


API = Api(
    key=ApiKey.ALTER_PARTITION_REASSIGNMENTS,
    versions=(0, 0),
    request=AlterPartitionReassignmentsRequest,
    handle=handle,
    failed=failed,
)
