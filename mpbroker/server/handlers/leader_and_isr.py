"""LeaderAndIsr (key 4), versions 0 to 7: the elected controller says what this broker leads and follows. Served
between the
brokers of a cluster only; the agent (controller process) carries it out, one request at a time.
"""

from __future__ import annotations

from collections.abc import Sequence

from mpbroker.channel.handler_port import Request
from mpbroker.protocol.api_keys import ApiKey
from mpbroker.protocol.messages.leader_and_isr import (
    LeaderAndIsrPartitionError,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicError,
)
from mpbroker.server.apis import Api, Outcome
from mpbroker.server.control_request import tell_agent
from mpbroker.server.request_trace import describe_control
from mpbroker.server.server_context import ServerContext

BY_TOPIC_FROM, GROUPED_FROM = 5, 2  # versions


def handle(context: ServerContext, request: Request, message: LeaderAndIsrRequest) -> Outcome:
    names = _partitions(message)
    describe_control(request, message.controller_epoch, names)
    return tell_agent(
        context, request, len(names), lambda code, codes: _response(message, request.api_version, code, codes)
    )


def _partitions(message: LeaderAndIsrRequest) -> list[tuple[str, int]]:
    found = [(state.topic_name, state.partition_index) for state in message.ungrouped_partition_states]
    for topic in message.topic_states:
        found += [(topic.topic_name, state.partition_index) for state in topic.partition_states]
    return found


def _response(message: LeaderAndIsrRequest, version: int, code: int, codes: Sequence[int]) -> LeaderAndIsrResponse:
    if version < BY_TOPIC_FROM:
        errors = [
            LeaderAndIsrPartitionError(topic_name=name, partition_index=index, error_code=one)
            for (name, index), one in zip(_partitions(message), codes, strict=True)
        ]
        return LeaderAndIsrResponse(error_code=code, partition_errors=errors)
    left = iter(codes)
    topics = [
        LeaderAndIsrTopicError(
            topic_id=topic.topic_id,
            partition_errors=[
                LeaderAndIsrPartitionError(partition_index=state.partition_index, error_code=next(left))
                for state in topic.partition_states
            ],
        )
        for topic in message.topic_states
    ]
    return LeaderAndIsrResponse(error_code=code, topics=topics)


def failed(message: LeaderAndIsrRequest, version: int, code: int) -> LeaderAndIsrResponse:
    return _response(message, version, code, [code] * len(_partitions(message)))


API = Api(
    key=ApiKey.LEADER_AND_ISR,
    versions=(0, 7),
    request=LeaderAndIsrRequest,
    handle=handle,
    failed=failed,
)
