"""DelayedFetch: a long poll that waits for bytes. Lives in the handler that claimed the request.

It completes when enough bytes are there, when any partition answers with an error, when the log rolled or was cut
under a fetch offset, when the broker is about to stop, or at its deadline; then everything is planned and read
again. FetchWithoutMemory waits for memory: the records are there, but there is no room for the answer.
"""

from __future__ import annotations

from typing import Protocol

from mpbroker.channel.handler_port import Request
from mpbroker.server.apis import NoResponse
from mpbroker.server.fetch_session import FetchContext
from mpbroker.server.replica_read import FetchPlan, plan_fetch
from mpbroker.server.server_context import ParkedRequest, ServerContext
from mpbroker.shm.layout import ParkedKind


class Send(Protocol):
    """Reads what is planned and answers, or waits for memory until `until_ms` (None: as long as it is worth it)."""

    def __call__(
        self,
        context: ServerContext,
        request: Request,
        fetch: FetchContext,
        plan: FetchPlan,
        until_ms: int | None = None,
    ) -> NoResponse:
        """What became of the request."""
        ...


class DelayedFetch(ParkedRequest):
    """`send` builds and sends the answer."""

    PARKED_KIND = ParkedKind.FETCH
    __slots__ = ("fetch", "plan", "send")

    def __init__(
        self, context: ServerContext, request: Request, fetch: FetchContext, plan: FetchPlan, send: Send
    ) -> None:
        deadline_ms = context.fetch_deadline_ms
        if deadline_ms is None:
            deadline_ms = context.clock.monotonic_ms() + fetch.message.max_wait_ms
        super().__init__(context, request, deadline_ms, {read.ordinal for read in plan.reads() if read.ordinal >= 0})
        self.fetch = fetch
        self.send = send
        self.plan = FetchPlan([])  # until it completes

    def try_complete(self) -> bool:
        self.context.metadata.refresh()
        plan = plan_fetch(self.context, self.fetch.message, self.request.api_version)
        if plan.is_urgent or plan.total_bytes >= max(self.fetch.message.min_bytes, 0) or self.context.is_ending():
            self.plan = plan
            return True
        return False

    def on_expiration(self) -> None:
        self.request.flag_timed_out()
        self.context.count("purgatory_expired")
        self.plan = plan_fetch(self.context, self.fetch.message, self.request.api_version)

    def on_complete(self) -> None:
        self.context.resume(self.request)
        self.send(self.context, self.request, self.fetch, self.plan)


class FetchWithoutMemory(ParkedRequest):
    """Records whose answer finds no memory, because consumers that do not read hold it: tried again every few
    milliseconds until `until_ms`, then answered with an error. By then processors have closed connections whose clients
    read nothing, or too slowly."""

    RETRY_MS, PATIENCE_MS = 20, 30_000
    __slots__ = ("fetch", "plan", "send", "until_ms")

    def __init__(
        self,
        context: ServerContext,
        request: Request,
        fetch: FetchContext,
        plan: FetchPlan,
        send: Send,
        until_ms: int | None,
    ) -> None:
        now_ms = context.clock.monotonic_ms()
        super().__init__(context, request, now_ms + self.RETRY_MS)
        self.fetch = fetch
        self.plan = plan
        self.send = send
        self.until_ms = now_ms + self.PATIENCE_MS if until_ms is None else until_ms

    def has_patience(self) -> bool:
        """Whether another try comes before the end of it; a broker about to stop has none."""
        return self.deadline_ms <= self.until_ms and not self.context.is_ending()

    def try_complete(self) -> bool:
        return False

    def on_complete(self) -> None:
        self.context.resume(self.request)
        self.send(self.context, self.request, self.fetch, self.plan, self.until_ms)
