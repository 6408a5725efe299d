"""The loop of the coordinator process: requests that handlers hand over, bells, deadlines.

The coordinator is a request handler of another kind: it claims handed-over entries with a handler's port (the last
handler index, a slot of its own), answers them itself, and its successor puts back what it held. Everything that knows
of groups and transactions is imported when their topic is there or is being made for somebody: a broker without them
pays for this loop only.
"""

from __future__ import annotations

from typing import Protocol

from mpbroker.channel.handler_port import HandlerPort, Request, open_handler_port
from mpbroker.config.broker_config import BrokerConfig
from mpbroker.log.log_manager import open_log
from mpbroker.metadata.metadata_cache import MetadataCache
from mpbroker.metadata.topic_names import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from mpbroker.shm.clock import Clock, SystemClock
from mpbroker.shm.process_context import ProcessContext
from mpbroker.shm.process_table import ProcessState

POLL_MS = 500  # a safety net: every event rings a bell
REST_EVERY_MS = 1000


class Work(Protocol):
    """What the loop does with what it takes."""

    def execute(self, request: Request) -> None:
        """Answers a claimed request, now or later. Never raises for what a client sent."""
        ...

    def deliver(self, everything: bool, moved: list[int]) -> None:
        """After a bell or a wait: partitions that moved (their rows, modulo layout.DIRTY_BITS; `everything`: perhaps
        any), then deadlines."""
        ...

    def next_due_ms(self) -> int | None:
        """The next deadline by the monotonic clock; None: there is none."""
        ...

    def rest(self) -> None:
        """About once a second: what can be given back is given back."""
        ...

    def use_config(self, config: BrokerConfig) -> None:
        """The configuration was read again."""
        ...


class CoordinatorProcess:
    """The loop and its state; `turn` is one round of it."""

    def __init__(self, ctx: ProcessContext, port: HandlerPort, clock: Clock) -> None:
        self._ctx = ctx
        self._port = port
        self._clock = clock
        self._metadata = MetadataCache(ctx.core, ctx.config)
        self._work: Work | None = None if ctx.incarnation == 1 else self._begin()
        self._rest_due_ms = 0

    def turn(self) -> None:
        """Waits for a request, a bell or a deadline, and works it off."""
        due_ms = self._due_ms()
        request = self._port.serve_or_claim(self._wait_ms(due_ms))
        work = self._work
        if request is not None:
            if work is None:
                self._work = work = self._begin()
            work.execute(request)
        if request is None or self._ctx.reloading or self._is_due(due_ms):
            everything, moved = self._port.take_dirty()
            if work is None and self._ctx.core.coordinator_wanted:
                self._work = work = self._begin()
            if work is not None:
                work.deliver(everything, moved)
            self._rest()

    def _begin(self) -> Work:
        from mpbroker.coordinator.shell import open_shell

        return open_shell(self._ctx, self._port, self._clock, self._metadata)

    def _due_ms(self) -> int | None:
        return None if self._work is None else self._work.next_due_ms()

    def _is_due(self, due_ms: int | None) -> bool:
        """By the deadline of before the request: one that it set is looked at with the next."""
        now_ms = self._clock.monotonic_ms()
        return now_ms >= self._rest_due_ms or (due_ms is not None and now_ms >= due_ms)

    def _wait_ms(self, due_ms: int | None) -> int:
        return POLL_MS if due_ms is None else max(0, min(POLL_MS, due_ms - self._clock.monotonic_ms()))

    def _rest(self) -> None:
        now_ms = self._clock.monotonic_ms()
        if now_ms < self._rest_due_ms and not self._ctx.reloading:
            return
        self._rest_due_ms = now_ms + REST_EVERY_MS
        self._ctx.log.tick()
        self._port.idle()
        config = self._ctx.take_reload()
        if self._work is None:
            self._metadata.refresh()
            if self._metadata.topic(OFFSETS_TOPIC) is None and self._metadata.topic(TRANSACTIONS_TOPIC) is None:
                self._ctx.core.transactions_ready = 1
                return
            self._work = self._begin()
        self._work.rest()
        if config is not None:
            self._work.use_config(config)


def main(ctx: ProcessContext) -> None:
    """Process main: puts back what its predecessor held, then works until it is asked to stop."""
    ctx.process_row.set_state(ProcessState.RECOVERING)
    port = open_handler_port(ctx)
    if ctx.incarnation > 1:  # the first one has no predecessor, and must not touch pages to find nothing
        open_log(ctx).repair_slot(ctx.slot)
        port.recover()
    process = CoordinatorProcess(ctx, port, SystemClock())
    ctx.running()
    while not ctx.stop_requested():
        process.turn()
