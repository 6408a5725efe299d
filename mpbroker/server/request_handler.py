"""KafkaRequestHandler: the work loop of one handler process. Claims requests, executes any API, keeps a purgatory.

Control requests come first; the reserved handler takes nothing else. Between requests it delivers the controller's
answers, tries the parked operations whose partitions moved and expires what is due. Its state is its own; what must
outlive it stands in the request entries.
"""

from __future__ import annotations

from mpbroker.channel.handler_port import open_handler_port
from mpbroker.log.log_manager import LogManager
from mpbroker.metadata.metadata_cache import MetadataCache
from mpbroker.server.api_table import API_TABLE
from mpbroker.server.apis import dispatch
from mpbroker.server.controller_commands import ControllerCommands
from mpbroker.server.server_context import ServerContext
from mpbroker.shm.clock import SystemClock

POLL_MS = 300  # Kafka's handler poll: a safety net, every event rings a bell


class RequestHandler:
    """One handler: `do_work` is one turn, so a test can step it."""

    def __init__(self, context: ServerContext) -> None:
        self.context = context
        self.port = context.port

    def do_work(self) -> bool:
        """Waits for a request or a bell, works it off. Returns whether there was a request."""
        request = self.port.claim(self._wait_ms())
        if request is not None:
            dispatch(self.context, request)
        self._deliver()
        return request is not None

    def _wait_ms(self) -> int:
        due_ms = self.context.purgatory.next_due_ms()
        if due_ms is None:
            return POLL_MS
        return max(0, min(POLL_MS, due_ms - self.context.clock.monotonic_ms()))

    def _deliver(self) -> None:
        """Controller answers, partitions that moved, deadlines: in this order."""
        context = self.context
        everything, ordinals = self.port.take_dirty()
        context.commands.take_answers()
        if len(context.purgatory):
            if everything:
                context.purgatory.check_all()
            elif ordinals:
                context.purgatory.check(ordinals)
            context.purgatory.advance(context.clock.monotonic_ms())


def main(ctx) -> None:
    """Process main: recovers what its predecessor in the slot left, then works until told to stop."""
    handler = RequestHandler(build_context(ctx))
    handler.port.recover()
    ctx.running()
    while not ctx.stop_requested():
        handler.do_work()


def build_context(ctx) -> ServerContext:
    metadata = MetadataCache(ctx.core, ctx.config)
    port = open_handler_port(ctx)
    return ServerContext(
        config=ctx.config, port=port, log_manager=LogManager(ctx), metadata=metadata,
        commands=ControllerCommands(port, metadata), listeners=ctx.listeners, clock=SystemClock(), log=ctx.log,
        row=ctx.process_row, apis=API_TABLE, cluster_id=ctx.cluster_id)
