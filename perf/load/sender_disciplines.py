"""Ways to send control requests to many brokers, behind one interface; the broker has one of them (OneLoop). For
measurements alone.

    Serial            one broker after the other, waiting for each answer: how a loop without a thread would do it
    OneLoop           all connections in one loop, one request in flight each: mpbroker/controller/control_sender.py
    ThreadPerBroker   a queue and a thread for each broker: Kafka's RequestSendThread
    ProcessPerBroker  a queue (a pipe) and a process for each broker

`offer` is called with a change that everybody has to hear of; every sender keeps a queue for each broker.
"""

from __future__ import annotations

import multiprocessing
import os
import queue
import select
import socket
import threading
import time
from collections import deque
from multiprocessing.connection import Connection
from typing import NamedTuple, Protocol

from mpbroker.client.broker_channel import BrokerChannel
from mpbroker.protocol.messages.update_metadata import UpdateMetadataRequest
from mpbroker.shm.clock import SystemClock

TIMEOUT_MS = 30_000
IDLE_MS = 200


class Confirmed(NamedTuple):
    """A broker has answered a change."""

    broker: int
    change: int
    at_s: float


class Sender(Protocol):
    """`ports`: of the brokers. What was confirmed is appended to `confirmed`, in its order for each broker."""

    confirmed: list[Confirmed]

    def offer(self, change: int, request: UpdateMetadataRequest) -> None:
        """Everybody has to hear of it."""

    def pids(self) -> list[int]:
        """Processes of its own, besides the one that offers."""

    def close(self) -> None:
        """No more."""


def ask(connected: socket.socket, request: UpdateMetadataRequest) -> None:
    """One request and its answer, waiting."""
    from mpbroker.protocol.headers import encode_request_frame

    connected.sendall(encode_request_frame(request, 8, 1, "sender"))
    head = connected.recv(4, socket.MSG_WAITALL)
    connected.recv(int.from_bytes(head, "big"), socket.MSG_WAITALL)


def connect(port: int) -> socket.socket:
    """To a receiver."""
    connected = socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT_MS / 1000)
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connected


class Serial:
    """In a thread of its own, so that whoever offers goes on."""

    def __init__(self, ports: list[int]) -> None:
        self.confirmed: list[Confirmed] = []
        self._sockets = [connect(port) for port in ports]
        self._changes: queue.SimpleQueue[tuple[int, UpdateMetadataRequest] | None] = queue.SimpleQueue()
        threading.Thread(target=self._run, daemon=True).start()

    def offer(self, change: int, request: UpdateMetadataRequest) -> None:
        self._changes.put((change, request))

    def _run(self) -> None:
        while (item := self._changes.get()) is not None:
            for broker, connected in enumerate(self._sockets):
                ask(connected, item[1])
                self.confirmed.append(Confirmed(broker, item[0], time.monotonic()))

    def pids(self) -> list[int]:
        return []

    def close(self) -> None:
        self._changes.put(None)


class OneLoop:
    """The broker's own connections (BrokerChannel) in one loop."""

    def __init__(self, ports: list[int]) -> None:
        self.confirmed: list[Confirmed] = []
        self._clock = SystemClock()
        self._channels = [BrokerChannel("127.0.0.1", port, "sender") for port in ports]
        self._waiting: list[deque[tuple[int, UpdateMetadataRequest]]] = [deque() for _ in ports]
        self._flying: list[int | None] = [None] * len(ports)
        self._bell = os.eventfd(0, os.EFD_NONBLOCK)
        self._changes: queue.SimpleQueue[tuple[int, UpdateMetadataRequest]] = queue.SimpleQueue()
        self._going = True
        threading.Thread(target=self._run, daemon=True).start()

    def offer(self, change: int, request: UpdateMetadataRequest) -> None:
        self._changes.put((change, request))
        os.eventfd_write(self._bell, 1)

    def _run(self) -> None:
        while self._going:
            poll = select.poll()
            poll.register(self._bell, select.POLLIN)
            for channel in self._channels:
                if channel.fileno() >= 0:
                    poll.register(channel.fileno(), channel.events())
            for descriptor, _ in poll.poll(IDLE_MS):
                if descriptor == self._bell:
                    os.eventfd_read(self._bell)
            while not self._changes.empty():
                item = self._changes.get()
                for waiting in self._waiting:
                    waiting.append(item)
            self._turn(self._clock.monotonic_ms())

    def _turn(self, now_ms: int) -> None:
        for broker, channel in enumerate(self._channels):
            change = self._flying[broker]
            if change is not None and (outcome := channel.turn(now_ms)) is not None:
                assert outcome.response is not None, outcome.problem
                self.confirmed.append(Confirmed(broker, change, time.monotonic()))
                self._flying[broker] = None
            if self._flying[broker] is None and self._waiting[broker]:
                self._flying[broker], request = self._waiting[broker].popleft()
                channel.send(request, now_ms)

    def pids(self) -> list[int]:
        return []

    def close(self) -> None:
        self._going = False
        os.eventfd_write(self._bell, 1)


class ThreadPerBroker:
    """As Kafka has it."""

    def __init__(self, ports: list[int]) -> None:
        self.confirmed: list[Confirmed] = []
        self._queues: list[queue.SimpleQueue[tuple[int, UpdateMetadataRequest] | None]] = []
        for broker, port in enumerate(ports):
            mine: queue.SimpleQueue[tuple[int, UpdateMetadataRequest] | None] = queue.SimpleQueue()
            self._queues.append(mine)
            threading.Thread(target=self._run, args=(broker, connect(port), mine), daemon=True).start()

    def offer(self, change: int, request: UpdateMetadataRequest) -> None:
        for mine in self._queues:
            mine.put((change, request))

    def _run(self, broker: int, connected: socket.socket, mine: queue.SimpleQueue[object]) -> None:
        while isinstance(item := mine.get(), tuple):
            ask(connected, item[1])
            self.confirmed.append(Confirmed(broker, item[0], time.monotonic()))

    def pids(self) -> list[int]:
        return []

    def close(self) -> None:
        for mine in self._queues:
            mine.put(None)


def _send_for_one(broker: int, port: int, incoming: Connection, outgoing: Connection) -> None:
    connected = connect(port)
    while (item := incoming.recv()) is not None:
        ask(connected, item[1])
        outgoing.send((broker, item[0], time.monotonic()))


class ProcessPerBroker:
    """Forked; changes go through a pipe to each, by way of a thread each, for a full pipe would hold up the others."""

    def __init__(self, ports: list[int]) -> None:
        self.confirmed: list[Confirmed] = []
        context = multiprocessing.get_context("fork")
        reading, self._telling = context.Pipe(duplex=False)
        self._pipes, self._processes = [], []
        for broker, port in enumerate(ports):
            theirs, mine = context.Pipe(duplex=False)
            process = context.Process(target=_send_for_one, args=(broker, port, theirs, self._telling), daemon=True)
            process.start()
            self._processes.append(process)
            self._pipes.append(mine)
        self._queues: list[queue.SimpleQueue[object]] = [queue.SimpleQueue() for _ in ports]
        for mine, pipe in zip(self._queues, self._pipes, strict=True):
            threading.Thread(target=self._feed, args=(mine, pipe), daemon=True).start()
        threading.Thread(target=self._collect, args=(reading,), daemon=True).start()

    def offer(self, change: int, request: UpdateMetadataRequest) -> None:
        for mine in self._queues:
            mine.put((change, request))

    def _feed(self, mine: queue.SimpleQueue[object], pipe: Connection) -> None:
        while (item := mine.get()) is not None:
            pipe.send(item)
        pipe.send(None)

    def _collect(self, reading: Connection) -> None:
        while True:
            self.confirmed.append(Confirmed(*reading.recv()))

    def pids(self) -> list[int]:
        return [process.pid or 0 for process in self._processes]

    def close(self) -> None:
        for process in self._processes:
            process.kill()
        for process in self._processes:
            process.join()


DISCIPLINES = {
    "serial": Serial,
    "one loop": OneLoop,
    "thread per broker": ThreadPerBroker,
    "process per broker": ProcessPerBroker,
}
