"""Requests that another process carries out as they are: those of the controller for this broker's agent, those of
brokers
and clients for the cluster's controller. Request handlers; nothing is kept here.

The command names the entry in which the request is parked, because it may be larger than a command. Who asks again
after a handler's death gets the first run's answer, or has it run again, which changes nothing."""

from __future__ import annotations

import zlib
from array import array
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from mpbroker.channel.handler_port import Request
from mpbroker.errors import ErrorCode
from mpbroker.metadata.commands import Answer, ControlAnswer, ControlRequest, encode_command
from mpbroker.protocol.codec import decode
from mpbroker.protocol.types import Struct
from mpbroker.server.apis import PARKED, Outcome
from mpbroker.server.delayed_command import park_for_controller
from mpbroker.server.server_context import ServerContext

TIMEOUT_MS: Final = 30_000
S = TypeVar("S", bound=Struct)


def tell_agent(
    context: ServerContext, request: Request, count: int, build: Callable[[int, Sequence[int]], Struct]
) -> Outcome:
    """`build(code, codes)`: the response, from the code of the whole and one for each of `count` partitions."""

    def on_answers(answers: Sequence[Answer | None]) -> Struct:
        answer = answers[0]
        if not isinstance(answer, ControlAnswer):
            code = ErrorCode.REQUEST_TIMED_OUT if answer is None else answer.error_code
            return build(int(code), [int(code)] * count)
        codes = array("h", zlib.decompress(answer.codes) if answer.codes else b"").tolist()
        return build(answer.error_code, codes if len(codes) == count else [answer.error_code] * count)

    if park_for_controller(context, request, [_command(request)], TIMEOUT_MS, on_answers, local=True):
        return PARKED
    return on_answers([None])


def ask_cluster_controller(
    context: ServerContext,
    request: Request,
    response: type[S],
    failed: Callable[[int], S],
    timeout_ms: int = TIMEOUT_MS,
) -> Outcome:
    """The elected controller's own response; `failed(code)`: one for a request that nobody has carried out."""

    def on_answers(answers: Sequence[Answer | None]) -> Struct:
        answer = answers[0]
        if answer is None:
            return failed(ErrorCode.REQUEST_TIMED_OUT)
        if not isinstance(answer, ControlAnswer) or not answer.body:
            return failed(answer.error_code)
        return decode(response, request.api_version, zlib.decompress(answer.body))

    if park_for_controller(context, request, [_command(request)], timeout_ms, on_answers):
        return PARKED
    return failed(ErrorCode.REQUEST_TIMED_OUT)


def _command(request: Request) -> bytes:
    return encode_command(ControlRequest(request.entry, request.fill_number))
