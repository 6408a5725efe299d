"""DescribeClientQuotas (key 48), versions 0 and 1 (KIP-546): nobody is held to any, since none can be set here. What is
asked is checked as by Kafka 3.9, and a sound question has an empty answer."""

from __future__ import annotations

from typing import Final, NamedTuple

from mpbroker.channel.handler_port import Request
from mpbroker.errors import ERRORS, ErrorCode
from mpbroker.protocol.api_keys import ApiKey
from mpbroker.protocol.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)
from mpbroker.server.apis import Api
from mpbroker.server.server_context import ServerContext

NAMED, DEFAULT, ANY = range(3)
IP: Final = "ip"
KINDS: Final = ("user", "client-id", IP)


class _Refusal(NamedTuple):
    """Why a question is none."""

    code: int
    why: str


def handle(
    context: ServerContext, request: Request, message: DescribeClientQuotasRequest
) -> DescribeClientQuotasResponse:
    refusal = _refusal(message.components)
    if refusal is None:
        return DescribeClientQuotasResponse(error_message="")
    return DescribeClientQuotasResponse(error_code=refusal.code, error_message=refusal.why, entries=None)


def _refusal(components: list[ComponentData]) -> _Refusal | None:
    """Of the first component that is wrong, whichever it is; then of all together."""
    seen: set[str] = set()
    for one in components:
        kind = one.entity_type
        if not kind:
            return _Refusal(ErrorCode.INVALID_REQUEST, "The kind of an entity has no name.")
        if kind in seen:
            return _Refusal(ErrorCode.INVALID_REQUEST, f"The kind of entity {kind} is named twice.")
        if kind not in KINDS:
            return _Refusal(ErrorCode.UNSUPPORTED_VERSION, f"There is no kind of entity {kind}.")
        if one.match_type not in (NAMED, DEFAULT, ANY):
            return _Refusal(ErrorCode.INVALID_REQUEST, f"There is no match type {one.match_type}.")
        if (one.match_type == NAMED) != (one.match is not None):
            return _Refusal(ErrorCode.INVALID_REQUEST, "Match type 0 needs a name, the others have none.")
        seen.add(kind)
    if IP in seen and len(seen) > 1:
        return _Refusal(ErrorCode.INVALID_REQUEST, "An ip goes with no other kind of entity.")
    return None


def failed(message: DescribeClientQuotasRequest, version: int, code: int) -> DescribeClientQuotasResponse:
    return DescribeClientQuotasResponse(error_code=code, error_message=ERRORS[code].sentence, entries=None)


API = Api(
    key=ApiKey.DESCRIBE_CLIENT_QUOTAS,
    versions=(0, 1),
    request=DescribeClientQuotasRequest,
    handle=handle,
    failed=failed,
)
