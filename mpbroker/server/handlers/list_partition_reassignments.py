"""ListPartitionReassignments (key 46), version 0: partitions that move between brokers (KIP-455).

With one broker none does, whichever are asked about.
"""

from __future__ import annotations

from mpbroker.channel.handler_port import Request
from mpbroker.errors import ERRORS
from mpbroker.protocol.api_keys import ApiKey
from mpbroker.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from mpbroker.server.apis import Api, Outcome
from mpbroker.server.control_request import ask_cluster_controller
from mpbroker.server.server_context import ServerContext


def handle(context: ServerContext, request: Request, message: ListPartitionReassignmentsRequest) -> Outcome:
    if context.cluster is not None:
        version, patience_ms = request.api_version, message.timeout_ms
        return ask_cluster_controller(
            context,
            request,
            ListPartitionReassignmentsResponse,
            lambda code: failed(message, version, code),
            patience_ms,
        )
    return ListPartitionReassignmentsResponse()


def failed(message: ListPartitionReassignmentsRequest, version: int, code: int) -> ListPartitionReassignmentsResponse:
    return ListPartitionReassignmentsResponse(error_code=code, error_message=ERRORS[code].sentence)


API = Api(
    key=ApiKey.LIST_PARTITION_REASSIGNMENTS,
    versions=(0, 0),
    request=ListPartitionReassignmentsRequest,
    handle=handle,
    failed=failed,
)
