"""One listener in the acceptor process: takes its connections and hands them to its processors.

It alone writes its ConnectionQuotas and the windows of its processors. Limits, pauses and full processors of one
listener are its own affair: the others go on accepting.
"""

import contextlib
import errno
import os
import select
import socket
import time
from collections import deque
from collections.abc import Collection

from mpbroker import _native
from mpbroker.config.broker_config import BrokerConfig
from mpbroker.network.connection_quotas import UNLIMITED, ConnectionQuotas, Limits, Verdict
from mpbroker.network.fd_passing import accept_stamp, address_bytes, address_text
from mpbroker.network.handover import MAX_REFUSALS, Accepted, Handover
from mpbroker.shm.counters import Counter
from mpbroker.shm.layout import SLOT_PROCESSORS
from mpbroker.shm.process_context import BoundListener, ProcessContext
from mpbroker.shm.process_table import ProcessRow, ProcessState

MAX_ACCEPTS_PER_TURN = 64
MAX_PENDING = 256
"""Sockets on their way, above which no processor is listened to that passes its own back."""
ACCEPT_PAUSE_MS = 10
"""After an error of accept: out of descriptors, mostly, and others may close some meanwhile."""


class ListenerAcceptor:
    """What the acceptor does for one listener. `hear`, then `serve`, in each turn; neither waits."""

    def __init__(
        self, ctx: ProcessContext, listener: BoundListener, listening: socket.socket, epoll: select.epoll
    ) -> None:
        self.listener = listener
        self._ctx = ctx
        self._rows = [ProcessRow(ctx.core, SLOT_PROCESSORS + p) for p in range(len(ctx.eventfds))]
        self._count = ctx.process_row.count
        self._socket = listening
        if ctx.lanes:
            stamp_arrivals(listening)
        self._quotas = ConnectionQuotas(limits_of(ctx.config, listener.name))
        self._handovers: list[Handover] = []
        self._next = 0
        self._pending: deque[Accepted] = deque()
        self._listening = False
        self._paused_until_ms = 0
        self._blocked_since_ns = 0
        self._epoll = epoll
        self.take_processors()

    @property
    def is_control(self) -> bool:
        """Whether it is the control plane's."""
        return self.listener.control

    @property
    def awaits_others(self) -> bool:
        """Whether it waits for a successor, a free slot or an acknowledgement: a death of a processor rings no bell."""
        return bool(
            self._pending or not self._listening or any(handover.unacknowledged() for handover in self._handovers)
        )

    def hear(self, ready: Collection[int]) -> None:
        """What processors have said, those of `ready` descriptors, and whether they live. What they pass back is read
        only as fast as it is passed on."""
        for handover in self._handovers:
            if handover.channel.fileno() in ready:
                self._read(handover)
            if self._rows[handover.processor].state == ProcessState.STOPPING:
                lost = handover.leaves(self._quotas)
            else:
                lost = handover.follow(self._living(handover.processor), self._quotas)
            self._pending.extendleft(reversed(lost))

    def serve(self) -> None:
        """Hand over what is here, and take new connections, at most MAX_ACCEPTS_PER_TURN."""
        self._dispatch()
        if self._may_accept():
            self._accept()
            self._dispatch()
        self._listen_if(self._may_accept())

    def use_config(self, config: BrokerConfig) -> None:
        """From now on."""
        self._quotas.limits = limits_of(config, self.listener.name)
        self.take_processors()

    def take_processors(self) -> None:
        """Those that came since; those that left stay known, for what they may still pass back."""
        known = {handover.processor for handover in self._handovers}
        for processor in self._ctx.processors.get(self.listener.index, ()):
            if processor not in known:
                handover = Handover(self._ctx.handovers[processor], processor, self._ctx.incarnation)
                self._handovers.append(handover)
                self._epoll.register(handover.channel, select.EPOLLIN)

    def close(self) -> None:
        """Close what no processor has acknowledged; the clients see a closed connection. Listen no more."""
        for handover in self._handovers:
            self._pending.extend(handover.read_answers(self._quotas).returned)
            handover.close_window()
            self._epoll.unregister(handover.channel)
        for accepted in self._pending:
            os.close(accepted.fd)
        self._pending.clear()
        self._handovers.clear()
        self._listen_if(False)
        self._socket.close()

    def _read(self, handover: Handover) -> None:
        if len(self._pending) < MAX_PENDING:
            answers = handover.read_answers(self._quotas)
            self._pending.extendleft(self._refused(answers.refused))
            self._pending.extend(answers.returned)
            if answers.unexpected:
                self._count(Counter.HANDOVER_UNEXPECTED, answers.unexpected)

    def _living(self, processor: int) -> int:
        """Incarnation of a processor that runs or soon will, 0 when it is dead or stopping."""
        row = self._rows[processor]
        incarnation = row.incarnation
        alive = (ProcessState.STARTING, ProcessState.RECOVERING, ProcessState.RUNNING)
        return incarnation if row.state in alive else 0

    def _may_accept(self) -> bool:
        if self._pending or time.monotonic() * 1000 < self._paused_until_ms:
            return False
        if not any(handover.room() for handover in self._handovers):
            return False
        return self._quotas.may_accept(*self._connection_counts())

    def _connection_counts(self) -> tuple[int, int]:
        """Connections of this listener and of the broker, those under way to a processor included."""
        own = [handover.processor for handover in self._handovers]
        counts = [row.connections for row in self._rows]
        under_way = len(self._pending) + sum(handover.unacknowledged() for handover in self._handovers)
        return sum(counts[p] for p in own) + under_way, sum(counts) + under_way

    def _accept(self) -> None:
        room = sum(handover.room() for handover in self._handovers)
        listener_count, broker_count = self._connection_counts()
        for taken in range(min(room, MAX_ACCEPTS_PER_TURN)):
            now_ms = int(time.monotonic() * 1000)
            delay_ms = self._quotas.rate_delay_ms(now_ms)
            if delay_ms:
                self._paused_until_ms = now_ms + delay_ms
                self._count(Counter.ACCEPT_THROTTLED)
                return
            if not self._quotas.may_accept(listener_count + taken, broker_count + taken):
                return
            try:
                connection, address = self._socket.accept()
            except BlockingIOError:
                return
            except OSError as error:  # the peer gave up, or we are out of descriptors
                self._on_accept_error(error, now_ms)
                return
            self._admit(connection, address, now_ms)

    def _on_accept_error(self, error: OSError, now_ms: int) -> None:
        self._paused_until_ms = now_ms + ACCEPT_PAUSE_MS
        if error.errno != errno.EINVAL:  # that is a listener which was removed, of which we are about to hear
            self._ctx.log.warning("accept_failed", self.listener.name, listener=self.listener.name, error=error)

    def _admit(self, connection: socket.socket, address: tuple[str, int], now_ms: int) -> None:
        peer = address_bytes(address[0])
        if self._quotas.admit(peer, now_ms) is Verdict.CLOSE:
            self._count(Counter.CONNECTIONS_REFUSED_PER_IP)
            self._ctx.log.warning(
                "too_many_connections_from_address", address[0], listener=self.listener.name, peer=address[0]
            )
            connection.close()
            return
        self._count(Counter.CONNECTIONS_ACCEPTED)
        connection.setblocking(False)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if self._ctx.config.socket_send_buffer_bytes != -1:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, self._ctx.config.socket_send_buffer_bytes)
        self._pending.append(Accepted(connection.detach(), peer, address[1], accept_stamp(time.monotonic_ns())))

    def _dispatch(self) -> None:
        """Round robin, one socket to each processor in turn, sent as one message each."""
        groups: dict[int, list[Accepted]] = {}
        rooms = [handover.room() for handover in self._handovers]
        while self._pending and any(rooms):
            while not rooms[self._next]:
                self._next = (self._next + 1) % len(rooms)
            groups.setdefault(self._next, []).append(self._pending.popleft())
            rooms[self._next] -= 1
            self._next = (self._next + 1) % len(rooms)
        for position, group in groups.items():
            fresh = [accepted for accepted in group if not accepted.received]
            for part in ([fresh] if fresh else []) + [[accepted] for accepted in group if accepted.received]:
                if not self._handovers[position].send(part):
                    self._pending.extendleft(reversed(part))

    def _refused(self, refused: list[Accepted]) -> list[Accepted]:
        """Sockets to try again with the next processor; one that was refused too often is closed."""
        again = []
        for accepted in refused:
            self._count(Counter.HANDOVER_REFUSED)
            accepted.refusals += 1
            if accepted.refusals < MAX_REFUSALS:
                again.append(accepted)
                continue
            peer = address_text(accepted.address)
            self._ctx.log.error(
                "connection_refused_by_processors",
                peer,
                listener=self.listener.name,
                peer=peer,
                reason="descriptor tables full",
            )
            os.close(accepted.fd)
            self._quotas.dropped(accepted.address)
        return again

    def _listen_if(self, wanted: bool) -> None:
        """Wait for new connections only while they could be taken; the time without is counted as blocked."""
        if wanted == self._listening:
            return
        self._listening = wanted
        if wanted:
            self._epoll.register(self._socket, select.EPOLLIN)
            if self._blocked_since_ns:
                self._count(Counter.ACCEPTOR_BLOCKED_US, (time.monotonic_ns() - self._blocked_since_ns) // 1000)
        else:
            self._epoll.unregister(self._socket)
            self._blocked_since_ns = time.monotonic_ns()


def limits_of(config: BrokerConfig, listener: str) -> Limits:
    """The limits of a configuration for one listener."""
    listeners = config.end_points.all
    own = f"listener.name.{listener.lower()}."
    return Limits(
        per_ip=config.max_connections_per_ip,
        per_ip_overrides=_overrides(config.connection_overrides),
        listener=_own(config, own + "max.connections"),
        broker=config.max_connections,
        listener_rate=_own(config, own + "max.connection.creation.rate"),
        broker_rate=config.max_connection_creation_rate,
        window_s=config.quota_window_num * config.quota_window_size_seconds,
        protected=len(listeners) > 1 and config.end_points.inter_broker == listener,
    )


def _own(config: BrokerConfig, name: str) -> int:
    try:
        return int(config.value(name))
    except KeyError:
        return UNLIMITED


def _overrides(given: dict[str, int]) -> dict[bytes, int]:
    """Overrides by address; a host name stands for all its addresses, one that cannot be resolved for none."""
    found = {}
    for host, count in given.items():
        try:
            entries = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
        except OSError:
            continue
        for entry in entries:
            found[address_bytes(str(entry[4][0]))] = count
    return found


def stamp_arrivals(listening: socket.socket) -> None:
    """Let the kernel note when bytes arrive, for `rx_wait` of trace records. Accepted sockets inherit it, so that even
    a request which is there before its processor knows the connection has its stamp. A platform without it: no
    rx_wait."""
    with contextlib.suppress(OSError):
        listening.setsockopt(socket.SOL_SOCKET, _native.SO_TIMESTAMPNS, 1)
