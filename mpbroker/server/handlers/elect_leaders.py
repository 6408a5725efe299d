"""ElectLeaders (key 43), versions 0 to 2: elections of preferred or of any leaders (KIP-183, KIP-460).

The one replica of a partition leads it already: ELECTION_NOT_NEEDED. Null asks for all partitions, of which only
those are answered that needed an election: none.
"""

from __future__ import annotations

from mpbroker.channel.handler_port import Request
from mpbroker.errors import ERRORS, ErrorCode
from mpbroker.protocol.api_keys import ApiKey
from mpbroker.protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
    TopicPartitions,
)
from mpbroker.server.apis import Api, Outcome
from mpbroker.server.control_request import ask_cluster_controller
from mpbroker.server.server_context import ServerContext

PREFERRED, UNCLEAN = 0, 1


def handle(context: ServerContext, request: Request, message: ElectLeadersRequest) -> Outcome:
    if message.election_type not in (PREFERRED, UNCLEAN):
        return failed(message, request.api_version, ErrorCode.INVALID_REQUEST)
    if context.cluster is not None:
        version, patience_ms = request.api_version, message.timeout_ms
        return ask_cluster_controller(
            context, request, ElectLeadersResponse, lambda code: failed(message, version, code), patience_ms
        )
    context.metadata.refresh()
    results = [_elected(context, asked) for asked in message.topic_partitions or ()]
    return ElectLeadersResponse(replica_election_results=results)


def _elected(context: ServerContext, asked: TopicPartitions) -> ReplicaElectionResult:
    topic = context.metadata.topic(asked.topic)
    known = range(len(topic.partitions)) if topic is not None else range(0)
    results = [
        _result(number, ErrorCode.ELECTION_NOT_NEEDED if number in known else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        for number in asked.partitions
    ]
    return ReplicaElectionResult(topic=asked.topic, partition_result=results)


def _result(number: int, code: int) -> PartitionResult:
    return PartitionResult(partition_id=number, error_code=code, error_message=ERRORS[code].sentence)


def failed(message: ElectLeadersRequest, version: int, code: int) -> ElectLeadersResponse:
    results = [
        ReplicaElectionResult(
            topic=asked.topic, partition_result=[_result(number, code) for number in asked.partitions]
        )
        for asked in message.topic_partitions or ()
    ]
    return ElectLeadersResponse(error_code=code, replica_election_results=results)


API = Api(key=ApiKey.ELECT_LEADERS, versions=(0, 2), request=ElectLeadersRequest, handle=handle, failed=failed)
