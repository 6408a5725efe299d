"""Requests that have to wait for room, and large ones. One reader per processor process, which alone uses it.

Most requests are read and queued by the native turn (native/network/network_turn.h). Three kinds come here. A request
whose plane is full is parked in its entry. A frame that finds no entry or no arena space waits where it is. While there
is one of either, nothing else is read. A large frame is received straight into the arena; if there is no space yet for
its beginning, it waits alone.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from time import monotonic_ns

from mpbroker._native import NetworkTurn
from mpbroker.channel.processor_port import PLANE_FULL, ProcessorPort
from mpbroker.network.kafka_channel import KafkaChannel

Guard = Callable[..., None]


class RequestReader:
    """Where requests wait for room. All calls come from the processor that owns the connections.

    native_turn: reads everything else; guard(channel, act, *arguments): calls act(channel, *arguments), and closes the
    connection if that raises; take_events: works off what the native turn reports.
    """

    def __init__(
        self,
        port: ProcessorPort,
        native_turn: NetworkTurn[KafkaChannel],
        plane: int,
        listener: int,
        guard: Guard,
        take_events: Callable[[], None],
    ) -> None:
        self._port = port
        self._native_turn = native_turn
        self._plane = plane
        self._listener = listener
        self._guard = guard
        self._take_events = take_events
        self._parked: deque[int] = deque()  # entries that wait because their plane is full; nearly always one at most
        self._without_room: deque[KafkaChannel] = deque()  # hold a whole frame that found no entry or no arena space
        self._want_arena: deque[KafkaChannel] = deque()  # have the beginning of a large frame; hold up nobody else

    def waits_for_room(self) -> bool:
        """Whether a connection waits for an entry or for arena space."""
        return bool(self._without_room or self._want_arena)

    def held_up(self, channels: Iterable[KafkaChannel]) -> list[KafkaChannel]:
        """Those of the connections that are not read because there is no room; a large frame that has its memory is
        read on, and must not stand still in it."""
        if self.may_read():
            return list(self._want_arena)
        return [channel for channel in channels if channel.waits or not channel.large]

    def may_read(self) -> bool:
        """Whether there is room for another request, as far as known."""
        return not self._parked and not self._without_room

    def park(self, entry: int) -> None:
        """A request found its plane full. A second one can: of a large frame, in the turn of a small one."""
        self._parked.append(entry)

    def wait_for_room(self, channel: KafkaChannel) -> None:
        """A whole frame, in the connection's buffer or in the arena, found no entry or no arena space."""
        channel.waits = True
        self._without_room.append(channel)

    def retry_parked(self) -> None:
        """Try again to queue what is parked, oldest first."""
        while self._parked and self._port.retry(self._parked[0]) != PLANE_FULL:
            self._parked.popleft()

    def admit_waiting(self) -> None:
        """Entries or arena space may be back: submit whole frames in their order, then begin large ones in theirs. For
        each that does not succeed the native turn has an event, which puts it in its place again."""
        self._admit(self._without_room)
        if not self._without_room:
            self._admit(self._want_arena)

    def _admit(self, waiting: deque[KafkaChannel]) -> None:
        for _ in range(len(waiting)):
            if self._parked:
                return
            channel = waiting.popleft()
            if channel.closed:
                continue
            left = len(waiting)
            self._guard(channel, self._admit_one)
            if len(waiting) > left:
                waiting.rotate(1)  # still no room: it keeps its place
                return

    def _admit_one(self, channel: KafkaChannel) -> None:
        channel.waits = False
        if channel.large_view is not None:
            self._submit_large(channel)
        elif wanted_bytes := channel.wants_arena_bytes():
            self._begin_large(channel, wanted_bytes)
        elif not self._native_turn.submit(channel):
            self._take_events()

    def read_large(self, channel: KafkaChannel, wanted_bytes: int) -> None:
        """A large frame makes progress: it has enough bytes to get arena space, or has that and may read on. Raises
        ConnectionLost."""
        if wanted_bytes:
            self._begin_large(channel, wanted_bytes)
        else:
            self._read_large(channel)

    def _begin_large(self, channel: KafkaChannel, length: int) -> None:
        reserved = None if self._native_turn.over_limit() else self._port.reserve(length)
        if reserved is None:
            channel.waits = True
            self._want_arena.append(channel)
            return
        channel.begin_large(*reserved)
        channel.frame_started_ns, channel.frame_bytes_seen = monotonic_ns(), 0
        self._read_large(channel)

    def _read_large(self, channel: KafkaChannel) -> None:
        if channel.receive_large():
            self._submit_large(channel)
        elif channel.readable:
            self._native_turn.schedule(channel)

    def _submit_large(self, channel: KafkaChannel) -> None:
        """Give a frame that lies whole in the arena to the handlers; without a free entry it waits there."""
        view, turn = channel.large_view, self._native_turn
        assert view is not None
        if self._parked:
            self.wait_for_room(channel)
        elif turn.serves(channel, view):
            now_ns = monotonic_ns()
            entry = self._port.submit_reserved(
                self._plane,
                channel.number,
                channel.generation,
                self._listener,
                channel.large_offset,
                len(view),
                channel.first_ns if turn.traced else 0,
                now_ns,
                arrival_ns=channel.first_arrival_ns,
                inflight=channel.out_count,
            )
            if turn.submitted(channel, view, entry, now_ns):
                channel.end_large()  # the bytes belong to the entry now
        self._take_events()
