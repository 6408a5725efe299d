"""The ends of the request path, each allocation refused once: MemoryError, nothing is left behind, and they go on."""

import os
import select
import socket
from contextlib import suppress

import pytest

from mpbroker import _native
from mpbroker.channel.planes import DATA
from mpbroker.protocol import headers
from tests.harness.in_process_broker import InProcessBroker
from tests.harness.no_memory import leaves_nothing, refuse_each
from tests.harness.one_thread import one_thread
from tests.harness.small_core import small_core

LARGE = 1 << 40  # no whole number that Python keeps anyway
FRAME = bytes.fromhex("0003 0001 00000007 0002") + b"me"
HANDLER_SLOT, CONTROLLER_SLOT = 48, 112
assert headers.RequestHeader


class World:
    """A processor and a handler; `begin` has a request claimed, `over` ends what there is."""

    def __init__(self) -> None:
        self.core = small_core().core
        self.processor, self.handler = _native.ProcessorPort(self.core, 0), _native.HandlerPort(self.core, 0)
        self.request: _native.Request | None = None
        self._number = 0

    def submit(self) -> int:
        """Always another frame: one that was in hand in two crashes is refused."""
        self._number += 1
        return self.processor.submit(DATA, 5, 6, 7, FRAME[:4] + self._number.to_bytes(4, "big") + FRAME[8:], 1)

    def _claim(self) -> _native.Request | None:
        for _ in range(5):
            if (request := self.handler.serve_or_claim()) is not None:
                return request
            self.handler.take_dirty()
        return None

    def begin(self) -> None:
        assert self.submit() >= 0
        self.request = self._claim()
        assert self.request is not None

    def answer(self, length: int = 100) -> None:
        self.begin()
        assert self.handler.answer(self.request, bytes(length))
        self.request = None

    def over(self) -> None:
        """Whatever became of it: as after a crash of both."""
        self.request = None
        self.handler.recover()
        while (request := self._claim()) is not None:
            self.handler.answer_none(request)
        self.processor.recover()
        for entry, *_ in self.processor.collect(99):
            self.processor.sent(entry)
        assert self.processor.in_flight() == 0

    def touched(self):
        return [self.core, self.processor, self.handler, None, True, False, (), b"", _native.Request]


@pytest.fixture
def world():
    return World()


#: What is done with all the memory that it wants; what is refused some.
PORTS = {
    "claim": (World.submit, lambda w: w.handler.serve_or_claim()),
    "collect copies": (World.answer, lambda w: w.processor.collect(9)),
    "collect views": (lambda w: w.answer(5000), lambda w: w.processor.collect(9)),
    "submit": (None, World.submit),
    "address": (None, lambda w: w.processor.set_address(1, 2, bytes(16))),
    "in flight": (World.begin, lambda w: (w.processor.in_flight(), w.processor.queued_bytes(), w.processor.idle())),
    "states": (World.begin, lambda w: w.core.entry_states()),
    "in hand": (World.begin, lambda w: w.core.frame_in_hand(0)),
    "killers": (lambda w: w.core.add_killer(LARGE, LARGE, 900), lambda w: w.core.killers()),
    "answer": (World.begin, lambda w: w.handler.answer(w.request, FRAME)),
    "answer close": (World.begin, lambda w: w.handler.answer_close(w.request, 5, FRAME)),
    "cells": (World.begin, lambda w: (w.handler.ensure_cells(w.request, 300), w.handler.cell(w.request, 299))),
    "dirty": (lambda w: w.core.ring_handler(0), lambda w: w.handler.take_dirty()),
    "park": (World.begin, lambda w: (w.handler.park(w.request, 1), w.handler.resume(w.request))),
    "intended": (World.begin, lambda w: w.handler.intended_row(w.request)),
    "handler's recovery": (World.begin, lambda w: w.handler.recover()),
    "processor's recovery": (None, lambda w: w.processor.recover()),
    "hand over": (None, lambda w: w.handler.hand_over(range(10, 120))),
    "client": (World.begin, lambda w: (w.request.client_id, w.request.client_address)),
    "payload": (World.begin, lambda w: (w.request.payload, memoryview(w.request))),
    "held": (World.begin, lambda w: _native.held_payload(w.core, w.request.entry, w.request.fill_number)),
    "what it says": (
        World.begin,
        lambda w: [
            getattr(w.request, name)
            for name in ("entry", "generation", "fill_number", "api_key", "correlation_id", "connection", "processor")
        ],
    ),
    "room": (None, lambda w: (w.handler.room(1 << 30), w.handler.crowded(), w.handler.idle(), w.core.unique())),
}


@pytest.mark.parametrize("name", PORTS)
@one_thread
def test_a_port(world, name):
    before, work = PORTS[name]

    def a_pass():
        refuse_each(lambda: work(world), before and (lambda: before(world)), world.over)

    leaves_nothing(a_pass, world.touched())
    world.answer()
    assert len(world.processor.collect(9)) == 1


@one_thread
def test_a_watched_partition_that_moved(world):
    """Its number is in a list."""

    def moved():
        world.handler.watch(15)
        world.core.notify_partition(15)

    leaves_nothing(lambda: refuse_each(world.handler.take_dirty, moved), world.touched())
    moved()
    assert world.handler.take_dirty() == (False, [15])


@one_thread
def test_a_cell_that_is_written(tmp_path):
    broker = InProcessBroker(tmp_path)
    [row] = broker.create_topic("t")
    entry = broker.processor.submit(DATA, 1, 1, 0, FRAME, 1)
    request = broker.handler.context.port.serve_or_claim()
    assert request is not None and request.entry == entry
    port = broker.handler.context.port
    assert port.ensure_cells(request, 1)
    assert broker.log.refuse(row, entry, 0, 700, None).error == 700
    assert port.cell(request, 0).error == 700
    leaves_nothing(lambda: refuse_each(lambda: port.cell(request, 0)), [request, port, None, _native.Cell])


@one_thread
def test_fetch_sessions(world):
    sessions = _native.FetchSessions(world.core, 60)
    made = sessions.create(LARGE, LARGE, 1, 0, 0)
    sessions.keep(1, 1, LARGE, LARGE)

    def let_go():
        with suppress(ValueError):
            sessions.release()

    for work in (
        lambda: (sessions.hold(made), sessions.read(), sessions.write(0, 0, b""), sessions.release()),
        lambda: (sessions.hold(made), sessions.keep(1, 1, LARGE, LARGE)),
        lambda: (sessions.create(LARGE, LARGE, 1, 0, 0), sessions.drop()),
        sessions.recover,
    ):
        leaves_nothing(lambda work=work: refuse_each(work, None, let_go), [world.core, sessions, None, b""])


@one_thread
def test_known_rows(world):
    rows = _native.KnownRows(world.core, True)
    rows.put(0, b"k" * 16, LARGE), rows.put(1, b"l" * 16, LARGE)
    assert rows.rows() == [(0, b"k" * 16, LARGE), (1, b"l" * 16, LARGE)]
    for work in (rows.rows, lambda: rows.put(0, b"k" * 16, LARGE), lambda: rows.count):
        leaves_nothing(lambda work=work: refuse_each(work), [world.core, rows, None])


@one_thread
def test_commands(world):
    handler, controller = (_native.CommandPort(world.core, slot) for slot in (HANDLER_SLOT, CONTROLLER_SLOT))
    body = b"x" * 300

    def sent():
        handler.send(body, LARGE)

    def claimed():
        sent()
        assert controller.claim(0) is not None

    def answered():
        claimed_one = handler.send(body, LARGE)
        number, *_ = controller.claim(0)
        assert number == claimed_one and controller.complete(number, body, LARGE)

    def over():
        controller.recover()
        while (one := controller.claim(0)) is not None:
            controller.complete(one[0], b"", 0)
        for number, *_ in handler.answers():
            handler.free(number)

    for before, work in (
        (None, lambda: handler.send(body, LARGE)),
        (sent, lambda: controller.claim(0)),
        (answered, handler.answers),
        (claimed, controller.recover),
    ):
        touched = [world.core, handler, controller, None, body]
        leaves_nothing(lambda before=before, work=work: refuse_each(work, before, over), touched)


@one_thread
def test_connections(world):
    """What is buffered, and the events that a turn leaves to Python."""
    epoll = select.epoll()
    turn = _native.NetworkTurn(world.processor, epoll.fileno(), 0, 0, 1000, -1, {3: (0, 8)})
    near, far = socket.socketpair()
    near.setblocking(False)
    connection = _native.Connection(os.dup(near.fileno()), 300, 400, LARGE)
    turn.add(connection)
    connection.preload(b"\0\0\1\0" + bytes(60), LARGE)
    room = bytearray(300)

    def event():
        assert turn.submitted(connection, FRAME, _native.POISON, LARGE) is False

    for before, work in (
        (None, lambda: (connection.peek(50), connection.buffered(), connection.wants_arena_bytes())),
        (None, connection.take_introduction),
        (None, lambda: (connection.number, connection.last_active_ns, connection.out_count)),
        (event, turn.events),
        (None, lambda: (turn.answer(9), turn.over_limit(), turn.has_work(True), turn.queued_bytes_limit)),
        (None, lambda: turn.serves(connection, FRAME)),
    ):
        touched = [turn, connection, room, FRAME, None, True, False, b""]
        leaves_nothing(lambda before=before, work=work: refuse_each(work, before, turn.events), touched)
    turn.forget(connection)
    near.close(), far.close(), epoll.close()


@one_thread
def test_fetches_of_a_follower(tmp_path):
    log = _native.Log(small_core(replicated=True).core, [str(tmp_path)], 118)
    epoll = select.epoll()
    fetches, options = _native.SteadyFetches(log, epoll.fileno()), _native.LogOptions()
    rows = [(bytes(16), 0, row, 1, LARGE, 1, LARGE, LARGE, options) for row in (0, 1)]

    def begin():
        """False for one whose memory is not to be had: it is served elsewhere."""
        return fetches.begin(9, "c", 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, rows)

    def over():
        with suppress(KeyError):
            fetches.take_back(9)

    touched = [log, fetches, options, rows, *rows, None, True, False, b""]
    leaves_nothing(lambda: refuse_each(begin, over, over), touched)
    leaves_nothing(lambda: refuse_each(lambda: fetches.take_back(9), lambda: (over(), begin())), touched)
    leaves_nothing(lambda: refuse_each(lambda: fetches.poll(0)), touched)
    reading, writing = os.pipe()
    epoll.register(reading, select.EPOLLIN)
    os.write(writing, b"x")
    assert fetches.poll(0) == [(reading, select.EPOLLIN)]
    leaves_nothing(lambda: refuse_each(lambda: fetches.poll(0)), touched)
    os.close(reading), os.close(writing), epoll.close()
    log.close()


@one_thread
def test_what_is_served_natively(tmp_path):
    core = small_core().core
    log, port = _native.Log(core, [str(tmp_path)], HANDLER_SLOT), _native.HandlerPort(core, 0)

    def decompress(*_):
        return 0, b""

    def release():
        pass

    produce = _native.NativeProduce(port, log, 0, decompress, release)
    fetch = _native.NativeFetch(port, log, produce, 0)
    options, ordinals = _native.LogOptions(), [0, 1, 2]
    touched = [core, log, port, produce, fetch, options, ordinals, decompress, release, None, True, False]
    for work in (
        lambda: _native.NativeProduce(port, log, 0, decompress, release),
        lambda: produce.add("topic" * 20, bytes(range(16)), ordinals, options, True, False),
        lambda: (produce.served, produce.waiting, produce.due_ms, produce.now_ms, produce.monotonic_ms, produce.parks),
        lambda: (produce.take_over(LARGE), produce.reset(LARGE)),
        lambda: (fetch.served, fetch.waiting, fetch.due_ms, fetch.now_ms, fetch.max_bytes, fetch.take_over(LARGE)),
    ):
        leaves_nothing(lambda work=work: refuse_each(work), touched)
    log.close()
