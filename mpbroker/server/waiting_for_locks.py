"""Requests that wait for the lock of a partition, which a slow or stopped process holds. Each lives in the handler that
claimed it, which goes on with other requests meanwhile.

Whoever lets go of a lock that others waited for in vain rings the handlers that watch the partition
(native/log/partition_lock.c). A process may be stopped between the two, so everybody also tries again now and then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from mpbroker.channel.handler_port import Request
from mpbroker.server.apis import Outcome
from mpbroker.server.deliver import deliver
from mpbroker.server.server_context import ParkedRequest, ServerContext
from mpbroker.shm.layout import ParkedKind

RETRY_MS = 100
LEAST_PATIENCE_MS = 1000  # a holder that is only slow must not fail the requests of clients that allow less


class BusyPartitions(ParkedRequest):
    """A request with effects, stopped before those on busy partitions. `again(until_ms)` runs it again when one of them
    may be free, and at its own timeout; what an earlier run did is in the result cells."""

    PARKED_KIND = ParkedKind.PRODUCE
    __slots__ = ("again", "until_ms")

    def __init__(
        self,
        context: ServerContext,
        request: Request,
        ordinals: Iterable[int],
        until_ms: int,
        again: Callable[[int], Outcome],
    ) -> None:
        super().__init__(context, request, min(context.clock.monotonic_ms() + RETRY_MS, until_ms), ordinals)
        self.until_ms = until_ms
        self.again = again

    def try_complete(self) -> bool:
        return not all(self.context.log_manager.is_busy(ordinal) for ordinal in self.keys)

    def on_complete(self) -> None:
        context = self.context
        if context.clock.monotonic_ms() < self.until_ms and not self.try_complete():
            wait_for_partitions(context, self.request, self.keys, self.until_ms, self.again)
            return
        context.resume(self.request)
        deliver(context, self.request, self.again(self.until_ms))


def wait_for_partitions(
    context: ServerContext,
    request: Request,
    ordinals: Iterable[int],
    until_ms: int,
    again: Callable[[int], Outcome],
) -> None:
    """Parks the request until one of the partitions may be free."""
    context.port.park(request, BusyPartitions.PARKED_KIND)
    context.purgatory.try_complete_else_watch(BusyPartitions(context, request, ordinals, until_ms, again))


class UnfinishedRun(ParkedRequest):
    """A second run of a request while the first one's append is still being finished or undone, by a process that was
    stopped in the middle of it. That process may write into the request's cells when it goes on, so until then the
    request is not answered, however long that takes: its entry would belong to another one."""

    PARKED_KIND = ParkedKind.PRODUCE
    __slots__ = ("run",)

    def __init__(
        self, context: ServerContext, request: Request, ordinal: int, run: Callable[[ServerContext, Request], None]
    ) -> None:
        super().__init__(context, request, context.clock.monotonic_ms() + RETRY_MS, (ordinal,))
        self.run = run

    def try_complete(self) -> bool:
        for ordinal in self.keys:  # if that process has died, whoever takes the lock repairs
            self.context.log_manager.repair(ordinal)
        return self.context.port.intended_row(self.request) is None

    def on_complete(self) -> None:
        context = self.context
        ordinal = context.port.intended_row(self.request)
        if ordinal is not None:
            _wait_for_repair(context, self.request, ordinal, self.run)
            return
        context.resume(self.request)
        self.run(context, self.request)


def waits_for_repair(context: ServerContext, request: Request, run: Callable[[ServerContext, Request], None]) -> bool:
    """Whether an earlier run of the request is not finished: then it is parked, and `run` is called later."""
    ordinal = context.port.intended_row(request) if request.attempts else None
    if ordinal is None:
        return False
    _wait_for_repair(context, request, ordinal, run)
    return True


def _wait_for_repair(
    context: ServerContext, request: Request, ordinal: int, run: Callable[[ServerContext, Request], None]
) -> None:
    context.port.park(request, UnfinishedRun.PARKED_KIND)
    context.purgatory.try_complete_else_watch(UnfinishedRun(context, request, ordinal, run))
