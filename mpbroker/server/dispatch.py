"""Executes one claimed request: registry row, header, body, handler, response. Request handlers; nothing is kept here.

Whatever a client sent, and whatever a handler raised, ends in an answer or a closed connection, never in an exception.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from mpbroker.channel.handler_port import MAX_ATTEMPTS, Request
from mpbroker.channel.request_log import naming
from mpbroker.channel.response_frame import encode_answer
from mpbroker.errors import ErrorCode, ProtocolError
from mpbroker.protocol.api_keys import ApiKey
from mpbroker.protocol.codec import decode
from mpbroker.protocol.headers import decode_request_header
from mpbroker.protocol.types import Struct
from mpbroker.server.api_table import API_TABLE
from mpbroker.server.apis import Api
from mpbroker.server.deliver import deliver
from mpbroker.server.request_trace import HANDLER_START
from mpbroker.server.server_context import ServerContext
from mpbroker.server.waiting_for_locks import waits_for_repair

LOGGED_FRAME_BYTES = 256


def dispatch(context: ServerContext, request: Request) -> None:
    """Executes one claimed request and sends, parks or closes. Never raises for what a client sent."""
    if waits_for_repair(context, request, dispatch):
        return
    try:
        api = API_TABLE.get(request.api_key)
    except (OSError, ImportError) as error:  # its handler is imported at its first request: no descriptor was free
        context.refuse(request, "api_not_loaded", error, ErrorCode.UNKNOWN_SERVER_ERROR)
        return
    if is_poison(context, request):
        _answer_poison(context, request)
        return
    if api is None:
        context.refuse(request, "unknown_api_key", code=ErrorCode.UNSUPPORTED_VERSION)
        return
    if not api.versions[0] <= request.api_version <= api.versions[1]:
        _unsupported_version(context, request, api)
        return
    if request.api_version < api.served_from:
        context.refuse(request, "version_not_served", code=ErrorCode.UNSUPPORTED_VERSION)
        return
    try:
        header = decode_request_header(request.payload)
        message = decode(api.request, request.api_version, request.payload, header.body_offset)
    except ProtocolError as error:
        context.refuse(request, "malformed_body", error, ErrorCode.INVALID_REQUEST)
        return
    request.client_id = header.client_id
    _execute(context, request, api, message)


def is_poison(context: ServerContext, request: Request) -> bool:
    """A request that killed its handler twice is not run again, unless all its effects are recorded already."""
    if request.attempts < MAX_ATTEMPTS:
        return False
    cells = request.cell_count
    return not cells or any(context.port.cell(request, number) is None for number in range(cells))


def _answer_poison(context: ServerContext, request: Request) -> None:
    """Error −1 where the request can still be read, then the connection is closed; the frame goes to the log."""
    context.count("poison_requests")
    frame_hex = bytes(request.payload[:LOGGED_FRAME_BYTES]).hex()
    context.log.error("poison_request", **naming(request), frame=frame_hex)
    frame = b""
    with suppress(ProtocolError, KeyError, ValueError, TypeError, OverflowError):  # unreadable: the close alone tells
        frame = encode_answer(request, context.apis.failure(request, ErrorCode.UNKNOWN_SERVER_ERROR))
    context.port.answer_close(request, ErrorCode.UNKNOWN_SERVER_ERROR, frame)


def _unsupported_version(context: ServerContext, request: Request, api: Api[Any]) -> None:
    if api.key != ApiKey.API_VERSIONS:
        context.refuse(request, "unsupported_version", code=ErrorCode.UNSUPPORTED_VERSION)
        return
    context.answer(request, api.failed(None, 0, ErrorCode.UNSUPPORTED_VERSION), version=0)


def _execute(context: ServerContext, request: Request, api: Api[Any], message: Struct) -> None:
    try:
        request.stamp(HANDLER_START)
        deliver(context, request, api.handle(context, request, message))
    except Exception as error:  # one broken request is error -1 for that request; the handler goes on
        context.fail(request, error, message)
