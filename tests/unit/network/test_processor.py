"""A processor stepped turn by turn, with real rings, real sockets, and a handler that the test plays."""

import contextlib
import os
import socket
import struct
import time

import pytest

from mpbroker.channel.handler_port import HandlerPort
from mpbroker.config.load_config import load_broker_config
from mpbroker.network.fd_passing import HANDOVER, HELLO, Message, Peer, address_bytes, handover_pair, send_message
from mpbroker.network.processor import Processor
from mpbroker.shm import segment
from mpbroker.shm.layout import MemoryPlan
from mpbroker.shm.process_context import BoundListener, ProcessContext
from mpbroker.shm.process_table import ProcessRow
from tests.harness.raw_client import frame, is_closed

pytestmark = pytest.mark.timeout(30)

LOCAL = address_bytes("127.0.0.1")
API = 3


class NotedLog:
    def __init__(self):
        self.lines = []

    def _line(self, event, about=None, **fields):
        self.lines.append((event, fields))

    def tick(self):
        """Nothing is held back here."""

    info = warning = error = _line

    def exception(self, event, exception, about=None, **fields):
        self._line(event, exception=exception, **fields)


class Setting:
    """One processor, one handler, socketpairs as connections."""

    def __init__(self, tmp_path, *overrides, control=False, **plan):
        plan = {
            "entries_per_processor": 8,
            "data_requests": 4,
            "topics": 4,
            "partitions": 4,
            "producers": 4,
            "arena_processor_bytes": 4 << 20,
            "arena_handler_bytes": 4 << 20,
            "handlers": 1,
        } | plan
        self.eventfd = os.eventfd(0, os.EFD_NONBLOCK)
        self.memory = segment.create(MemoryPlan(**plan), str(tmp_path), 1, (self.eventfd,))
        self.row = ProcessRow(self.memory.core, 16)
        self.row.begin(os.getpid(), 2, 0, 0)
        ProcessRow(self.memory.core, 48).begin(os.getpid(), 3, 0, 255)
        self.pair = handover_pair()
        self.wakeup, self._wakeup_write = os.pipe2(os.O_NONBLOCK)
        self.log = NotedLog()
        listener = BoundListener(0, "PLAINTEXT", "PLAINTEXT", "127.0.0.1", 1, "127.0.0.1", 1, control)
        self.ctx = ProcessContext(
            core=self.memory.core,
            config=load_broker_config(overrides=overrides, environ={}, cores=2),
            role="processor",
            slot=16,
            process_row=self.row,
            incarnation=1,
            listeners=(listener,),
            listener=0,
            eventfds=(self.eventfd,),
            handovers={0: self.pair[1]},
            log=self.log,
            api_versions={API: (0, 8), 18: (0, 3)},
        )
        self.ctx.wakeup_fd = self.wakeup
        self.processor = Processor(self.ctx)
        self.processor.recover()
        self.handler = HandlerPort(self.memory.core, 0)
        self.clients = []
        send_message(self.pair[0], Message(HELLO, 1, 1, 0))

    def connect(self):
        client, server = socket.socketpair()
        client.settimeout(5)
        server.setblocking(False)  # as the acceptor does
        self.clients.append(client)
        assert send_message(
            self.pair[0], Message(HANDOVER, 1, 1, len(self.clients), (Peer(LOCAL, 1),), (server.fileno(),))
        )
        server.close()
        self.turns()
        return client

    def turns(self, count=4):
        for _ in range(count):
            self.processor.turn(0)

    def claim(self):
        while (request := self.handler.serve_or_claim(0)) is None:
            everything, ordinals = self.handler.take_dirty()
            if not everything and not ordinals:
                return None
        return request

    def answer(self, request, body=b"done"):
        payload = struct.pack(">i", request.correlation_id) + body
        assert self.handler.answer(request, struct.pack(">i", len(payload)) + payload)

    def counter(self, name):
        from mpbroker.shm.counters import counter_id

        return self.row.counter(counter_id(name))

    def close(self):
        self.processor.drain(0)
        for each in (*self.clients, *self.pair):
            each.close()
        for descriptor in (self.eventfd, self.wakeup, self._wakeup_write):
            os.close(descriptor)
        self.memory.close()


@pytest.fixture
def make(tmp_path):
    made = []

    def build(*overrides, **options):
        made.append(Setting(tmp_path, *overrides, **options))
        return made[-1]

    yield build
    for each in made:
        each.close()


def _receive(client):
    (length,) = struct.unpack(">i", client.recv(4, socket.MSG_WAITALL))
    body = client.recv(length, socket.MSG_WAITALL)
    return struct.unpack_from(">i", body)[0], body[4:]


def test_a_request_goes_to_the_handler_and_its_answer_back(make):
    setting = make()
    client = setting.connect()
    client.send(frame(API, 5, 42, b"the body", b"me"))
    setting.turns()
    request = setting.claim()
    assert (request.api_key, request.api_version, request.correlation_id, request.plane) == (API, 5, 42, 0)
    assert bytes(request.payload).endswith(b"the body")
    setting.answer(request)
    setting.turns()
    assert _receive(client) == (42, b"done")
    assert setting.counter("requests_finished") == 1 and setting.row.connections == 1


def test_what_comes_on_the_control_listener_is_control_traffic(make):
    setting = make(control=True)
    setting.connect().send(frame(API, 5, 1))
    setting.turns()
    assert setting.claim().plane == 1


def test_one_request_of_a_connection_is_in_flight(make):
    setting = make()
    client = setting.connect()
    client.send(b"".join(frame(API, 5, n) for n in range(3)))
    for n in range(3):
        setting.turns()
        request = setting.claim()
        assert request.correlation_id == n and setting.claim() is None
        setting.answer(request, b"%d" % n)
    setting.turns(10)
    assert [_receive(client) for _ in range(3)] == [(n, b"%d" % n) for n in range(3)]


def test_acks_0_goes_on_without_an_answer(make):
    setting = make()
    client = setting.connect()
    client.send(frame(API, 5, 1) + frame(API, 5, 2))
    setting.turns()
    setting.handler.answer_none(setting.claim())
    setting.turns()
    request = setting.claim()
    assert request.correlation_id == 2
    setting.answer(request)
    setting.turns()
    assert _receive(client)[0] == 2


def test_a_handler_can_close_with_and_without_an_answer(make):
    setting = make()
    for last_words in (b"", struct.pack(">ii", 6, 7) + b"xy"):
        client = setting.connect()
        client.send(frame(API, 5, 7))
        setting.turns()
        setting.handler.answer_close(setting.claim(), -1, last_words)
        setting.turns()
        if last_words:
            assert _receive(client) == (7, b"xy")
        assert is_closed(client)
    assert setting.row.connections == 0


def test_a_full_plane_parks_one_request_and_stops_reading_and_answers_go_on(make):
    setting = make()
    clients = [setting.connect() for _ in range(7)]
    for n, client in enumerate(clients):
        client.send(frame(API, 5, n))
        setting.turns()
    assert setting.counter("plane_full") >= 1 and setting.counter("requests_received") == 5
    held = [setting.claim() for _ in range(4)]
    setting.answer(held[0])
    setting.processor.turn(0)
    assert _receive(clients[0])[0] == 0, "an answer is sent although a request is parked"
    setting.turns()
    rest = [setting.claim() for _ in range(3)]
    assert {request.correlation_id for request in held[1:] + rest} == set(range(1, 7))
    for request in held[1:] + rest:
        setting.answer(request)
    setting.turns(8)
    assert [_receive(client)[0] for client in clients[1:]] == list(range(1, 7))


def test_without_a_free_entry_nothing_is_lost(make):
    setting = make(entries_per_processor=2, data_requests=100)
    clients = [setting.connect() for _ in range(5)]
    for n, client in enumerate(clients):
        client.send(frame(API, 5, n))
    found = []
    for _ in range(30):
        setting.turns()
        while (request := setting.claim()) is not None:
            found.append(request.correlation_id)
            setting.answer(request)
    assert sorted(found) == [0, 1, 2, 3, 4] and setting.counter("no_entry") >= 1
    assert sorted(_receive(client)[0] for client in clients) == [0, 1, 2, 3, 4]


def test_a_large_frame_reaches_the_handler_whole(make):
    setting = make()
    client = setting.connect()
    body = bytes(range(256)) * 4096
    client.setblocking(False)
    stream, sent = frame(API, 5, 9, body) + frame(API, 5, 10), 0
    while sent < len(stream):
        try:
            sent += client.send(stream[sent:])
        except BlockingIOError:
            setting.turns(1)
    setting.turns(8)
    request = setting.claim()
    assert bytes(request.payload).endswith(body) and request.correlation_id == 9
    client.setblocking(True)
    setting.answer(request)
    setting.turns()
    request = setting.claim()
    assert request.correlation_id == 10 and _receive(client)[0] == 9
    setting.answer(request)
    setting.turns()
    assert _receive(client)[0] == 10


def test_large_frames_without_room_wait_for_it(make):
    setting = make(arena_processor_bytes=1 << 20)
    body = bytes(700_000)
    clients = [setting.connect() for _ in range(3)]
    streams = {n: memoryview(frame(API, 5, n, body)) for n in range(3)}
    found = []
    for client in clients:
        client.setblocking(False)
    deadline = time.monotonic() + 20
    while len(found) < 3:
        assert time.monotonic() < deadline
        for n, client in enumerate(clients):
            with contextlib.suppress(BlockingIOError):
                streams[n] = streams[n][client.send(streams[n]) :]
        setting.turns(1)
        request = setting.claim()
        if request is not None:
            assert bytes(request.payload).endswith(body)
            found.append(request.correlation_id)
            setting.answer(request)
    assert sorted(found) == [0, 1, 2] and setting.counter("no_arena_space") >= 1


def test_the_request_bytes_of_all_processors_are_bounded(make):
    setting = make("queued.max.request.bytes=104857600")
    setting.processor._native_turn.queued_bytes_limit = 100
    clients = [setting.connect() for _ in range(3)]
    for n, client in enumerate(clients):
        client.send(frame(API, 5, n, bytes(90)))
    setting.turns()
    first = setting.claim()
    assert setting.claim() is None, "the first alone is over the limit: the others wait in their sockets"
    setting.answer(first)
    setting.turns()
    second = setting.claim()
    assert second is not None and setting.claim() is None
    setting.answer(second)
    setting.turns()
    setting.answer(setting.claim())
    setting.turns()
    assert sorted(_receive(client)[0] for client in clients) == [0, 1, 2]


@pytest.mark.parametrize(
    "data",
    [
        struct.pack(">i", -1),
        struct.pack(">i", 3),
        struct.pack(">i", 2**31 - 1),
        frame(77, 0, 1),
        frame(API, 9, 1),
        struct.pack(">ihhi", 8, API, -5, 1),
    ],
)
def test_bad_frames_close_their_connection_only(make, data):
    setting = make()
    other, client = setting.connect(), setting.connect()
    client.send(data)
    setting.turns()
    assert is_closed(client) and len(setting.log.lines) == 1
    assert setting.counter("bad_frames") + setting.counter("requests_unsupported") == 1
    other.send(frame(API, 5, 1))
    setting.turns()
    assert setting.claim() is not None and setting.claim() is None


def test_api_versions_of_any_version_is_let_through(make):
    setting = make()
    setting.connect().send(frame(18, 99, 1))
    setting.turns()
    assert setting.claim().api_version == 99


def test_good_requests_before_a_bad_one_are_answered(make):
    setting = make()
    client = setting.connect()
    client.send(frame(API, 5, 1) + frame(API, 5, 2) + struct.pack(">i", -1))
    for _ in range(2):
        setting.turns()
        setting.answer(setting.claim())
    setting.turns()
    assert [_receive(client)[0] for _ in range(2)] == [1, 2] and is_closed(client)


def test_an_answer_for_a_closed_connection_is_dropped(make):
    setting = make()
    client = setting.connect()
    client.send(frame(API, 5, 1))
    setting.turns()
    request = setting.claim()
    client.close()
    setting.turns()
    again = setting.connect()
    setting.answer(request)
    setting.turns()
    again.send(frame(API, 5, 2))
    setting.turns()
    setting.answer(setting.claim())
    setting.turns()
    assert _receive(again)[0] == 2
    assert setting.counter("requests_finished") == 2


def test_idle_and_standing_connections_are_closed(make):
    setting = make("connections.max.idle.ms=30000", "mpbroker.frame.timeout.ms=10000")
    idle, standing = setting.connect(), setting.connect()
    standing.send(b"\x00\x00\x01\x00partly")
    setting.turns()
    of_idle, of_standing = setting.processor._by_fd.values()
    of_standing.frame_started_ns -= 10_000_000_001
    setting.processor._housekeeping_ns = 0
    setting.turns()
    assert is_closed(standing) and setting.row.connections == 1 and setting.counter("frames_timed_out") == 1
    of_idle.last_active_ns -= 30_000_000_001
    setting.processor._housekeeping_ns = 0
    setting.turns()
    assert is_closed(idle) and setting.counter("connections_idle") == 1


def test_too_many_connections_close_the_one_unused_for_longest(make):
    setting = make("max.connections=2")
    clients = [setting.connect() for _ in range(3)]
    clients[0].send(frame(API, 5, 1))
    setting.turns()
    setting.processor._housekeeping_ns = 0
    setting.turns()
    assert setting.row.connections == 2 and setting.counter("connections_excess") == 1
    assert is_closed(clients[1])


def test_an_excess_is_closed_one_connection_at_a_time(make):
    """One per round of housekeeping, which is due once a second."""
    setting = make("max.connections=2")
    clients = [setting.connect() for _ in range(4)]
    setting.turns()
    for left in (3, 2):
        setting.processor._housekeeping_ns = 0
        setting.turns()
        setting.turns()  # housekeeping is not due
        assert setting.row.connections == left
    assert [is_closed(client) for client in clients[:2]] == [True, True]


def test_draining_answers_what_is_in_flight_and_reads_nothing_new(make):
    setting = make()
    client = setting.connect()
    client.send(frame(API, 5, 1))
    setting.turns()
    setting.answer(setting.claim())
    client.send(frame(API, 5, 2))
    setting.processor.drain(1000)
    assert _receive(client)[0] == 1 and is_closed(client) and setting.claim() is None
