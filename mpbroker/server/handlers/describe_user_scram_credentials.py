"""DescribeUserScramCredentials (key 50), version 0 (KIP-554): no user has any, since none can be made here."""

from __future__ import annotations

from collections import Counter

from mpbroker.channel.handler_port import Request
from mpbroker.errors import ERRORS, ErrorCode
from mpbroker.protocol.api_keys import ApiKey
from mpbroker.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from mpbroker.server.apis import Api
from mpbroker.server.server_context import ServerContext


def handle(
    context: ServerContext, request: Request, message: DescribeUserScramCredentialsRequest
) -> DescribeUserScramCredentialsResponse:
    times = Counter(user.name for user in message.users or ())
    results = [_missing(name) if times[name] == 1 else _twice(name) for name in sorted(times)]
    return DescribeUserScramCredentialsResponse(error_message="", results=results)


def _missing(name: str) -> DescribeUserScramCredentialsResult:
    why = f"There are no credentials of user {name}."
    return DescribeUserScramCredentialsResult(name, ErrorCode.RESOURCE_NOT_FOUND, why)


def _twice(name: str) -> DescribeUserScramCredentialsResult:
    why = f"The request names user {name} more than once."
    return DescribeUserScramCredentialsResult(name, ErrorCode.DUPLICATE_RESOURCE, why)


def failed(
    message: DescribeUserScramCredentialsRequest, version: int, code: int
) -> DescribeUserScramCredentialsResponse:
    return DescribeUserScramCredentialsResponse(error_code=code, error_message=ERRORS[code].sentence)


API = Api(
    key=ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
    versions=(0, 0),
    request=DescribeUserScramCredentialsRequest,
    handle=handle,
    failed=failed,
)
