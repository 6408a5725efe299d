"""The work loop of a request handler process.

A handler takes requests from the rings, those of the control plane first; a reserved handler takes no others. Most
Produce requests are answered by the native path on the way; every other request is dispatched to its API. A request
that cannot be answered yet is parked in this process. Between requests the handler takes the controller's answers,
looks again at parked requests whose partitions have moved, and ends those whose time is over.

The handler's state is its own. What a successor needs is in the request entries.
"""

from __future__ import annotations

from mpbroker.channel.fetch_session_table import FetchSessionTable
from mpbroker.channel.handler_port import HandlerPort, open_handler_port
from mpbroker.channel.planes import handlers_discipline
from mpbroker.config.broker_config import BrokerConfig
from mpbroker.config.limits import largest_batch_bytes
from mpbroker.log.log_manager import LogManager, open_log
from mpbroker.log.steady_disk import steady
from mpbroker.metadata.cluster_cache import ClusterCache
from mpbroker.metadata.metadata_cache import MetadataCache
from mpbroker.server.api_table import API_TABLE
from mpbroker.server.controller_commands import ControllerCommands
from mpbroker.server.dispatch import dispatch
from mpbroker.server.server_context import ServerContext
from mpbroker.shm.clock import SystemClock
from mpbroker.shm.counters import Counter
from mpbroker.shm.layout import DIRTY_BITS, MAX_HANDLERS, SLOT_CONTROLLER, SLOT_HANDLERS, SLOT_LOG_KEEPER
from mpbroker.shm.process_context import ProcessContext
from mpbroker.shm.process_table import BrokerState, ProcessRow, ProcessState
from mpbroker.shm.replication_quota import ReplicationQuota, summed
from mpbroker.shm.scheduling import prefer_latency

POLL_MS = 300  # Kafka's handler poll: a safety net, every event rings a bell
IDLE_EVERY_MS = 1000


class RequestHandler:
    """One handler: `do_work` is one round, so a test can step it. `control_only`: reserved for the control plane."""

    def __init__(self, context: ServerContext, control_only: bool = False) -> None:
        self.context = context
        self.port: HandlerPort = context.port
        self.control_only = control_only
        self._idle_due_ms = 0

    def do_work(self) -> bool:
        """Waits for a request or a bell, works it off. Returns whether there was a request for Python."""
        return self._serve_one(self._wait_ms())

    def do_work_now(self) -> bool:
        """As `do_work`, but never waits."""
        return self._serve_one(0)

    def _serve_one(self, wait_ms: int) -> bool:
        """Most requests are answered within `serve_or_claim`, or wait there; what comes out of it is dispatched here. A
        handler that was poked, or has to look after what waits, gets None instead of a request."""
        context = self.context
        self.port.python_waits = context.purgatory.has_deadlines
        request = self.port.serve_or_claim(wait_ms, self.control_only)
        if request is None:
            self._deliver()
            return False
        dispatch(context, request)
        natives = context.native_topics
        if context.purgatory.has_deadlines or natives.native.waiting or natives.fetch.waiting:
            self._deliver()
        return True

    def _wait_ms(self) -> int:
        purgatory = self.context.purgatory
        due_ms = purgatory.next_due_ms() if purgatory.has_deadlines else None
        if due_ms is None:
            return POLL_MS
        return max(0, min(POLL_MS, due_ms - self.context.clock.monotonic_ms()))

    def _deliver(self) -> None:
        """Controller answers, partitions that moved, deadlines: in this order."""
        context = self.context
        everything, keys = self.port.take_dirty()
        context.commands.take_answers()
        if everything:
            context.purgatory.check_all()
        elif keys:
            context.purgatory.check_hashed(keys, DIRTY_BITS)
        self._go_on_with_produces()
        self._go_on_with_fetches()
        if context.purgatory.has_deadlines:
            context.purgatory.advance(context.clock.monotonic_ms())

    def _go_on_with_produces(self) -> None:
        """Those that waited natively for replicas, and are now to be answered with an error, or over again."""
        context, produces = self.context, self.context.native_topics.native
        while produces.waiting:
            taken = produces.take_over(context.clock.monotonic_ms())
            if taken is None:
                return
            request, context.produce_deadline_ms = taken
            dispatch(context, request)
            context.produce_deadline_ms = None

    def _go_on_with_fetches(self) -> None:
        """Those that waited natively for records, and are not to be answered natively; they wait on in Python."""
        context, fetches = self.context, self.context.native_topics.fetch
        while fetches.waiting:
            taken = fetches.take_over(context.clock.monotonic_ms())
            if taken is None:
                return
            request, context.fetch_deadline_ms = taken
            dispatch(context, request)
            context.fetch_deadline_ms = None

    def rest_is_due(self) -> bool:
        return self.context.clock.monotonic_ms() >= self._idle_due_ms

    def rest(self) -> None:
        """Gives memory and descriptors back that have not been used for a while; about once a second."""
        now_ms = self.context.clock.monotonic_ms()
        if now_ms >= self._idle_due_ms:
            self._idle_due_ms = now_ms + IDLE_EVERY_MS
            self.context.log.tick()
            if self.control_only:
                prefer_latency(self.context.config.mpbroker_control_plane_scheduling)
            self.port.idle()
            self.context.log_manager.close_stale()

    def leave(self, row: ProcessRow) -> None:
        """This handler goes while the broker runs on: what is parked with it goes back to the others, as a successor
        would put it there. Nothing is in its hand."""
        row.set_state(ProcessState.STOPPING)
        self.port.recover()

    def use_config(self, config: BrokerConfig) -> None:
        """The configuration was read again, or settings were changed."""
        self.context.config = config
        self.context.metadata.use_config(config)
        self.context.native_topics.use_config(config)
        self.port.discipline = handlers_discipline(config)


def main(ctx: ProcessContext) -> None:
    """Process main: recovers what its predecessor in the slot left, then works until it is asked to stop."""
    row = ctx.process_row
    row.set_state(ProcessState.RECOVERING)
    handler = RequestHandler(build_context(ctx), ctx.index < ctx.config.reserved_handlers)
    handler.port.discipline = handlers_discipline(ctx.config)
    handler.context.log_manager.recover_slot(ctx.slot)
    handler.context.fetch_sessions.recover()
    handler.port.recover()
    if ctx.core.coordinator >= 0:
        handler.port.hand_over(list(API_TABLE.handed_over))
    ctx.running()
    while not ctx.stop_requested():
        work(ctx, handler)
    if not handler.context.is_ending():
        handler.leave(row)


def work(ctx: ProcessContext, handler: RequestHandler) -> None:
    """One round of the process: a request or none, and what is due beside it, however many requests are waiting."""
    if not handler.do_work() or ctx.reloading or handler.rest_is_due():
        handler.rest()
        config = ctx.take_reload()
        if config is not None:
            handler.context.listeners = ctx.listeners
            handler.use_config(config)


def _cluster(ctx: ProcessContext) -> ClusterCache | None:
    place = ctx.config.cluster_store
    if place is None:
        return None
    from mpbroker.metadata.listener_locks import ListenerLocks  # a broker by itself needs none of it

    return ClusterCache(ctx.core, ListenerLocks(place).is_dead, SystemClock().monotonic_ms)


def build_context(ctx: ProcessContext) -> ServerContext:
    """Everything the handlers of this process work with."""
    metadata = MetadataCache(ctx.core, ctx.config)
    port, clock = open_handler_port(ctx), SystemClock()
    log, sync_ms = open_log(ctx), ctx.config.mpbroker_experiment_sync_ms
    log_manager = LogManager(
        log,
        clock,
        ctx.config.mpbroker_log_flush == "commit",
        lambda: ctx.core.ring_service(SLOT_LOG_KEEPER),
        largest_batch_bytes(ctx.core.arena_handler_bytes),
        ctx.data_dirs,
        steady(log.flush, sync_ms, clock) if sync_ms else None,
    )
    context = ServerContext(
        config=ctx.config,
        port=port,
        log_manager=log_manager,
        fetch_sessions=FetchSessionTable(ctx.core, ctx.slot),
        metadata=metadata,
        commands=ControllerCommands(port, metadata, ctx.config.cluster_store is not None),
        listeners=ctx.listeners,
        clock=clock,
        log=ctx.log,
        row=ctx.process_row,
        apis=API_TABLE,
        cluster_id=ctx.cluster_id,
        cluster=_cluster(ctx),
    )
    if context.cluster is not None:
        handlers = range(SLOT_HANDLERS, SLOT_HANDLERS + MAX_HANDLERS)
        context.leader_quota = ReplicationQuota(summed(ctx.core, handlers, Counter.LEADER_THROTTLED_BYTES))
    context.stored_settings = ctx.stored_settings
    context.asks_coordinator = True
    context.native_topics.native.parks = context.cluster is not None
    context.renew_listeners = ctx.renew_listeners
    context.request_isr_change = lambda: ctx.core.ring_service(SLOT_CONTROLLER)
    context.is_ending = lambda: ctx.core.state == BrokerState.DRAINING
    return context
