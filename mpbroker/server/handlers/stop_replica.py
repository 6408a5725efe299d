"""StopReplica (key 5), versions 0 to 4: the elected controller stops replicas of this broker, and has some deleted.
Served
between the brokers of a cluster only; the agent (controller process) carries it out.
"""

from __future__ import annotations

from collections.abc import Sequence

from mpbroker.channel.handler_port import Request
from mpbroker.errors import ErrorCode
from mpbroker.protocol.api_keys import ApiKey
from mpbroker.protocol.messages.stop_replica import StopReplicaPartitionError, StopReplicaRequest, StopReplicaResponse
from mpbroker.server.apis import Api, Outcome
from mpbroker.server.control_request import tell_agent
from mpbroker.server.request_trace import describe_control
from mpbroker.server.server_context import ServerContext


def handle(context: ServerContext, request: Request, message: StopReplicaRequest) -> Outcome:
    names = _partitions(message)
    describe_control(request, message.controller_epoch, names)
    return tell_agent(context, request, len(names), lambda code, codes: _response(names, code, codes))


def _partitions(message: StopReplicaRequest) -> list[tuple[str, int]]:
    found = [(one.topic_name, one.partition_index) for one in message.ungrouped_partitions]
    for topic in message.topics:
        found += [(topic.name, index) for index in topic.partition_indexes]
    for state in message.topic_states:
        found += [(state.topic_name, one.partition_index) for one in state.partition_states]
    return found


FENCED = (ErrorCode.STALE_CONTROLLER_EPOCH, ErrorCode.STALE_BROKER_EPOCH)
"""Kafka names no partition then, other than in the answer to LeaderAndIsr."""


def _response(names: Sequence[tuple[str, int]], code: int, codes: Sequence[int]) -> StopReplicaResponse:
    if code in FENCED:
        return StopReplicaResponse(error_code=code)
    errors = [
        StopReplicaPartitionError(topic_name=name, partition_index=index, error_code=one)
        for (name, index), one in zip(names, codes, strict=True)
    ]
    return StopReplicaResponse(error_code=code, partition_errors=errors)


def failed(message: StopReplicaRequest, version: int, code: int) -> StopReplicaResponse:
    names = _partitions(message)
    return _response(names, code, [code] * len(names))


API = Api(
    key=ApiKey.STOP_REPLICA,
    versions=(0, 4),
    request=StopReplicaRequest,
    handle=handle,
    failed=failed,
)
