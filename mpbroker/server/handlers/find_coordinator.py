"""FindCoordinator (key 10), versions 0 to 6: which broker coordinates a group or a transactional id. KIP-699 (4).

This broker coordinates every group. The topic that groups are kept in is created at the first question; that request
waits for it, where Kafka answers COORDINATOR_NOT_AVAILABLE for a while. There is no coordinator of transactions yet:
such questions are answered with COORDINATOR_NOT_AVAILABLE, and clients ask again for ever; so the broker says in its
log, once per id, why they wait. Share groups (KIP-932) are answered likewise, and key types that do not exist with
INVALID_REQUEST.
"""

from __future__ import annotations

from collections.abc import Sequence

from mpbroker.channel.handler_port import Request
from mpbroker.channel.request_log import naming
from mpbroker.errors import ERRORS, ErrorCode
from mpbroker.metadata.commands import Answer, CreateTopics, encode_command
from mpbroker.metadata.topic_names import OFFSETS_TOPIC
from mpbroker.protocol.api_keys import ApiKey
from mpbroker.protocol.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from mpbroker.server.apis import PARKED, Api, Outcome
from mpbroker.server.delayed_command import park_for_controller
from mpbroker.server.internal_topics import new_topic
from mpbroker.server.server_context import ServerContext

GROUP, TRANSACTION, SHARE = 0, 1, 2
BATCHED_FROM, SHARE_FROM = 4, 6  # versions
CREATE_TIMEOUT_MS = 10_000
NO_TRANSACTIONS = "transactions are not served yet: set no transactional.id (docs/skipped.md)"


def handle(context: ServerContext, request: Request, message: FindCoordinatorRequest) -> Outcome:
    version = request.api_version
    if message.key_type == GROUP:
        context.metadata.refresh()
        if context.metadata.topic(OFFSETS_TOPIC) is None:
            return _create_topic(context, request, message)
        return _here(context, request, message)
    if message.key_type == TRANSACTION:
        for key in _keys(message, version):
            say_missing(context, request, key)
        answer = failed(message, version, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        answer.error_message = NO_TRANSACTIONS
        return answer
    known = message.key_type == SHARE and version >= SHARE_FROM
    return failed(message, version, ErrorCode.COORDINATOR_NOT_AVAILABLE if known else ErrorCode.INVALID_REQUEST)


def _keys(message: FindCoordinatorRequest, version: int) -> list[str]:
    return message.coordinator_keys if version >= BATCHED_FROM else [message.key]


def _here(context: ServerContext, request: Request, message: FindCoordinatorRequest) -> FindCoordinatorResponse:
    listener = context.listeners[request.listener]
    host, port = listener.advertised_host, listener.advertised_port
    if request.api_version >= BATCHED_FROM:
        rows = [Coordinator(key, context.node_id, host, port, ErrorCode.NONE, "") for key in message.coordinator_keys]
        return FindCoordinatorResponse(coordinators=rows)
    return FindCoordinatorResponse(error_message="NONE", node_id=context.node_id, host=host, port=port)


def _create_topic(context: ServerContext, request: Request, message: FindCoordinatorRequest) -> Outcome:
    def build(answers: Sequence[Answer | None]) -> FindCoordinatorResponse:
        context.metadata.refresh()
        if context.metadata.topic(OFFSETS_TOPIC) is not None:  # made now, or by whoever was faster
            return _here(context, request, message)
        context.log.warning("offsets_topic_not_created", OFFSETS_TOPIC, reason=_reason(answers[0]))
        return failed(message, request.api_version, ErrorCode.COORDINATOR_NOT_AVAILABLE)

    command = encode_command(CreateTopics([new_topic(OFFSETS_TOPIC, context.config)]))
    if park_for_controller(context, request, [command], CREATE_TIMEOUT_MS, build):
        return PARKED
    return failed(message, request.api_version, ErrorCode.COORDINATOR_NOT_AVAILABLE)


def _reason(answer: Answer | None) -> str:
    if answer is None:
        return "the controller did not answer in time"
    sentences = [one.error_message or f"error {one.error_code}" for one in getattr(answer, "results", [])]
    return "; ".join(sentences) or f"error {answer.error_code}"


def say_missing(context: ServerContext, request: Request, transactional_id: str) -> None:
    """A counter for each, a warning for each transactional id (EventLog bounds how many)."""
    context.count("coordinators_refused")
    about = f"transactional_id {transactional_id}"
    fields = {"transactional_id": transactional_id, **naming(request), "reason": NO_TRANSACTIONS}
    context.log.warning("coordinator_not_served", about, **fields)


def failed(message: FindCoordinatorRequest, version: int, code: int) -> FindCoordinatorResponse:
    if version >= BATCHED_FROM:
        return FindCoordinatorResponse(
            coordinators=[Coordinator(key, -1, "", -1, code, "") for key in message.coordinator_keys]
        )
    return FindCoordinatorResponse(error_code=code, error_message=ERRORS[code].sentence, node_id=-1, host="", port=-1)


API = Api(key=ApiKey.FIND_COORDINATOR, versions=(0, 6), request=FindCoordinatorRequest, handle=handle, failed=failed)
