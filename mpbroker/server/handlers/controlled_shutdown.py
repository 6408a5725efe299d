"""ControlledShutdown (key 7), versions 0 to 3: a broker that wants to stop has what it leads moved away. Served
between the
brokers of a cluster only; the elected controller answers, others NOT_CONTROLLER.
"""

from __future__ import annotations

from mpbroker.channel.handler_port import Request
from mpbroker.protocol.api_keys import ApiKey
from mpbroker.protocol.messages.controlled_shutdown import ControlledShutdownRequest, ControlledShutdownResponse
from mpbroker.server.apis import Api, Outcome
from mpbroker.server.control_request import ask_cluster_controller
from mpbroker.server.server_context import ServerContext


def handle(context: ServerContext, request: Request, message: ControlledShutdownRequest) -> Outcome:
    return ask_cluster_controller(
        context, request, ControlledShutdownResponse, lambda code: failed(message, request.api_version, code)
    )


def failed(message: ControlledShutdownRequest, version: int, code: int) -> ControlledShutdownResponse:
    return ControlledShutdownResponse(error_code=code)


API = Api(
    key=ApiKey.CONTROLLED_SHUTDOWN,
    versions=(0, 3),
    request=ControlledShutdownRequest,
    handle=handle,
    failed=failed,
)
