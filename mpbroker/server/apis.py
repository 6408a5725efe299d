"""The table of served APIs and the dispatch of one request. Runs in request handlers; the table is fixed at import.

A handler module declares one `Api` row: its key, the versions it serves, its messages and three functions. What
ApiVersions advertises, and what processors let through, is computed from these rows, so nothing is listed twice.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import Struct

from mpbroker.errors import ErrorCode, ProtocolError
from mpbroker.protocol.api_keys import API_NAMES
from mpbroker.protocol.codec import decode
from mpbroker.protocol.headers import decode_request_header
from mpbroker.server.request_trace import HANDLER_START
from mpbroker.server.response_frame import encode_answer

MAX_ATTEMPTS = 2
LOGGED_FRAME_BYTES = 256

#: What a handler returns instead of a response message.
PARKED = object()  # a delayed operation holds the request and answers later
NO_ANSWER = object()  # acks=0: nothing is sent, the connection goes on
CLOSE = object()  # the only way to tell an acks=0 producer of an error


class Api(Struct, frozen=True):
    """One API this broker serves.

    `handle(context, request, message)` returns a response message or one of the three values above. `failed(message,
    version, code)` builds the answer Kafka gives when the whole request fails with one code (an exception in a
    handler is −1). `served_from` is the lowest version that is really executed: below it the connection is closed,
    although the version is advertised (Produce 0 to 2, which old librdkafka needs to see).
    """

    key: int
    versions: tuple[int, int]
    request: type
    handle: Callable[[Any, Any, Any], Any]
    failed: Callable[[Any, int, int], Any]
    served_from: int = 0


class ApiTable:
    """The registry: key → Api. Registering a key twice is a mistake in the source and ends the start."""

    def __init__(self, apis: tuple[Api, ...]) -> None:
        self.by_key: dict[int, Api] = {}
        for api in apis:
            if api.key in self.by_key:
                raise AssertionError(f"API key {api.key} is registered twice")
            self.by_key[api.key] = api

    def versions(self) -> dict[int, tuple[int, int]]:
        """Key → (lowest, highest) advertised version, in key order."""
        return {key: self.by_key[key].versions for key in sorted(self.by_key)}


def dispatch(context, request) -> None:
    """Executes one claimed request and sends, parks or closes. Never raises for what a client sent."""
    api = context.apis.by_key.get(request.api_key)
    if is_poison(context, request):
        _answer_poison(context, request, api)
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


def is_poison(context, request) -> bool:
    """A request that killed its handler twice is not run again, unless all its effects are recorded already."""
    if request.attempts < MAX_ATTEMPTS:
        return False
    cells = request.cell_count
    return not cells or any(context.port.cell(request, number) is None for number in range(cells))


def _answer_poison(context, request, api: Api | None) -> None:
    """Error −1 where the request can still be read, then the connection is closed; the frame goes to the log."""
    context.count("poison_requests")
    context.log.error(
        "poison_request",
        api=request.api_key,
        version=request.api_version,
        frame=bytes(request.payload[:LOGGED_FRAME_BYTES]).hex(),
    )
    frame = b""
    try:
        header = decode_request_header(request.payload)
        message = decode(api.request, request.api_version, request.payload, header.body_offset)
        failure = api.failed(message, request.api_version, ErrorCode.UNKNOWN_SERVER_ERROR)
        frame = encode_answer(request, failure)
    except (ProtocolError, AttributeError, ValueError, TypeError, OverflowError):
        pass  # nothing readable to answer: the close alone tells the client
    context.port.answer_close(request, ErrorCode.UNKNOWN_SERVER_ERROR, frame)


def _unsupported_version(context, request, api: Api) -> None:
    if api.key != _API_VERSIONS_KEY:
        context.refuse(request, "unsupported_version", code=ErrorCode.UNSUPPORTED_VERSION)
        return
    context.answer(request, api.failed(None, 0, ErrorCode.UNSUPPORTED_VERSION), version=0)


def _execute(context, request, api: Api, message) -> None:
    try:
        request.stamp(HANDLER_START)
        result = api.handle(context, request, message)
        send_result(context, request, result)
    except Exception as error:  # one broken request is error -1 for that request; the handler goes on
        _fail(context, request, api, message, error)


def fail_parked(context, request, error: Exception) -> None:
    """A delayed operation raised: as if the handler of its request had."""
    api = context.apis.by_key[request.api_key] if _is_held(request) else None
    message = None
    if api is not None:
        header = decode_request_header(request.payload)
        message = decode(api.request, request.api_version, request.payload, header.body_offset)
    _fail(context, request, api, message, error)


def _fail(context, request, api: Api | None, message, error: Exception) -> None:
    """Error −1 for the request, unless it is answered already."""
    context.log.exception("request_failed", error, api=API_NAMES.get(api.key, str(api.key)) if api else "answered")
    context.count("handler_exceptions")
    if api is not None and _is_held(request):
        _answer_failure(context, request, api, message)


def _is_held(request) -> bool:
    try:
        return request.generation is not None
    except ValueError:
        return False


def _answer_failure(context, request, api: Api, message) -> None:
    """Error −1, or, where not even that can be written (a name that grew too long for the wire), a closed
    connection."""
    try:
        context.answer(request, api.failed(message, request.api_version, ErrorCode.UNKNOWN_SERVER_ERROR))
    except Exception as error:
        context.refuse(request, "unanswerable", error)


def send_result(context, request, result) -> None:
    """Sends what a handler, or a delayed operation, came to."""
    if result is PARKED:
        return
    if result is NO_ANSWER:
        context.port.answer_none(request)
    elif result is CLOSE:
        context.port.answer_close(request, 0)
    else:
        context.answer(request, result)


_API_VERSIONS_KEY = 18
