"""WaitingFetch: a long poll that the native path serves, except that it waits here, in the handler that claimed it.

Whether there is enough, and the answer, are native (native/fetch/serve_fetch.c); what that path cannot do, an error
above all, the Python handler does, for the rest of the time that the client waits.
"""

from __future__ import annotations

from mpbroker.channel.handler_port import Request
from mpbroker.server.delayed_fetch import DelayedFetch
from mpbroker.server.dispatch import dispatch
from mpbroker.server.server_context import ParkedRequest, ServerContext


class WaitingFetch(ParkedRequest):
    """`ordinals`: rows of the partitions that it reads."""

    __slots__ = ()

    def __init__(self, context: ServerContext, request: Request, max_wait_ms: int, ordinals: tuple[int, ...]) -> None:
        super().__init__(context, request, context.clock.monotonic_ms() + max_wait_ms, set(ordinals))

    def try_complete(self) -> bool:
        return self.context.is_ending() or self.context.native_topics.fetch.is_ready(self.request)

    def on_expiration(self) -> None:
        self.request.flag_timed_out()
        self.context.count("purgatory_expired")

    def on_complete(self) -> None:
        self.context.resume(self.request)
        if not self.context.native_topics.fetch.answer(self.request):
            self.context.fetch_deadline_ms = self.deadline_ms
            dispatch(self.context, self.request)
            self.context.fetch_deadline_ms = None


def park_if_it_waits(context: ServerContext, request: Request) -> bool:
    """Whether the request that the port gave last is one that the native path would have wait: then it does."""
    waits = context.native_topics.fetch.take_waiting()
    if waits is None:
        return False
    context.port.park(request, DelayedFetch.PARKED_KIND)
    context.purgatory.try_complete_else_watch(WaitingFetch(context, request, *waits))
    return True
