"""One listener's acceptor, stepped: limits, pauses, turns of its processors, refusals; both its ends are fakes."""

import errno
import os
import select
import socket
from collections import deque
from types import SimpleNamespace

import pytest

from mpbroker.config.load_config import load_broker_config
from mpbroker.network import listener_acceptor as module
from mpbroker.network.connection_quotas import ConnectionQuotas, Limits
from mpbroker.network.fd_passing import address_bytes
from mpbroker.network.handover import MAX_REFUSALS, Accepted
from mpbroker.network.listener_acceptor import (
    ACCEPT_PAUSE_MS,
    MAX_PENDING,
    ListenerAcceptor,
    limits_of,
)
from mpbroker.shm.counters import Counter
from mpbroker.shm.process_table import ProcessState

A = address_bytes("10.0.0.1")


class Processor:
    """A hand-over with `space` free places; `sent`: the messages that it took."""

    def __init__(self, processor, space, takes=True):
        self.processor, self.space, self.takes = processor, space, takes
        self.sent, self.under_way = [], 0

    def room(self):
        return self.space

    def unacknowledged(self):
        return self.under_way

    def send(self, group):
        if self.takes:
            self.sent.append([accepted.fd for accepted in group])
        return self.takes


class World:
    def __init__(self, *processors, limits=None, connections=(0, 0, 0), overrides=()):
        self.now_ms, self.counted, self.told, self.admitted = 1_000_000, [], [], []
        made = self.made = ListenerAcceptor.__new__(ListenerAcceptor)
        made.listener = SimpleNamespace(name="OUT", control=False, index=0)
        made._quotas = ConnectionQuotas(limits or Limits())
        made._rows = [SimpleNamespace(connections=count, incarnation=7, state=0) for count in connections]
        made._count = lambda counter, number=1: self.counted.append((counter, number))
        made._handovers = list(processors)
        made._pending, made._next, made._listening = deque(), 0, False
        made._paused_until_ms, made._blocked_since_ns = 0, 0
        note = lambda event, *_, **fields: self.told.append(event)  # noqa: E731
        made._ctx = SimpleNamespace(
            log=SimpleNamespace(warning=note, error=note),
            config=load_broker_config(overrides=list(overrides), environ={}, cores=2),
        )
        self.epoll = []
        made._epoll = SimpleNamespace(
            register=lambda *_: self.epoll.append("listen"), unregister=lambda *_: self.epoll.append("rest")
        )
        made._socket = SimpleNamespace(accept=self.accept)
        self.waiting = []  # what accept returns or raises, one after the other

    def monotonic(self):
        return self.now_ms / 1000

    def monotonic_ns(self):
        return self.now_ms * 1_000_000

    def accept(self):
        if not self.waiting:
            raise BlockingIOError
        one = self.waiting.pop(0)
        if isinstance(one, OSError):
            raise one
        return one, ("10.0.0.1", 99)


@pytest.fixture
def world(monkeypatch):
    def make(*processors, **more):
        made = World(*processors, **more)
        monkeypatch.setattr(module, "time", made)
        return made

    return make


def pending(made, *descriptors, received=b""):
    made._pending.extend(Accepted(fd, A, 1, received=received) for fd in descriptors)


def test_sockets_go_to_the_processors_in_turn_as_far_as_there_is_room(world):
    first, second, third = Processor(0, 2), Processor(1, 0), Processor(2, 5)
    one = world(first, second, third)
    pending(one.made, *range(5))
    one.made._dispatch()
    assert (first.sent, second.sent, third.sent) == ([[0, 2]], [], [[1, 3, 4]]) and not one.made._pending
    first.space = 1
    pending(one.made, 5, 6)
    one.made._dispatch()
    assert first.sent[1:] == [[5]] and third.sent[1:] == [[6]], "it goes on behind the last one"


def test_what_a_processor_does_not_take_waits_in_its_order(world):
    one = world(Processor(0, 3, takes=False))
    pending(one.made, 1, 2, 3, 4)
    one.made._dispatch()
    assert [accepted.fd for accepted in one.made._pending] == [1, 2, 3, 4]


def test_a_connection_that_was_passed_back_goes_alone(world):
    """With what was received of it."""
    processor = Processor(0, 9)
    one = world(processor)
    pending(one.made, 1, 2)
    pending(one.made, 3, 4, received=b"x")
    pending(one.made, 5)
    one.made._dispatch()
    assert processor.sent == [[1, 2, 5], [3], [4]]


@pytest.mark.parametrize(
    ("space", "connections", "waits", "pause_ms", "may"),
    [
        (1, (3, 4), 0, 0, True),
        (0, (3, 4), 0, 0, False),
        (1, (4, 4), 0, 0, False),
        (1, (3, 5), 0, 0, False),
        (1, (2, 4), 1, 0, True),
        (1, (3, 4), 1, 0, False),
        (1, (3, 4), 0, 1, False),
        (1, (3, 4), 0, -1, True),
    ],
    ids=["room", "full", "listener", "broker", "under way", "all under way", "paused", "no pause"],
)
def test_when_it_may_accept(world, space, connections, waits, pause_ms, may):
    """Limits: 4 connections of the listener, whose processor is 0; 8 of the broker."""
    processor = Processor(0, space)
    processor.under_way = waits
    one = world(processor, limits=Limits(listener=4, broker=8), connections=connections)
    one.made._paused_until_ms = one.now_ms + pause_ms
    assert one.made._may_accept() is may
    pending(one.made, 1)
    assert not one.made._may_accept(), "what waits comes first"


def test_connections_under_way_count_as_if_they_were_there(world):
    processor = Processor(1, 5)
    processor.under_way = 4
    one = world(processor, connections=(10, 20, 30))
    pending(one.made, 1, 2)
    assert one.made._connection_counts() == (26, 66)


@pytest.mark.parametrize(
    ("limits", "taken"),
    [(Limits(), 5), (Limits(listener=2), 2), (Limits(broker=3), 3), (Limits(listener=2, broker=1, protected=True), 2)],
)
def test_no_more_are_accepted_than_the_limits_allow(world, limits, taken):
    one = world(Processor(0, 20), limits=limits)
    one.waiting = [object()] * 5
    one.made._admit = lambda connection, address, now_ms: one.admitted.append((address, now_ms))
    one.made._accept()
    assert one.admitted == [(("10.0.0.1", 99), 1_000_000)] * taken


@pytest.mark.parametrize("space", [3, 200])
def test_a_turn_takes_what_processors_have_room_for_and_not_too_much(world, space):
    one = world(Processor(0, space))
    one.waiting = [object()] * 500
    one.made._admit = lambda *_: one.admitted.append(1)
    one.made._accept()
    assert len(one.admitted) == min(space, 64), "as many as ADR 26 says"


def test_a_creation_rate_pauses(world):
    one = world(Processor(0, 20), limits=Limits(listener_rate=2, window_s=1))
    one.waiting = [object()] * 5
    one.made._admit = lambda *_: one.made._quotas.admit(A, one.now_ms)
    one.made._accept()
    assert len(one.waiting) == 3 and one.counted == [(Counter.ACCEPT_THROTTLED, 1)]
    assert one.now_ms < one.made._paused_until_ms <= one.now_ms + 1000 and not one.made._may_accept()


@pytest.mark.parametrize(("number", "told"), [(errno.EMFILE, ["accept_failed"]), (errno.EINVAL, [])])
def test_an_error_pauses_it_for_a_moment(world, number, told):
    one = world(Processor(0, 20))
    one.waiting = [OSError(number, "no"), object()]
    one.made._accept()
    assert one.made._paused_until_ms == one.now_ms + ACCEPT_PAUSE_MS and one.told == told and len(one.waiting) == 1


def test_an_address_over_its_limit_is_closed_and_told(world):
    one = world(Processor(0, 20), limits=Limits(per_ip=1))
    near, far = socket.socketpair()
    one.made._quotas.admit(A, 0)
    one.made._admit(near, ("10.0.0.1", 9), one.now_ms)
    assert far.recv(1) == b"" and one.told == ["too_many_connections_from_address"]
    assert one.counted == [(Counter.CONNECTIONS_REFUSED_PER_IP, 1)] and not one.made._pending
    far.close()


def test_an_admitted_connection_waits_for_its_processor(world):
    one = world(Processor(0, 20))
    listening = socket.create_server(("127.0.0.1", 0))
    far = socket.create_connection(listening.getsockname())
    near, address = listening.accept()
    one.made._admit(near, ("10.0.0.1", address[1]), one.now_ms)
    [accepted] = one.made._pending
    assert (accepted.address, accepted.port, accepted.received) == (A, address[1], b"")
    with socket.socket(fileno=accepted.fd) as held:
        assert held.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) == 1
        assert held.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1 and not os.get_blocking(accepted.fd)
    assert one.counted == [(Counter.CONNECTIONS_ACCEPTED, 1)]
    far.close()
    listening.close()


def test_a_socket_that_is_refused_too_often_is_closed(world):
    one = world(Processor(0, 20))
    near, far = socket.socketpair()
    accepted = Accepted(near.detach(), A, 1)
    one.made._quotas.admit(A, 0)
    for refusals in range(1, MAX_REFUSALS):
        assert one.made._refused([accepted]) == [accepted] and accepted.refusals == refusals
    os.fstat(accepted.fd)
    assert one.made._refused([accepted]) == [] and far.recv(1) == b""
    assert one.made._quotas.connections_from(A) == 0 and one.told == ["connection_refused_by_processors"]
    assert one.counted == [(Counter.HANDOVER_REFUSED, 1)] * MAX_REFUSALS
    far.close()


def test_time_without_listening_is_counted(world):
    one = world(Processor(0, 20))
    one.made._listen_if(False)
    one.made._listen_if(True)
    one.made._listen_if(True)
    assert one.epoll == ["listen"] and one.counted == [], "before the first time nobody was kept waiting"
    one.made._listen_if(False)
    one.now_ms += 25
    one.made._listen_if(True)
    assert one.epoll == ["listen", "rest", "listen"]
    assert one.counted == [(Counter.ACCEPTOR_BLOCKED_US, 25_000)]


@pytest.mark.parametrize(
    ("state", "incarnation"),
    [("STARTING", 7), ("RECOVERING", 7), ("RUNNING", 7), ("STOPPING", 0), ("DEAD", 0)],
)
def test_who_runs_or_soon_will_is_sent_to(world, state, incarnation):
    one = world(Processor(0, 1))
    one.made._rows[0].state = ProcessState[state]
    assert one.made._living(0) == incarnation


def test_it_waits_for_others_while_anything_is_under_way(world):
    processor = Processor(0, 1)
    one = world(processor)
    assert one.made.awaits_others, "it does not listen"
    one.made._listening = True
    assert not one.made.awaits_others
    processor.under_way = 1
    assert one.made.awaits_others
    processor.under_way = 0
    pending(one.made, 1)
    assert one.made.awaits_others


def test_the_limits_are_those_of_the_settings():
    settings = [
        "listeners=IN://127.0.0.1:0,OUT://127.0.0.1:0", "inter.broker.listener.name=IN", "max.connections=70",
        "listener.security.protocol.map=IN:PLAINTEXT,OUT:PLAINTEXT", "max.connections.per.ip=5",
        "listener.name.out.max.connections=9", "max.connections.per.ip.overrides=127.0.0.1:3,no.such.host.invalid:4",
        "listener.name.in.max.connection.creation.rate=6", "max.connection.creation.rate=8", "quota.window.num=4",
        "quota.window.size.seconds=3",
    ]  # fmt: skip
    config = load_broker_config(overrides=settings, environ={}, cores=2)
    own = {address_bytes("127.0.0.1"): 3}
    assert limits_of(config, "OUT") == Limits(5, own, 9, 70, 8, 8, 12, False)
    assert limits_of(config, "IN") == Limits(5, own, 70, 70, 6, 8, 12, True), "what a listener has not is the broker's"


def test_a_turn_hands_over_what_is_here_before_and_after_it_accepts(world):
    one, may, order = world(), [True, False], []
    made = one.made
    made._dispatch, made._accept = lambda: order.append("dispatch"), lambda: order.append("accept")
    made._may_accept = lambda: may.pop(0)
    made._listen_if = lambda wanted: order.append(wanted)
    made.serve()
    assert order == ["dispatch", "accept", "dispatch", False]
    may[:], order[:] = [False, True], []
    made.serve()
    assert order == ["dispatch", True]


@pytest.mark.parametrize(("waiting", "reads"), [(MAX_PENDING - 1, True), (MAX_PENDING, False)])
def test_what_processors_pass_back_is_read_as_fast_as_it_is_passed_on(world, waiting, reads):
    refused, returned = Accepted(1001, A, 1), Accepted(1002, A, 1)
    answers = SimpleNamespace(refused=[refused], returned=[returned], unexpected=3)
    one = world()
    pending(one.made, *range(waiting))
    one.made._read(SimpleNamespace(read_answers=lambda quotas: answers))
    found = [accepted.fd for accepted in one.made._pending]
    assert found == ([1001, *range(waiting), 1002] if reads else list(range(waiting)))
    counted = [(Counter.HANDOVER_REFUSED, 1), (Counter.HANDOVER_UNEXPECTED, 3)]
    assert one.counted == (counted if reads else [])


def test_at_the_end_what_nobody_has_taken_is_closed(world):
    processor, done = Processor(0, 5), []
    one = world(processor)
    near, far = socket.socketpair()
    returned, other = socket.socketpair()
    pending(one.made, near.detach())
    processor.read_answers = lambda quotas: SimpleNamespace(returned=[Accepted(returned.detach(), A, 1)])
    processor.close_window = lambda: done.append("window")
    processor.channel = "channel"
    one.made._socket.close = lambda: done.append("listening")
    one.made._listening = True
    one.made.close()
    assert far.recv(1) == other.recv(1) == b"" and done == ["window", "listening"]
    assert not one.made._pending and not one.made._handovers and one.epoll == ["rest", "rest"]
    far.close()
    other.close()


def test_new_settings_hold_from_now_on_and_processors_may_have_come_with_them(world):
    one, registered = world(Processor(0, 5)), []
    made = one.made
    made._epoll.register = lambda channel, events: registered.append((channel, events))
    made._ctx.processors, made._ctx.incarnation = {0: (0, 2), 1: (1,)}, 9
    made._ctx.handovers = {0: "channel 0", 1: "channel 1", 2: "channel 2"}
    for _ in range(2):
        made.use_config(load_broker_config(overrides=["max.connections=70"], environ={}, cores=2))
        assert made._quotas.limits.broker == 70
        assert [handover.processor for handover in made._handovers] == [0, 2]
    assert registered == [("channel 2", select.EPOLLIN)]


def test_the_only_listener_is_not_protected_from_the_brokers_limit():
    config = load_broker_config(overrides=["max.connections=70"], environ={}, cores=2)
    assert config.end_points.inter_broker == "PLAINTEXT"
    assert limits_of(config, "PLAINTEXT") == Limits(listener=70, broker=70, protected=False)
