"""The processor: reads requests from its connections and sends the answers. Each data listener has some processor
processes; the control plane's listener has one (KIP-291).

A turn of its loop has six steps: send answers; serve what waited for room; take at most 20 new connections; read one
request from each readable connection; housekeeping; wait. That is not Kafka's order (ADR 12). What is ordinary in it
happens in native code (native/network/network_turn.h), which reports everything else as events for this loop to decide.

A processor never waits for a handler. If a request finds its plane full, it is parked, and no other is read until it
has found room; answers are sent all the while. If serving one connection raises an unexpected exception, that
connection is closed and the others are served on.

Only this process touches its sockets, its part of the arena, and its entries while they are FREE, FILL or SENDING.
"""

import contextlib
import os
import select
import socket
import time
from collections.abc import Callable

from mpbroker import _native
from mpbroker.channel.planes import CONTROL as PLANE_CONTROL
from mpbroker.channel.planes import DATA as PLANE_DATA
from mpbroker.channel.planes import listener_discipline
from mpbroker.channel.processor_port import ProcessorPort
from mpbroker.config.broker_config import BrokerConfig
from mpbroker.network.connection_notices import ConnectionNotices, names_in
from mpbroker.network.connection_quotas import UNLIMITED
from mpbroker.network.connection_table import ConnectionTable
from mpbroker.network.fd_passing import MAX_RECEIVED_BYTES, Peer, accepted_ns, address_text
from mpbroker.network.handover_receiver import HandoverReceiver, Received
from mpbroker.network.kafka_channel import MIN_FRAME_BYTES, ConnectionLost, KafkaChannel
from mpbroker.network.refusals import invalid_frame, unsupported
from mpbroker.network.request_reader import RequestReader
from mpbroker.network.slow_readers import SlowReaders
from mpbroker.protocol.api_keys import api_name
from mpbroker.shm.counters import Counter
from mpbroker.shm.layout import SLOT_PROCESSORS
from mpbroker.shm.process_context import ProcessContext
from mpbroker.shm.process_table import BrokerState, ProcessRow, ProcessState
from mpbroker.shm.scheduling import prefer_latency
from mpbroker.trace import lane
from mpbroker.trace.notice import CloseReason

POLL_MS = 300
ORDINARY_TURNS = 1000
NO_ROOM_POLL_MS = 10
REMOVED_DRAIN_MS = 300  # for answers that clients of a listener that was removed wait for
LEAVING_POLL_MS = 10  # the acceptor has room again, or the broker stops: neither rings a bell
MAX_NEW_CONNECTIONS_PER_TURN = 20
MAX_ANSWERS_PER_TURN = 256
HOUSEKEEPING_NS = 1_000_000_000
STUCK_ANSWER_NS = 30_000_000_000
MAX_HEADER_BYTES = 512  # of a frame, to read the client's name from

_EVENTS = select.EPOLLIN | select.EPOLLOUT | select.EPOLLRDHUP | select.EPOLLET
_now_ns = time.monotonic_ns


def main(ctx: ProcessContext) -> None:
    """Recover what a predecessor left, serve until asked to stop, let requests in flight finish."""
    row = ctx.process_row
    row.state = ProcessState.RECOVERING
    processor = Processor(ctx)
    if ctx.serves_control_plane:
        prefer_latency(ctx.config.mpbroker_control_plane_scheduling)
    processor.recover()
    _lock = _listener_lock(ctx)  # held as long as this process lives
    ctx.running()
    while not ctx.stop_requested() or processor.must_go_on():
        processor.turn(POLL_MS, ORDINARY_TURNS)
    row.state = ProcessState.STOPPING  # from here on the acceptor sends nothing
    processor.leave()
    processor.drain(ctx.config.mpbroker_drain_timeout_ms)


def _listener_lock(ctx: ProcessContext) -> object:
    """That clients of other brokers of the cluster are told of this one only while it is served."""
    place = ctx.config.cluster_store
    if place is None or not place.sqlite_path or ctx.listener is None:
        return None
    from mpbroker.metadata.listener_locks import ListenerLock  # a broker by itself needs none of it

    return ListenerLock(place, ctx.config.node_id, ctx.listeners[ctx.listener].name)


class Processor:
    """The loop and its state. `turn` waits at most the time given, then does all there is to do."""

    def __init__(self, ctx: ProcessContext) -> None:
        assert ctx.listener is not None
        self._ctx = ctx
        self._row = ctx.process_row
        self._count = ctx.process_row.count
        self._listener = ctx.listeners[ctx.listener]
        self._rows = [ProcessRow(ctx.core, SLOT_PROCESSORS + p) for p in range(len(ctx.eventfds))]
        self._is_protected = len(ctx.listeners) > 1 and ctx.config.end_points.inter_broker == self._listener.name
        self._eventfd = ctx.eventfds[ctx.index]
        self._lane = attach_lane(ctx)
        self._sample(ctx.config)
        self._port = ProcessorPort(ctx.core, ctx.index, self._eventfd, self._lane)
        self._port.batching = True  # handlers are woken once a turn, not once a request
        self._port.discipline = listener_discipline(ctx.config, self._listener.name)
        self._max_request_bytes = ctx.config.socket_request_max_bytes
        plane = PLANE_CONTROL if self._listener.control else PLANE_DATA
        self._epoll = select.epoll()
        self._native_turn: _native.NetworkTurn[KafkaChannel] = _native.NetworkTurn(
            self._port,
            self._epoll.fileno(),
            plane,
            ctx.listener,
            self._max_request_bytes,
            ctx.config.queued_max_request_bytes,
            ctx.api_versions,
            ctx.config.mpbroker_control_classify,
        )
        self._reader = RequestReader(self._port, self._native_turn, plane, ctx.listener, self._guard, self._take_events)
        self._on_event: dict[int, Callable[[KafkaChannel, int, int], None]] = {
            _native.EVENT_CLOSE: self._on_close,
            _native.EVENT_INTRODUCED: lambda channel, client_hash, _: self._notices.introduced(channel, client_hash),
            _native.EVENT_LARGE: lambda channel, wanted_bytes, _: self._reader.read_large(channel, wanted_bytes),
            _native.EVENT_PARKED: lambda _channel, entry, _: self._reader.park(entry),
            _native.EVENT_NO_ROOM: lambda channel, _first, _second: self._reader.wait_for_room(channel),
            _native.EVENT_INVALID: self._on_invalid,
            _native.EVENT_UNSUPPORTED: self._on_unsupported,
            _native.EVENT_POISON: self._on_poison,
        }
        handlers = [ProcessRow(ctx.core, ctx.core.handler_slot(h)) for h in range(ctx.core.handler_count)]
        self._slow_readers = SlowReaders(handlers, self._native_turn.untaken)
        self._connections = ConnectionTable()
        self._notices = ConnectionNotices(ctx.trace_notices_fd, ctx.index, ctx.listener, ctx.process_row)
        self._notices.began()
        self._by_fd = self._connections.by_fd
        self._handover = HandoverReceiver(next(iter(ctx.handovers.values())), ctx.incarnation)
        self._new_connections = True
        self._housekeeping_ns = 0
        for fd in (ctx.wakeup_fd, self._eventfd, self._handover.channel.fileno()):
            self._epoll.register(fd, select.EPOLLIN)

    def _sample(self, config: BrokerConfig) -> None:
        """Which requests are traced, from now on."""
        if self._lane is not None:
            self._lane.sample_shift = config.mpbroker_trace_sample_shift
            self._lane.slow_ns = config.mpbroker_trace_slow_ms * 1_000_000 if config.mpbroker_trace_slow_ms >= 0 else -1

    def recover(self) -> None:
        """Repair the entries of a predecessor; empty its bell."""
        self._port.recover()
        drain_eventfd(self._eventfd)

    def turn(self, timeout_ms: int, more_turns: int = 0) -> None:
        """One turn of the loop; answers go before new connections (ADR 12). `_wait` then makes at most `more_turns`
        ordinary ones natively."""
        answered = self._send_answers()
        self._serve_waiting()
        self._take_new_connections()
        self._read_requests()
        self._keep_house()
        self._wait(answered, timeout_ms, more_turns)

    def _send_answers(self) -> bool:
        """Whether there were any."""
        answered = self._native_turn.answer(MAX_ANSWERS_PER_TURN) > 0
        self._take_events()
        return answered

    def _serve_waiting(self) -> None:
        """Requests that found their plane full, then frames that found no entry or no arena space."""
        self._reader.retry_parked()
        if self._reader.waits_for_room():
            self._reader.admit_waiting()

    def _take_new_connections(self) -> None:
        if self._new_connections:
            self._configure_new_connections()

    def _read_requests(self) -> None:
        """One frame of each readable connection, unless a request waits for room."""
        self._native_turn.receive(self._reader.may_read())
        self._take_events()

    def _keep_house(self) -> None:
        """The heartbeat; once a second everything that has a time limit; places in quotas of connections that ended."""
        now_ns = _now_ns()
        self._row.beat()
        if now_ns >= self._housekeeping_ns or self._ctx.reloading:
            self._housekeeping(now_ns)
        self._handover.flush()

    def _wait(self, answered: bool, timeout_ms: int, more_turns: int) -> None:
        """Wake handlers, then wait for sockets and bells, not at all if there is work left."""
        native, reader = self._native_turn, self._reader
        may_read, waits_for_room = reader.may_read(), reader.waits_for_room()
        busy = answered or self._new_connections or native.has_work(may_read)
        if waits_for_room:
            timeout_ms = min(timeout_ms, NO_ROOM_POLL_MS)  # another processor may give room, and rings no bell for it
        native.end(not busy)
        if self._port.ring():
            timeout_ms = 1
        ordinary = may_read and not self._new_connections and not waits_for_room
        turns = more_turns if ordinary else 0
        wait_ms = 0 if busy else timeout_ms
        if native.poll(wait_ms, turns, MAX_ANSWERS_PER_TURN, self._housekeeping_ns, POLL_MS):
            self._take_events()

    # ---- leaving while the broker runs

    def _broker_stops(self) -> bool:
        return bool(self._ctx.core.state == BrokerState.DRAINING) or self._ctx.supervisor_gone()

    def must_go_on(self) -> bool:
        """Whether the acceptor has not yet heard which sockets are ours: only then may this process leave."""
        return self._handover.owes_answers() and not self._broker_stops() and not self._is_removed()

    def leave(self) -> None:
        """Pass every connection back as soon as nothing of it is under way here; ends when none is left, or when the
        whole broker stops. Until then each is served as ever, so that no client notices. Connections of a listener that
        was removed are closed, as Kafka does; what is in the hands of handlers then is waited for without them."""
        self._handover.leaving = True
        if self._is_removed():
            self.drain(min(self._ctx.config.mpbroker_drain_timeout_ms, REMOVED_DRAIN_MS))
        while not self._broker_stops() and self._is_removed() and self._has_entries():
            self._send_answers()
            self._native_turn.end(True)
            self._native_turn.poll(LEAVING_POLL_MS, 0, 0, 0, 0)
            self._take_events()
            self._row.beat()
        while self._by_fd and not self._broker_stops():
            self._send_answers()
            self._native_turn.end(True)  # what is held back for the next answer goes now
            self._take_events()
            self._serve_waiting()
            self._take_new_connections()
            passed = self._pass_back()
            self._read_requests()
            self._keep_house()
            self._wait(passed > 0, LEAVING_POLL_MS, 0)
        self._handover.receive(MAX_NEW_CONNECTIONS_PER_TURN)  # closes copies of what came too late

    def _is_removed(self) -> bool:
        """Whether our listener is one that the broker does not have any more."""
        self._ctx.take_reload()
        return self._ctx.listeners[self._listener.index].removed

    def _has_entries(self) -> bool:
        """Whether requests of ours are not answered yet."""
        each = self._ctx.core.entry_count // self._ctx.core.processor_count
        return any(entry // each == self._ctx.index for entry, _, _, _ in self._ctx.core.entry_states())

    def _pass_back(self) -> int:
        """How many connections went."""
        passed = 0
        for channel in list(self._by_fd.values()):
            if _is_quiet(channel):
                peer = Peer(channel.address, channel.port, 0)
                if not self._handover.pass_back(channel.fd, peer, channel.peek(MAX_RECEIVED_BYTES)):
                    break
                self._count(Counter.CONNECTIONS_PASSED_BACK)
                self._let_go(channel, CloseReason.STOPPING)
                passed += 1
        return passed

    def drain(self, timeout_ms: int) -> None:
        """Read nothing more, send the answers of what is in flight, then close every connection."""
        deadline_ns = _now_ns() + timeout_ms * 1_000_000
        while self._in_flight() and _now_ns() < deadline_ns:
            self._reader.retry_parked()
            idle = not self._native_turn.answer(MAX_ANSWERS_PER_TURN)
            self._take_events()
            self._native_turn.end(True)
            self._port.ring()
            if idle:
                self._native_turn.poll(20, 0, 0, 0, 0)
            self._take_events()
            self._row.beat()
        for channel in list(self._by_fd.values()):
            self._close(channel, CloseReason.STOPPING)

    def _in_flight(self) -> bool:
        return any(channel.in_flight or channel.out_count for channel in self._by_fd.values())

    # ---- what the native turn leaves to us

    def _take_events(self) -> None:
        for kind, channel, first, second in self._native_turn.events():
            if channel is None:
                self._on_own_event(kind, first)
            elif not channel.closed:
                self._guard(channel, self._on_event[kind], first, second)

    def _guard(self, channel: KafkaChannel, act: Callable[..., None], *arguments: object) -> None:
        """Call act(channel, *arguments). Whatever it raises closes that one connection; this process goes on."""
        try:
            act(channel, *arguments)
        except ConnectionLost:
            self._close(channel)
        except Exception as error:
            self._count(Counter.CONNECTIONS_FAILED)
            self._log_failure(channel, error)
            try:
                self._close(channel, CloseReason.FAILED)
            except Exception as again:
                self._log_failure(channel, again)

    def _log_failure(self, channel: KafkaChannel, error: Exception) -> None:
        peer = address_text(channel.address)
        self._ctx.log.exception(
            "connection_failed", error, f"{peer} {type(error).__name__}", listener=self._listener.name, peer=peer
        )

    def _on_close(self, channel: KafkaChannel, answered: int, _second: int) -> None:
        self._close(channel, CloseReason.ANSWERED if answered else CloseReason.CLIENT)

    def _on_invalid(self, channel: KafkaChannel, length: int, _second: int) -> None:
        reason = invalid_frame(length, MIN_FRAME_BYTES, self._max_request_bytes)
        self._refuse(channel, Counter.BAD_FRAMES, "invalid_frame", reason)

    def _on_unsupported(self, channel: KafkaChannel, key: int, version: int) -> None:
        """An API or a version that nobody serves: the whole frame is here, and says who asks."""
        client_id, _ = names_in(channel.beginning(MAX_HEADER_BYTES))
        self._refuse(
            channel,
            Counter.REQUESTS_UNSUPPORTED,
            "unsupported_request",
            unsupported(key, version, self._ctx.api_versions.get(key)),
            api=api_name(key),
            version=version,
            client_id=client_id,
        )

    def _on_poison(self, channel: KafkaChannel, _first: int, _second: int) -> None:
        """A frame that killed a worker before: nobody looks at it again."""
        self._refuse(channel, Counter.POISON_REQUESTS, "frame_refused", "it killed the worker that handled it")

    def _on_own_event(self, kind: int, fd: int) -> None:
        if kind == _native.EVENT_STRAY:
            self._count(Counter.ANSWERS_WITHOUT_CONNECTION)
        elif fd == self._ctx.wakeup_fd:
            self._ctx.drain_wakeups()
        elif fd == self._handover.channel.fileno():
            self._new_connections = True

    # ---- new connections

    def _configure_new_connections(self) -> None:
        received = self._handover.receive(MAX_NEW_CONNECTIONS_PER_TURN)
        self._new_connections = len(received) >= MAX_NEW_CONNECTIONS_PER_TURN
        now_ns = _now_ns()
        for new in received:
            connection = self._register(new)
            if connection is not None:
                self._add(connection, new, now_ns)
        if self._handover.truncated:
            self._count(Counter.HANDOVERS_TRUNCATED, self._handover.truncated)
            self._ctx.log.error(
                "handover_truncated", messages=self._handover.truncated, reason="this process has no free descriptors"
            )
            self._handover.truncated = 0
        if received:
            self._row.connections = len(self._connections)

    def _add(self, connection: socket.socket, new: Received, now_ns: int) -> None:
        self._count(Counter.CONNECTIONS_TAKEN)
        channel = self._connections.add(connection, self._row.counter(Counter.CONNECTIONS_TAKEN), new.address, now_ns)
        channel.port = new.port
        self._guard(channel, self._begin, new, now_ns)

    def _begin(self, channel: KafkaChannel, new: Received, now_ns: int) -> None:
        """Serve a connection from now on, beginning with what another processor had received of it."""
        channel.preload(new.received, now_ns)
        self._port.set_address(channel.number, channel.generation, channel.address)
        self._native_turn.add(channel)
        if new.received:
            self._native_turn.schedule(channel)
        self._notices.opened(channel, new.port, accepted_ns(new.accepted, now_ns))

    def _register(self, new: Received) -> socket.socket | None:
        """The new socket in our epoll set; None, and it is closed, if that cannot be."""
        connection = None
        try:
            connection = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 0, new.fd)
            self._epoll.register(new.fd, _EVENTS)  # edge-triggered: says at once what is already there
        except OSError as error:
            if connection is None:
                os.close(new.fd)
            else:
                connection.close()  # once: a second close could hit a descriptor that is somebody else's by then
            self._handover.closed(new.address)
            self._ctx.log.warning("connection_not_registered", self._listener.name, error=error)
            return None
        return connection

    # ---- closing

    def _refuse(self, channel: KafkaChannel, counter: int, event: str, reason: object, **named: object) -> None:
        """Close a connection that sent what cannot be answered: a counter, and one line (of one kind and peer, and of
        one API, at most one in ten seconds)."""
        self._count(counter)
        peer = address_text(channel.address)
        about = f"{peer} {named['api']}" if "api" in named else peer
        self._ctx.log.warning(event, about, listener=self._listener.name, peer=peer, **named, reason=reason)
        self._close(channel, CloseReason.STUCK if counter == Counter.ANSWERS_STUCK else CloseReason.REFUSED)

    def _close(self, channel: KafkaChannel, reason: CloseReason = CloseReason.CLIENT) -> None:
        """Close a connection now; what is in flight for it is dropped when its answer comes."""
        if channel.closed:
            return
        self._count(Counter.CONNECTIONS_CLOSED)
        try:
            self._let_go(channel, reason)
        finally:
            self._handover.closed(channel.address)

    def _let_go(self, channel: KafkaChannel, reason: CloseReason) -> None:
        """Forget a connection and close our descriptor of it."""
        self._connections.remove(channel)
        try:
            self._native_turn.forget(channel)
            if channel.large_view is not None:
                self._port.release_reserved(channel.end_large())
        finally:
            with contextlib.suppress(OSError):
                self._epoll.unregister(channel.fd)
            channel.socket.close()
            self._row.connections = len(self._connections)
        self._notices.closed(channel, reason, _now_ns())

    # ---- once a second

    def _housekeeping(self, now_ns: int) -> None:
        self._housekeeping_ns = now_ns + HOUSEKEEPING_NS
        config = self._ctx.take_reload() or self._ctx.config
        self._sample(config)
        self._port.discipline = listener_discipline(config, self._listener.name)
        self._ctx.log.tick()
        if self._ctx.serves_control_plane:
            prefer_latency(config.mpbroker_control_plane_scheduling)
        self._port.idle()  # arena memory that large requests needed a while ago
        if self._handover.stale:
            self._count(Counter.HANDOVERS_STALE, self._handover.stale)
            self._handover.stale = 0
        frame_ns = config.mpbroker_frame_timeout_ms * 1_000_000
        for channel in self._reader.held_up(self._by_fd.values()):  # it is us who do not read them
            channel.frame_started_ns = now_ns if channel.frame_started_ns else 0
        for channel, reason in self._connections.overdue(now_ns, config.connections_max_idle_ms * 1_000_000, frame_ns):
            self._count(Counter.CONNECTIONS_IDLE if reason == "idle" else Counter.FRAMES_TIMED_OUT)
            peer = address_text(channel.address)
            self._ctx.log.info("connection_closed", peer, peer=peer, reason=reason)
            self._guard(channel, self._close, CloseReason.IDLE if reason == "idle" else CloseReason.FRAME_TIMEOUT)
        if self._reader.waits_for_room():
            self._close_stuck(now_ns, STUCK_ANSWER_NS)
        for channel, reason in self._slow_readers.overdue(self._by_fd.values(), now_ns):
            self._refuse(channel, Counter.ANSWERS_STUCK, "answer_not_taken", reason)
        self._close_excess(config)

    def _close_stuck(self, now_ns: int, patience_ns: int) -> None:
        """There is no room for the requests of others: let go of answers that a client has not begun to take, or gone
        on taking, for so long."""
        for channel in [each for each in self._by_fd.values() if each.out_count]:
            if now_ns - channel.last_active_ns > patience_ns:
                self._refuse(channel, Counter.ANSWERS_STUCK, "answer_not_taken", "the client does not read")

    def _close_excess(self, config: BrokerConfig) -> None:
        """More connections than max.connections on a listener without protection: close the one unused for longest."""
        if config.max_connections >= UNLIMITED or self._is_protected:
            return
        if sum(row.connections for row in self._rows) > config.max_connections:
            channel = self._connections.least_recently_used()
            if channel is not None:
                self._count(Counter.CONNECTIONS_EXCESS)
                self._close(channel, CloseReason.EXCESS)


def _is_quiet(channel: KafkaChannel) -> bool:
    """Whether nothing of a connection is under way: no request, no answer, no large frame; then it is its socket and
    the bytes that were received, and another processor can take it."""
    busy = channel.in_flight or channel.out_count or channel.large or channel.waits or channel.large_view is not None
    return not busy and channel.buffered() <= MAX_RECEIVED_BYTES


def attach_lane(ctx: ProcessContext) -> _native.TraceLane | None:
    """None when requests are not traced: for all of them, or for this processor, whose lane found no memory."""
    name = ctx.lanes[ctx.index] if ctx.lanes else ""
    return lane.attach(name, ctx.trace_bell_fd).native if name else None


def drain_eventfd(fd: int) -> None:
    """Reset an eventfd's count."""
    with contextlib.suppress(BlockingIOError):
        os.eventfd_read(fd)
