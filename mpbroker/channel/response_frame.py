"""The one door through which responses leave handlers and coordinator: encodes them, and notes their first error code.

The code goes into the request's trace record, whichever API it is. Only this module encodes responses
(tests/tidy holds that); Produce requests that the native path serves are noted there (native/produce/serve_produce.c).
"""

from __future__ import annotations

from mpbroker.channel.handler_port import Request
from mpbroker.protocol.first_error import first_error
from mpbroker.protocol.headers import encode_response_frame, encode_response_frame_into
from mpbroker.protocol.types import Struct


def encode_answer(request: Request, message: Struct, version: int | None = None) -> bytes:
    """The whole frame of a response in the request's version (or the one given). ValueError for what does not fit."""
    note_error(request, message)
    used = request.api_version if version is None else version
    return encode_response_frame(request.api_key, used, request.correlation_id, message)


def encode_answer_into(request: Request, message: Struct, view: memoryview) -> tuple[int, list[tuple[int, int]]]:
    """The same into memory for answers, with records fields left free: (end, [(position, length), …])."""
    note_error(request, message)
    return encode_response_frame_into(request.api_key, request.api_version, request.correlation_id, message, view)


def note_error(request: Request, message: Struct) -> None:
    """Also for a response that is not sent: that of a producer with acks=0."""
    code = first_error(message)
    if code:
        request.set_error(code)
