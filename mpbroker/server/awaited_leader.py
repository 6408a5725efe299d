"""Who leads, asked while a leader has just died: the answer is held back for a moment, until the next one is elected.
Lives in the handler that claimed the request.

librdkafka asks once when it loses a connection. Whatever it is told then it believes for up to a second, also that
nobody leads; a client that is told so asks again after a pause in any case. The next leader is mostly known within a
tenth of a second, so the answer is looked at again until it names one, and a broker is mourned by each handler once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from mpbroker.channel.handler_port import Request
from mpbroker.server.apis import PARKED, NoResponse, Outcome
from mpbroker.server.deliver import deliver
from mpbroker.server.server_context import ParkedRequest, ServerContext
from mpbroker.shm.layout import ParkedKind

HELD_MS: Final = 500
LOOK_EVERY_MS: Final = 5


class AwaitedLeader(ParkedRequest):
    """`again` makes the answer, or holds the request once more."""

    PARKED_KIND = ParkedKind.CONTROLLER
    __slots__ = ("again",)

    def __init__(self, context: ServerContext, request: Request, again: Callable[[], Outcome]) -> None:
        super().__init__(context, request, context.clock.monotonic_ms() + LOOK_EVERY_MS)
        self.again = again

    def try_complete(self) -> bool:
        return False

    def on_complete(self) -> None:
        self.context.resume(self.request)
        deliver(self.context, self.request, self.again())


def awaited(context: ServerContext, request: Request) -> frozenset[int]:
    """Brokers in whose place others are elected just now, as far as it is worth while to wait for that."""
    if context.cluster is None or context.is_ending():
        return frozenset()
    return context.cluster.lost_within(context.listener(request.listener).name, HELD_MS)


def hold(context: ServerContext, request: Request, again: Callable[[], Outcome]) -> NoResponse:
    """Looks again in a moment."""
    context.port.park(request, AwaitedLeader.PARKED_KIND)
    context.purgatory.try_complete_else_watch(AwaitedLeader(context, request, again))
    return PARKED
