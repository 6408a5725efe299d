"""What becomes of what an API's handler came to: an answer, nothing, or a closed connection. Request handlers."""

from __future__ import annotations

from mpbroker.channel.handler_port import Request
from mpbroker.errors import ErrorCode
from mpbroker.server.apis import CLOSE, HANDED_OVER, MALFORMED, NO_ANSWER, PARKED, Outcome
from mpbroker.server.server_context import ServerContext


def deliver(context: ServerContext, request: Request, outcome: Outcome) -> None:
    """Sends it; what is parked or handed over is answered later, by whoever holds it."""
    if outcome is PARKED or outcome is HANDED_OVER:
        return
    if outcome is NO_ANSWER:
        context.port.answer_none(request)
    elif outcome is CLOSE:
        context.port.answer_close(request, 0)  # its error is noted already
    elif outcome is MALFORMED:
        context.refuse(request, "malformed_body", code=ErrorCode.INVALID_REQUEST)
    else:
        context.answer(request, outcome)
