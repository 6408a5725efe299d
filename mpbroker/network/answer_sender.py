"""Sends answers of one processor: gathers those of a pipelining client, keeps what the kernel does not take.

A send costs more than everything else a processor does for a small request. While it is busy, the answer to a connection
whose next request has arrived already is therefore held back and sent together with the following ones: at most 8 answers
and 4 turns long, and never while the processor sleeps. A client that waits for each answer is answered at once.
"""

from collections.abc import Callable
from time import monotonic_ns

from mpbroker.channel.processor_port import ProcessorPort
from mpbroker.network.kafka_channel import ConnectionLost, KafkaChannel

MAX_HELD_ANSWERS = 8
MAX_HELD_TURNS = 4
MAX_JOINED_BYTES = 65536


class AnswerSender:
    """`lost` is called for a connection that turns out to be gone while held answers are sent."""

    def __init__(self, port: ProcessorPort, lost: Callable[[KafkaChannel], None]) -> None:
        self._sent = port.sent
        self._lost = lost
        self._holding: list[KafkaChannel] = []
        self._turns = 0

    def answer(self, channel: KafkaChannel, entry: int, data: bytes | memoryview, hold: bool) -> bool:
        """Send or hold one answer. False: the kernel did not take it all, the connection waits. Raises ConnectionLost,
        the entry is then settled with the connection (`give_up`)."""
        if channel.out_view is None and not channel.out_entries:
            if hold:
                self._holding.append(channel)
            else:
                return self._send_alone(channel, entry, data)
        channel.out_entries.append(entry)
        channel.held.append(data)
        if channel.out_view is not None:
            return False
        if hold and len(channel.held) < MAX_HELD_ANSWERS:
            return True
        return self._send_held(channel)

    def end_turn(self, will_sleep: bool) -> None:
        """Send held answers if they waited for long enough, or if nothing else would."""
        if not self._holding:
            return
        self._turns += 1
        if not will_sleep and self._turns < MAX_HELD_TURNS:
            return
        self._turns = 0
        holding, self._holding = self._holding, []
        for channel in holding:
            if channel.held and channel.out_view is None and not channel.closed:
                try:
                    self._send_held(channel)
                except ConnectionLost:
                    self._lost(channel)

    def go_on(self, channel: KafkaChannel) -> bool:
        """The socket has room again. True when everything is sent. Raises ConnectionLost."""
        view = channel.out_view
        assert view is not None
        taken = channel.send(view)
        if taken < len(view):
            channel.out_view = view[taken:]
            if taken:
                channel.last_active_ns = monotonic_ns()
            return False
        channel.out_view = None
        self._settle(channel, channel.out_count)
        return not channel.held or self._send_held(channel)

    def give_up(self, channel: KafkaChannel) -> None:
        """The connection is being closed: send what is held if that works at once, settle every entry."""
        if channel.held and channel.out_view is None:
            try:
                self._send_held(channel)
            except ConnectionLost:
                pass
        channel.out_view = None
        channel.held.clear()
        for entry in channel.out_entries:
            self._sent(entry, channel.out_started_ns, True)
        channel.out_entries.clear()

    def _send_alone(self, channel: KafkaChannel, entry: int, data: bytes | memoryview) -> bool:
        started_ns = monotonic_ns()
        channel.out_started_ns = started_ns
        try:
            taken = channel.send(data)
        except ConnectionLost:
            channel.out_entries.append(entry)
            raise
        if taken == len(data):
            self._sent(entry, started_ns)
            return True
        channel.out_entries.append(entry)
        channel.out_view, channel.out_count = memoryview(data)[taken:], 1
        return False

    def _send_held(self, channel: KafkaChannel) -> bool:
        """Send all that is held, small answers as one piece."""
        channel.out_started_ns = monotonic_ns()
        while channel.held:
            data, count = _first_piece(channel.held)
            taken = channel.send(data)
            del channel.held[:count]
            if taken < len(data):
                channel.out_view, channel.out_count = memoryview(data)[taken:], count
                return False
            self._settle(channel, count)
        return True

    def _settle(self, channel: KafkaChannel, count: int) -> None:
        for entry in channel.out_entries[:count]:
            self._sent(entry, channel.out_started_ns)
        del channel.out_entries[:count]


def _first_piece(held: list[bytes | memoryview]) -> tuple[bytes | memoryview, int]:
    """What to send with one call: leading answers joined while they are small together; and how many those are."""
    size = count = 0
    for data in held:
        if count and size + len(data) > MAX_JOINED_BYTES:
            break
        size += len(data)
        count += 1
    return (held[0] if count == 1 else b"".join(held[:count])), count
