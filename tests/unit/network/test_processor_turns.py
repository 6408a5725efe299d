"""The processor's loop on real sockets and small shared memory, stepped turn by turn."""

import os
import select
import socket
import tempfile
from types import SimpleNamespace

import pytest

from mpbroker.channel.handler_port import HandlerPort
from mpbroker.config.load_config import load_broker_config
from mpbroker.network.connection_quotas import ConnectionQuotas, Limits
from mpbroker.network.fd_passing import MAX_RECEIVED_BYTES, address_bytes, handover_pair
from mpbroker.network.handover import Accepted, Handover
from mpbroker.network.processor import MAX_NEW_CONNECTIONS_PER_TURN, REMOVED_DRAIN_MS, Processor, _is_quiet
from mpbroker.shm.counters import Counter
from mpbroker.shm.layout import SLOT_PROCESSORS
from mpbroker.shm.process_context import BoundListener, ProcessContext
from mpbroker.shm.process_table import ProcessRow
from mpbroker.trace.notice import CloseReason
from tests.harness.raw_client import api_versions, frame
from tests.harness.small_core import small_core

LOCAL = address_bytes("127.0.0.1")
LISTENER = BoundListener(0, "PLAINTEXT", "PLAINTEXT", "127.0.0.1", 1, "127.0.0.1", 1, False)


class Log:
    """Remembers events."""

    def __init__(self):
        self.events = []

    def tick(self):
        """Nothing is held back here."""

    def __getattr__(self, _level):
        return lambda event, _about=None, **_fields: self.events.append(event)


class World:
    """A processor, the acceptor's end of its hand-over, and a handler port to answer with."""

    def __init__(self):
        self.small = small_core(processors=1)
        self.pair = handover_pair()
        self.wakeup = os.pipe2(os.O_NONBLOCK)
        self.eventfd = os.eventfd(0, os.EFD_NONBLOCK)
        self.log = Log()
        self.row = ProcessRow(self.small.core, SLOT_PROCESSORS)
        self.row.begin(os.getpid(), 2, 0, 0)
        context = ProcessContext(
            core=self.small.core,
            config=load_broker_config(environ={}, cores=2),
            process_row=self.row,
            incarnation=1,
            listeners=(LISTENER,),
            listener=0,
            eventfds=(self.eventfd,),
            handovers={0: self.pair[1]},
            wakeup_fd=self.wakeup[0],
            log=self.log,
            api_versions={18: (0, 3)},
        )
        self.processor = Processor(context)
        self.quotas = ConnectionQuotas(Limits())
        self.handover = Handover(self.pair[0], 0, 1)
        self.handover.follow(1, self.quotas)
        self.handler = HandlerPort(self.small.core, 0)
        self.clients = []

    def hand_over(self, *descriptors: int):
        for descriptor in descriptors:
            self.quotas.admit(LOCAL, 0)
            assert self.handover.send([Accepted(descriptor, LOCAL, 1)])

    def connect(self, count: int = 1) -> list[socket.socket]:
        made = []
        for _ in range(count):
            ours, theirs = socket.socketpair()
            theirs.setblocking(False)
            ours.settimeout(5)
            self.hand_over(theirs.detach())
            made.append(ours)
        self.clients += made
        return made

    def turns(self, count: int = 1):
        """Turns of the processor; the acceptor reads its acknowledgements and lets go of its copies."""
        for _ in range(count):
            self.processor.turn(0)
            self.handover.read_answers(self.quotas)

    def close(self):
        self.processor.drain(0)
        for each in (*self.clients, *self.pair):
            each.close()
        for descriptor in (*self.wakeup, self.eventfd):
            os.close(descriptor)


@pytest.fixture
def world():
    made = World()
    yield made
    made.close()


class Recorded:
    """A native turn that notes which of its parts ran."""

    def __init__(self, native, order):
        self._native, self._order = native, order

    def __getattr__(self, name):
        if name in ("answer", "receive", "poll"):
            self._order.append(name)
        return getattr(self._native, name)


def test_a_turn_goes_answers_new_connections_receives_poll(world):
    """Answers leave before anything new is read, and what waited for room is served before what is new."""
    order, processor = [], world.processor
    processor._native_turn = Recorded(processor._native_turn, order)
    for name, part in (
        ("_serve_waiting", "waiting"), ("_configure_new_connections", "new connections"), ("_keep_house", "house"),
    ):  # fmt: skip
        done = getattr(processor, name)
        setattr(processor, name, lambda done=done, part=part: (order.append(part), done()))
    (client,) = world.connect()
    client.sendall(api_versions(1))
    world.turns(4)
    turns = [turn.strip(",").split(",") for turn in ",".join(order).split("poll")][:-1]
    assert len(turns) == 4
    assert turns[0] == ["answer", "waiting", "new connections", "receive", "house"]
    assert all(turn == turns[0] or turn == ["answer", "waiting", "receive", "house"] for turn in turns)


def test_answers_of_one_turn_are_limited(world):
    """So that none keeps the others from being read."""
    asked = []

    class Native:
        def __init__(self, native):
            self._native = native

        def answer(self, most):
            asked.append(most)
            return self._native.answer(most)

        def poll(self, wait_ms, turns, answers, *rest):
            asked.append(answers)
            return self._native.poll(wait_ms, turns, answers, *rest)

        def __getattr__(self, name):
            return getattr(self._native, name)

    world.processor._native_turn = Native(world.processor._native_turn)
    world.turns(2)
    assert asked == [256] * 4


@pytest.mark.parametrize(
    ("under_way", "is_quiet"),
    [
        ({}, True),
        ({"in_flight": 1}, False),
        ({"out_count": 1}, False),
        ({"large": True}, False),
        ({"waits": True}, False),
        ({"large_view": b""}, False),
        ({"held": MAX_RECEIVED_BYTES}, True),
        ({"held": MAX_RECEIVED_BYTES + 1}, False),
    ],
)
def test_a_connection_is_passed_on_when_nothing_of_it_is_under_way(under_way, is_quiet):
    nothing = {"in_flight": 0, "out_count": 0, "large": False, "waits": False, "large_view": None, "held": 0}
    channel = SimpleNamespace(**nothing | under_way)
    channel.buffered = lambda: channel.held
    assert _is_quiet(channel) is is_quiet


def test_a_connection_that_is_passed_on_is_still_the_one_that_the_acceptor_took(world):
    """Whoever takes it tells the trace and quotas its client's address and port."""
    world.connect()
    world.turns()
    assert world.processor._pass_back() == 1
    (returned,) = world.handover.read_answers(world.quotas).returned
    assert (returned.address, returned.port) == (LOCAL, 1)
    os.close(returned.fd)


def test_new_connections_of_one_turn_are_limited(world):
    clients = world.connect(20)
    world.turns()
    assert world.row.connections == MAX_NEW_CONNECTIONS_PER_TURN == 20
    world.handover.read_answers(world.quotas)
    clients += world.connect(15)
    world.turns()
    assert world.row.connections == len(clients)


def test_what_two_acceptors_sent_at_once_is_not_taken_in_one_turn(world):
    """A window holds no more than a turn takes; two windows can: the acceptor died and its successor goes on."""
    clients = world.connect(20)
    world.handover = Handover(world.pair[0], 0, 2)
    world.handover.follow(1, world.quotas)
    clients += world.connect(15)
    world.turns()
    assert world.row.connections == MAX_NEW_CONNECTIONS_PER_TURN
    world.turns()
    assert world.row.connections == len(clients)


class RefusingEpoll:
    """An epoll object that refuses one registration."""

    def __init__(self, real):
        self.real, self.refusals = real, 1

    def register(self, fd, events):
        if self.refusals:
            self.refusals -= 1
            raise OSError(28, "no space for another watch")
        self.real.register(fd, events)

    def __getattr__(self, name):
        return getattr(self.real, name)


@pytest.mark.parametrize("reason", ["no socket", "refused by epoll"])
def test_what_cannot_be_registered_is_closed_once_and_leaves_the_quota(world, reason):
    if reason == "no socket":
        with tempfile.TemporaryFile() as file:
            world.hand_over(os.dup(file.fileno()))
    else:
        world.processor._epoll = RefusingEpoll(world.processor._epoll)
        (refused,) = world.connect()
    world.turns()
    assert world.log.events == ["connection_not_registered"] and world.row.connections == 0
    world.turns()
    if reason == "refused by epoll":
        assert refused.recv(1) == b""
    assert world.quotas.connections_from(LOCAL) == 0
    (client,) = world.connect()
    world.turns(2)
    client.sendall(api_versions(5))
    world.turns(3)
    assert world.handler.serve_or_claim(0).correlation_id == 5


def test_one_request_of_a_connection_is_in_flight(world):
    (client,) = world.connect()
    world.turns()
    client.sendall(api_versions(1) + api_versions(2))
    world.turns(4)
    first = world.handler.serve_or_claim(0)
    assert first.correlation_id == 1 and world.handler.serve_or_claim(0) is None
    answer = b"\0\0\0\x04\0\0\0\x01"
    world.handler.answer(first, answer)
    world.turns(4)
    assert client.recv(100) == answer
    assert world.handler.serve_or_claim(0).correlation_id == 2


@pytest.mark.parametrize("how", ["nothing", "close"])
def test_an_answer_may_be_nothing_or_a_close(world, how):
    (client,) = world.connect()
    world.turns()
    client.sendall(api_versions(1) + api_versions(2))
    world.turns(4)
    request = world.handler.serve_or_claim(0)
    if how == "nothing":
        world.handler.answer_none(request)
    else:
        world.handler.answer_close(request, 0)
    world.turns(4)
    if how == "nothing":
        assert world.handler.serve_or_claim(0).correlation_id == 2 and not select.select([client], [], [], 0)[0]
    else:
        assert client.recv(1) == b"" and world.handler.serve_or_claim(0) is None and world.row.connections == 0


def test_an_answer_for_a_connection_that_is_gone_is_dropped(world):
    (client,) = world.connect()
    world.turns()
    client.sendall(api_versions(1))
    world.turns(3)
    request = world.handler.serve_or_claim(0)
    (channel,) = world.processor._by_fd.values()
    world.processor._close(channel)  # as the limits on idle time and on connections do
    assert world.row.connections == 0 and client.recv(1) == b""
    (again,) = world.connect()
    world.turns(2)
    (successor,) = world.processor._by_fd.values()
    assert (successor.number, successor.generation) == (channel.number, channel.generation + 1)
    world.handler.answer(request, b"\0\0\0\x04\0\0\0\x01")
    world.turns(3)
    assert not select.select([again], [], [], 0)[0], "the number is the same, the generation is not"
    again.sendall(api_versions(9))
    world.turns(3)
    assert world.handler.serve_or_claim(0).correlation_id == 9


def test_a_request_that_is_not_served_closes_only_its_connection(world):
    bad, good = world.connect(2)
    world.turns()
    bad.sendall(frame(3, 0, 1))
    good.sendall(api_versions(2))
    world.turns(4)
    assert bad.recv(1) == b"" and world.handler.serve_or_claim(0).correlation_id == 2
    assert world.row.connections == 1


def test_a_client_that_left_is_noticed_with_the_answer_of_its_request(world):
    (client,) = world.connect()
    world.turns()
    client.sendall(api_versions(1))
    world.turns(3)
    request = world.handler.serve_or_claim(0)
    client.close()
    world.turns(2)
    assert world.row.connections == 1, "nobody reads a mute connection"
    world.handler.answer(request, b"\0\0\0\x04\0\0\0\x01")
    world.turns(3)
    assert world.row.connections == 0 and world.row.counter(Counter.ENTRIES_IN_USE) == 0
    world.turns()
    assert world.quotas.connections_from(LOCAL) == 0


class CountingPort:
    """A port that counts how often memory was to be given back."""

    def __init__(self, port):
        self._port, self.idles = port, 0

    def idle(self):
        self.idles += 1
        return self._port.idle()

    def __getattr__(self, name):
        return getattr(self._port, name)


def test_arena_memory_is_given_back_once_a_second(world):
    port = world.processor._port = CountingPort(world.processor._port)
    world.turns(3)
    assert port.idles == 1
    world.processor._housekeeping_ns = 0
    world.turns(3)
    assert port.idles == 2


def test_stale_handovers_are_counted_once(world):
    for stale in (2, 0):
        world.processor._handover.stale = stale or world.processor._handover.stale
        world.processor._housekeeping_ns = 0
        world.turns()
    assert world.row.counter(Counter.HANDOVERS_STALE) == 2 and world.processor._handover.stale == 0


def test_truncated_handovers_are_counted_and_told_once(world):
    world.processor._handover.truncated = 2
    world.turns(2)
    assert world.row.counter(Counter.HANDOVERS_TRUNCATED) == 2 and world.processor._handover.truncated == 0
    assert world.log.events.count("handover_truncated") == 1


def test_a_connection_keeps_its_clients_port(world):
    world.connect()
    world.turns()
    assert [channel.port for channel in world.processor._by_fd.values()] == [1]


def test_a_connection_is_closed_for_the_reason_that_was_found(world):
    limits = ["connections.max.idle.ms=900", "mpbroker.frame.timeout.ms=900"]  # a machine may have just been started
    world.processor._ctx.config = load_broker_config(overrides=limits, environ={}, cores=2)
    world.connect(2)
    world.turns()
    idle, slow = world.processor._by_fd.values()
    idle.last_active_ns = 1
    slow.frame_started_ns = 1
    reasons = {}
    world.processor._close = lambda channel, reason=None: reasons.update({channel: reason})
    world.processor._housekeeping_ns = 0
    world.turns()
    assert reasons == {idle: CloseReason.IDLE, slow: CloseReason.FRAME_TIMEOUT}
    counters = (Counter.CONNECTIONS_IDLE, Counter.FRAMES_TIMED_OUT)
    assert [world.row.counter(one) for one in counters] == [1, 1]
    del world.processor._close


@pytest.mark.parametrize("room", [0, 1, 5])
def test_connections_are_passed_back_while_there_is_room(world, room):
    """What finds none stays until the next turn."""
    clients, passed = world.connect(3), []
    world.turns()
    left = iter([True] * room)

    def pass_back(fd, peer, received):
        passed.append((fd, received))
        return next(left, False)

    world.processor._handover.pass_back = pass_back
    assert world.processor._pass_back() == min(room, len(clients))
    assert world.row.connections == len(clients) - min(room, len(clients))
    assert len(passed) == min(room + 1, len(clients))


class Stepped:
    """A native turn that does nothing, and notes what is asked of it: `answers` per call, and whether polls find."""

    def __init__(self, answers=0, finds=False):
        self.order, self._answers, self._finds = [], answers, finds

    def answer(self, _most):
        self.order.append("answer")
        return self._answers

    def receive(self, _may_read):
        self.order.append("receive")

    def poll(self, *_how):
        self.order.append("poll")
        return self._finds

    def events(self):
        self.order.append("events")
        return []

    def end(self, _idle):
        self.order.append("end")

    def has_work(self, _may_read):
        return False


@pytest.mark.parametrize("finds", [True, False])
def test_what_a_part_of_a_turn_found_is_heard_before_the_next_part(world, finds):
    """A connection that is to close takes no other request, and gets no answer."""
    native = world.processor._native_turn = Stepped(finds=finds)
    world.turns()
    assert native.order == ["answer", "events", "receive", "events", "end", "poll", *(["events"] * finds)]


@pytest.mark.parametrize("answers", [0, 1])
def test_a_drain_hears_what_it_finds(world, monkeypatch, answers):
    native = Stepped(answers)
    under_way = iter([True, False])
    with monkeypatch.context() as patched:
        patched.setattr(world.processor, "_native_turn", native)
        patched.setattr(world.processor, "_in_flight", lambda: next(under_way))
        world.processor.drain(1000)
    waits = [] if answers else ["poll"]
    assert native.order == ["answer", "events", "end", *waits, "events"], "it waits when there was nothing to send"


def test_who_leaves_serves_until_all_are_passed_back(world, monkeypatch):
    native = Stepped()
    stops = iter([False, False, True])
    with monkeypatch.context() as patched:
        patched.setattr(world.processor, "_native_turn", native)
        patched.setattr(world.processor, "_by_fd", {1: None})
        patched.setattr(world.processor, "_is_removed", lambda: False)
        patched.setattr(world.processor, "_broker_stops", lambda: next(stops))
        patched.setattr(world.processor, "_pass_back", lambda: native.order.append("pass back") or 0)
        patched.setattr(world.processor, "_housekeeping", lambda _now_ns: None)
        world.processor.leave()
    turn = ["answer", "events", "end", "events", "pass back", "receive", "events", "end", "poll"]
    assert native.order == turn and world.processor._handover.leaving


def test_a_listener_that_was_removed_hears_out_its_handlers(world, monkeypatch):
    native, drained = Stepped(), []
    left = iter([True, False])
    with monkeypatch.context() as patched:
        patched.setattr(world.processor, "_native_turn", native)
        patched.setattr(world.processor, "_is_removed", lambda: True)
        patched.setattr(world.processor, "_broker_stops", lambda: False)
        patched.setattr(world.processor, "_has_entries", lambda: next(left))
        patched.setattr(world.processor, "drain", drained.append)
        world.processor.leave()
    assert native.order == ["answer", "events", "end", "poll", "events"]
    assert len(drained) == 1 and 0 < drained[0] <= REMOVED_DRAIN_MS
