"""FindCoordinator (key 10), versions 0 to 2: which broker coordinates a group or a transactional id.

There is no coordinator yet: every well-formed question is answered with COORDINATOR_NOT_AVAILABLE, as Kafka does while
it has none, and clients ask again for ever; so the broker says in its log, once per group, why they wait. A key type
that does not exist is INVALID_REQUEST.
"""

from __future__ import annotations

from mpbroker.channel.handler_port import Request
from mpbroker.errors import ERRORS, ErrorCode
from mpbroker.protocol.api_keys import ApiKey
from mpbroker.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from mpbroker.server.apis import Api
from mpbroker.server.request_log import naming
from mpbroker.server.server_context import ServerContext

GROUP, TRANSACTION = 0, 1
#: By key type: what is asked for, and what to do instead.
MISSING = {
    GROUP: ("group", "consumer groups are not served yet: use assign() instead of subscribe() (docs/skipped.md)"),
    TRANSACTION: ("transactional_id", "transactions are not served yet: set no transactional.id (docs/skipped.md)"),
}


def handle(context: ServerContext, request: Request, message: FindCoordinatorRequest) -> FindCoordinatorResponse:
    if message.key_type not in MISSING:
        return failed(message, request.api_version, ErrorCode.INVALID_REQUEST)
    say_missing(context, request, message.key_type, message.key)
    answer = failed(message, request.api_version, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    answer.error_message = MISSING[message.key_type][1]
    return answer


def say_missing(context: ServerContext, request: Request, key_type: int, key: str) -> None:
    """A counter for each, a warning for each group or transactional id (EventLog bounds how many)."""
    context.count("coordinators_refused")
    field, reason = MISSING[key_type]
    context.log.warning("coordinator_not_served", f"{field} {key}", **{field: key}, **naming(request), reason=reason)


def failed(message: FindCoordinatorRequest, version: int, code: int) -> FindCoordinatorResponse:
    return FindCoordinatorResponse(error_code=code, error_message=ERRORS[code].sentence, node_id=-1, host="", port=-1)


API = Api(key=ApiKey.FIND_COORDINATOR, versions=(0, 2), request=FindCoordinatorRequest, handle=handle, failed=failed)
