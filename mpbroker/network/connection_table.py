"""The connections of one processor: numbers, generations, and which of them are overdue; the processor alone writes it.

A connection number is used again after its connection closed; the generation beside it tells an answer for the old
connection from one for the new. Generations count all connections of a processor and go on in its successor, who
therefore never takes an answer meant for a connection of its predecessor.
"""

import socket
from typing import NamedTuple

from mpbroker.network.kafka_channel import KafkaChannel

MAX_GENERATION = 2**32 - 1
FAIR_PROGRESS_BYTES = 65536  # a frame that brings less within its timeout counts as standing still


class Overdue(NamedTuple):
    """A connection to close, and why."""

    channel: KafkaChannel
    reason: str


class ConnectionTable:
    """All open connections: `by_fd` and `by_number` hold the same channels."""

    def __init__(self) -> None:
        self.by_fd: dict[int, KafkaChannel] = {}
        self.by_number: list[KafkaChannel | None] = []
        self._free: list[int] = []

    def __len__(self) -> int:
        return len(self.by_fd)

    def add(self, connection: socket.socket, generation: int, address: bytes, now_ns: int) -> KafkaChannel:
        """Give a connection a free number. `generation`: no other connection of this processor ever had it."""
        if self._free:
            number = self._free.pop()
        else:
            number = len(self.by_number)
            self.by_number.append(None)
        channel = KafkaChannel(connection, number, generation & MAX_GENERATION, address, now_ns)
        self.by_number[number] = channel
        self.by_fd[channel.fd] = channel
        return channel

    def find(self, number: int, generation: int) -> KafkaChannel | None:
        """The open connection of that number and generation."""
        if number >= len(self.by_number):
            return None
        channel = self.by_number[number]
        return channel if channel is not None and channel.generation == generation else None

    def remove(self, channel: KafkaChannel) -> None:
        """Forget a connection that is being closed."""
        del self.by_fd[channel.fd]
        self.by_number[channel.number] = None
        self._free.append(channel.number)

    def overdue(self, now_ns: int, idle_ns: int, frame_ns: int) -> list[Overdue]:
        """Connections idle for too long, or whose request has begun and makes no progress. Looks at all of them."""
        found = []
        for channel in self.by_fd.values():
            if now_ns - channel.last_active_ns > idle_ns:
                found.append(Overdue(channel, "idle"))
            elif channel.frame_started_ns and now_ns - channel.frame_started_ns > frame_ns:
                seen = channel.progress_bytes()
                if seen - channel.frame_bytes_seen >= FAIR_PROGRESS_BYTES:
                    channel.frame_started_ns, channel.frame_bytes_seen = now_ns, seen
                else:
                    found.append(Overdue(channel, "frame-timeout"))
        return found

    def least_recently_used(self) -> KafkaChannel | None:
        """Whom to close when the broker has too many connections."""
        return min(self.by_fd.values(), key=lambda channel: channel.last_active_ns, default=None)
