"""Requests of one processor on their way into shared memory: which connections to read, and what waits for room.

A connection is scheduled when it may have a frame; each turn takes one frame of each. A request that finds its plane full
is parked (one at most), one that finds no entry or no arena space waits with its frame: until they have room nothing else
is read, except for large frames that fill memory they already have. A large frame that finds no room to begin waits alone.
"""

from collections import deque
from collections.abc import Callable
from struct import Struct
from time import monotonic_ns
from typing import Any

from mpbroker.channel.processor_port import NO_ENTRY, NO_SPACE, PLANE_FULL, POISON, REFUSED, ProcessorPort
from mpbroker.network.kafka_channel import ConnectionLost, InvalidReceive, KafkaChannel
from mpbroker.network.mute_state import MuteEvent, MuteState, after_mute, next_state
from mpbroker.shm.counters import Counter

API_VERSIONS_KEY = 18
IN_FLIGHT = next_state(after_mute(MuteState.NOT_MUTED), MuteEvent.REQUEST_RECEIVED)

_NOT_MUTED = MuteState.NOT_MUTED
_unpack_api = Struct(">hh").unpack_from

Refuse = Callable[[KafkaChannel, Counter, str, object], None]


class RequestReader:
    """`close` closes a connection that is gone; `refuse` one that sent what nobody can answer (counter, event, reason).

    versions: api key → (oldest, newest) served; max_bytes: of one request; queued_bytes_limit: of all processors
    together, -1: none.
    """

    def __init__(self, port: ProcessorPort, plane: int, listener: int, config: Any, versions: dict[int, tuple[int, int]],
                 close: Callable[[KafkaChannel], None], refuse: Refuse) -> None:
        self._port = port
        self._plane = plane
        self._listener = listener
        self._versions = versions
        self._max_request_bytes = config.socket_request_max_bytes
        self.queued_bytes_limit = config.queued_max_request_bytes
        self._close = close
        self._refuse = refuse
        self._scheduled: list[KafkaChannel] = []  # connections that may have a frame, each once
        self._parked_entry = -1  # a request that waits because its plane is full
        self._refused: deque[KafkaChannel] = deque()  # hold a whole frame that found no entry or no arena space
        self._want_arena: deque[KafkaChannel] = deque()  # have the beginning of a large frame; hold up nobody else

    def has_work(self) -> bool:
        """Whether a scheduled connection may be read now: any, or one that fills memory it already has."""
        return bool(self._scheduled) and (
            self.may_read() or any(channel.large_view is not None for channel in self._scheduled))

    def waits_for_room(self) -> bool:
        """Whether a connection waits for an entry or for arena space."""
        return bool(self._refused or self._want_arena)

    def held_up(self) -> "deque[KafkaChannel]":
        """Connections that wait for room to begin a large frame."""
        return self._want_arena

    def may_read(self) -> bool:
        """Whether there is room for another request, as far as known."""
        return self._parked_entry < 0 and not self._refused

    def schedule(self, channel: KafkaChannel) -> None:
        """Look at a connection in this turn or the next."""
        if not channel.scheduled:
            channel.scheduled = True
            self._scheduled.append(channel)

    def process_receives(self) -> None:
        """At most one frame of each scheduled connection."""
        turn, self._scheduled = self._scheduled, []
        for channel in turn:
            if (self._parked_entry >= 0 or self._refused) and channel.large_view is None:
                self._scheduled.append(channel)  # no room for more: it stays as it is
                continue
            channel.scheduled = False
            if channel.closed or channel.mute_state is not _NOT_MUTED:
                continue
            try:
                self._read(channel)
            except ConnectionLost:
                self._close(channel)
            except InvalidReceive as error:
                self._refuse(channel, Counter.BAD_FRAMES, "invalid_frame", error)

    def _read(self, channel: KafkaChannel) -> None:
        if channel.large_view is not None:
            self._read_large(channel)
            return
        frame = channel.take_frame(self._max_request_bytes)
        if frame is None and channel.readable:
            channel.receive()
            frame = channel.take_frame(self._max_request_bytes)
        if frame is not None:
            channel.frame_started_ns = 0
            self._submit(channel, frame)
            return
        bytes_wanted = channel.wants_arena_bytes()
        if bytes_wanted:
            self._begin_large(channel, bytes_wanted)
        elif channel.readable:
            self.schedule(channel)
        if not channel.frame_started_ns and channel.buffered():
            channel.frame_started_ns, channel.frame_bytes_seen = monotonic_ns(), 0

    def _submit(self, channel: KafkaChannel, frame: bytes) -> None:
        """Give a small frame to the handlers, if its API and version are served."""
        key, version = _unpack_api(frame)
        if not self._serves(key, version):
            self._refuse(channel, Counter.REQUESTS_UNSUPPORTED, "unsupported_request", f"api key {key} version {version}")
            return
        if self.queued_bytes_limit > 0 and self._port.queued_bytes() >= self.queued_bytes_limit:
            self._not_submitted(channel, NO_SPACE, frame)
            return
        now_ns = monotonic_ns()
        t0_ns, channel.first_ns = channel.first_ns, channel.later_ns
        entry = self._port.submit(self._plane, channel.number, channel.generation, self._listener, frame,
                                  t0_ns, now_ns)
        if entry >= 0:
            channel.last_active_ns = now_ns
            channel.mute_state = IN_FLIGHT
        else:
            self._not_submitted(channel, entry, frame)

    def _serves(self, key: int, version: int) -> bool:
        """ApiVersions of any version is answered, so that a client newer than us can find out what we know."""
        served = self._versions.get(key)
        return served is not None and (served[0] <= version <= served[1] or key == API_VERSIONS_KEY)

    def _not_submitted(self, channel: KafkaChannel, code: int, frame: bytes | None) -> None:
        """No room: the request waits here and nothing more is read. A frame that killed a worker: close."""
        if code == PLANE_FULL:
            channel.mute_state = IN_FLIGHT
            self._parked_entry = self._port.parked_entry
        elif code in (NO_ENTRY, NO_SPACE):
            channel.refused_frame = frame
            self._refused.append(channel)
        else:
            self._refuse(channel, Counter.POISON_REQUESTS, "frame_refused", "it killed the worker that handled it")

    def retry_parked(self) -> None:
        """Try again to queue the parked request, if there is one."""
        if self._parked_entry >= 0 and self._port.retry(self._parked_entry) != PLANE_FULL:
            self._parked_entry = -1

    def admit_waiting(self) -> None:
        """Entries or arena space may be back: submit whole frames in their order, then begin large ones in theirs."""
        self._admit(self._refused)
        if not self._refused:
            self._admit(self._want_arena)

    def _admit(self, waiting: deque[KafkaChannel]) -> None:
        for _ in range(len(waiting)):
            if self._parked_entry >= 0:
                return
            channel = waiting.popleft()
            if channel.closed:
                continue
            left = len(waiting)
            try:
                self._admit_one(channel)
            except ConnectionLost:
                self._close(channel)
            if len(waiting) > left:
                waiting.rotate(1)  # still no room: it keeps its place
                return

    def _admit_one(self, channel: KafkaChannel) -> None:
        frame, channel.refused_frame = channel.refused_frame, None
        if frame is not None:
            self._submit(channel, frame)
        elif channel.large_view is not None:
            self._submit_large(channel)
        else:
            self._begin_large(channel, channel.wants_arena_bytes())

    def _begin_large(self, channel: KafkaChannel, length: int) -> None:
        if self.queued_bytes_limit > 0 and self._port.queued_bytes() >= self.queued_bytes_limit:
            self._want_arena.append(channel)
            return
        reserved = self._port.reserve(length)
        if reserved is None:
            self._want_arena.append(channel)
            return
        channel.begin_large(*reserved)
        channel.frame_started_ns, channel.frame_bytes_seen = monotonic_ns(), 0
        self._read_large(channel)

    def _read_large(self, channel: KafkaChannel) -> None:
        if channel.receive_large():
            self._submit_large(channel)
        elif channel.readable:
            self.schedule(channel)

    def _submit_large(self, channel: KafkaChannel) -> None:
        """Give a frame that lies whole in the arena to the handlers; without a free entry it waits there."""
        view = channel.large_view
        assert view is not None
        key, version = _unpack_api(view)
        if not self._serves(key, version):
            self._refuse(channel, Counter.REQUESTS_UNSUPPORTED, "unsupported_request", f"api key {key} version {version}")
            return
        if self._parked_entry >= 0:
            self._refused.append(channel)
            return
        now_ns = monotonic_ns()
        entry = self._port.submit_reserved(self._plane, channel.number, channel.generation, self._listener,
                                           channel.large_offset, len(view), channel.first_ns, now_ns)
        if entry == NO_ENTRY:
            self._refused.append(channel)
            return
        if entry not in (REFUSED, POISON):
            channel.end_large()  # the bytes belong to the entry now
        channel.frame_started_ns = 0
        channel.last_active_ns = channel.first_ns = channel.later_ns = now_ns
        if entry >= 0:
            channel.mute_state = IN_FLIGHT
        else:
            self._not_submitted(channel, entry, None)
