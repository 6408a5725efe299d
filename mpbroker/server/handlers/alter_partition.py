"""AlterPartition (key 56), versions 0 to 3: a leader asks for other in-sync replicas (KIP-497). Served between the
brokers of
a cluster only; the elected controller answers, others NOT_CONTROLLER.
"""

from __future__ import annotations

from mpbroker.channel.handler_port import Request
from mpbroker.protocol.api_keys import ApiKey
from mpbroker.protocol.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from mpbroker.server.apis import Api, Outcome
from mpbroker.server.control_request import ask_cluster_controller
from mpbroker.server.server_context import ServerContext


def handle(context: ServerContext, request: Request, message: AlterPartitionRequest) -> Outcome:
    return ask_cluster_controller(
        context, request, AlterPartitionResponse, lambda code: failed(message, request.api_version, code)
    )


def failed(message: AlterPartitionRequest, version: int, code: int) -> AlterPartitionResponse:
    return AlterPartitionResponse(error_code=code)


API = Api(
    key=ApiKey.ALTER_PARTITION,
    versions=(0, 3),
    request=AlterPartitionRequest,
    handle=handle,
    failed=failed,
)
