"""FindCoordinator (key 10), versions 0 to 2: which broker coordinates a group or a transactional id.

There is no coordinator yet: every well-formed question is answered with COORDINATOR_NOT_AVAILABLE, which clients
retry. A key type that does not exist is INVALID_REQUEST.
"""

from __future__ import annotations

from mpbroker.channel.handler_port import Request
from mpbroker.errors import ERRORS, ErrorCode
from mpbroker.protocol.api_keys import ApiKey
from mpbroker.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from mpbroker.server.apis import Api
from mpbroker.server.server_context import ServerContext

GROUP, TRANSACTION = 0, 1


def handle(context: ServerContext, request: Request, message: FindCoordinatorRequest) -> FindCoordinatorResponse:
    known = message.key_type in (GROUP, TRANSACTION)
    return failed(
        message, request.api_version, ErrorCode.COORDINATOR_NOT_AVAILABLE if known else ErrorCode.INVALID_REQUEST
    )


def failed(message: FindCoordinatorRequest, version: int, code: int) -> FindCoordinatorResponse:
    return FindCoordinatorResponse(error_code=code, error_message=ERRORS[code].sentence, node_id=-1, host="", port=-1)


API = Api(key=ApiKey.FIND_COORDINATOR, versions=(0, 2), request=FindCoordinatorRequest, handle=handle, failed=failed)
