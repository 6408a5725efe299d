"""A native turn over real rings and socketpairs, without a processor: the test plays processor, handler and clients."""

from __future__ import annotations

import os
import select
import socket
import struct

from mpbroker import _native
from mpbroker.channel.handler_port import HandlerPort
from mpbroker.channel.processor_port import ProcessorPort
from mpbroker.network.kafka_channel import KafkaChannel
from mpbroker.shm import segment
from mpbroker.shm.counters import Counter
from mpbroker.shm.layout import MemoryPlan
from mpbroker.shm.process_table import ProcessRow

API = 3
MAX_BYTES = 100 * 1024 * 1024


class TurnSetting:
    """`connect` gives (channel, client socket); `claim` what the turn submitted; `events` what it leaves to Python."""

    def __init__(self, directory, eventfd=False, **plan):
        plan = {
            "entries_per_processor": 16,
            "data_requests": 16,
            "topics": 4,
            "partitions": 4,
            "producers": 4,
            "arena_processor_bytes": 4 << 20,
            "arena_handler_bytes": 8 << 20,
            "handlers": 1,
        } | plan
        self.memory = segment.create(MemoryPlan(**plan), str(directory), 1, ())
        self.row = ProcessRow(self.memory.core, 16)
        self.row.begin(os.getpid(), 2, 0, 0)
        ProcessRow(self.memory.core, 48).begin(os.getpid(), 3, 0, 255)
        self.eventfd = os.eventfd(0, os.EFD_NONBLOCK) if eventfd else -1
        self.port = ProcessorPort(self.memory.core, 0, self.eventfd)
        self.handler = HandlerPort(self.memory.core, 0)
        self.epoll = select.epoll()
        self.turn = _native.NetworkTurn(self.port, self.epoll.fileno(), 0, 0, MAX_BYTES, -1, {API: (0, 8), 18: (0, 3)})
        self.open = [self.epoll]
        if eventfd:
            self.epoll.register(self.eventfd, select.EPOLLIN)
        self._connections = 0

    def connect(self, send_buffer_bytes=None):
        near, far = socket.socketpair()
        near.setblocking(False)
        far.settimeout(5)
        if send_buffer_bytes:
            near.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_buffer_bytes)
        self.open += [near, far]
        channel = KafkaChannel(near, self._connections, 1, bytes(16), 1)
        self._connections += 1
        self.turn.add(channel)
        self.epoll.register(channel.fd, select.EPOLLIN | select.EPOLLOUT | select.EPOLLRDHUP | select.EPOLLET)
        return channel, far

    def read(self, may_read=True):
        """Look at the sockets, then take one frame of each connection; the events that gave."""
        self.turn.poll(0, 0, 0, 0, 0)
        self.turn.receive(may_read)
        return self.turn.events()

    def claim(self):
        while (request := self.handler.serve_or_claim(0)) is None:
            everything, ordinals = self.handler.take_dirty()
            if not everything and not ordinals:
                return None
        return request

    def claim_all(self):
        return list(iter(self.claim, None))

    def answer(self, request, body=b"done"):
        payload = struct.pack(">i", request.correlation_id) + body
        assert self.handler.answer(request, struct.pack(">i", len(payload)) + payload)

    def finished(self):
        """Requests settled so far, and the bytes of those that were sent whole."""
        return self.row.counter(Counter.REQUESTS_FINISHED), self.row.counter(Counter.BYTES_SENT)

    def close(self):
        for each in self.open:
            each.close()
        if self.eventfd >= 0:
            os.close(self.eventfd)
        self.memory.close()
