"""The acceptor's loop on real sockets and small shared memory: socket options, turns, errors, blocked time, listeners
that come and go, and whose turn it is."""

import errno
import json
import os
import select
import socket
from types import SimpleNamespace

import pytest

from mpbroker.config.load_config import load_broker_config
from mpbroker.network import acceptor as acceptor_module
from mpbroker.network import listener_acceptor, listener_passing
from mpbroker.network.acceptor import Acceptor, wait_for_start
from mpbroker.network.fd_passing import MAX_SOCKETS_PER_MESSAGE, handover_pair
from mpbroker.network.handover import WINDOW_SOCKETS
from mpbroker.network.handover_receiver import HandoverReceiver
from mpbroker.network.listener_passing import channel_pair, let_go, let_go_of, pass_on
from mpbroker.shm.counters import Counter
from mpbroker.shm.layout import SLOT_ACCEPTOR, SLOT_PROCESSORS
from mpbroker.shm.process_context import ProcessContext
from mpbroker.shm.process_table import BrokerState, ProcessRow
from mpbroker.supervisor.sockets import open_listeners
from tests.harness.small_core import small_core

PROCESSORS = 2
CTL = 2
PROCESSOR_ROLE = 2


class Log:
    """Remembers events."""

    def __init__(self):
        self.events = []

    def tick(self):
        """Nothing is held back here."""

    def __getattr__(self, _level):
        return lambda event, _about=None, **_fields: self.events.append(event)


class World:
    """An acceptor with a listening socket, and the receiving ends of two processors. `overrides`: settings, among
    them further listeners, each with a processor of its own then."""

    def __init__(self, *overrides: str):
        config = load_broker_config(overrides=["listeners=PLAINTEXT://127.0.0.1:0", *overrides], environ={}, cores=2)
        self.sockets, self.listeners = open_listeners(config)
        self.listening = self.sockets[0]
        alone = len(self.sockets) == 1
        count = PROCESSORS if alone else len(self.sockets)
        served = {0: tuple(range(count))} if alone else {index: (index,) for index in range(count)}
        self.small = small_core(processors=count)
        self.pairs = [handover_pair() for _ in range(count)]
        self.channel = channel_pair()
        self.wakeup = os.pipe2(os.O_NONBLOCK)
        self.log = Log()
        for number in range(count):
            ProcessRow(self.small.core, SLOT_PROCESSORS + number).begin(os.getpid(), PROCESSOR_ROLE, number, 0)
        self.row = ProcessRow(self.small.core, SLOT_ACCEPTOR)
        context = ProcessContext(
            core=self.small.core,
            config=config,
            process_row=self.row,
            incarnation=1,
            listeners=self.listeners,
            listen_sockets=dict(enumerate(self.sockets)),
            listener_channel=self.channel[1],
            processors=served,
            config_fd=os.memfd_create("published"),
            eventfds=(0,) * count,
            handovers={n: pair[0] for n, pair in enumerate(self.pairs)},
            wakeup_fd=self.wakeup[0],
            log=self.log,
        )
        self.context = context
        self.acceptor = Acceptor(context)
        self.receivers = [HandoverReceiver(pair[1], 1) for pair in self.pairs]
        self.clients, self.taken = [], []

    def connect(self, count: int = 1, listener: int = 0):
        for _ in range(count):
            self.clients.append(socket.create_connection(self.sockets[listener].getsockname()))

    def publish(self, *listeners):
        """As the supervisor does; the acceptor is not told."""
        document = json.dumps({"listeners": listeners}).encode()
        os.pwrite(self.context.config_fd, document, 0)
        os.ftruncate(self.context.config_fd, len(document))

    def receive(self, most: int = 100) -> list[int]:
        """How many sockets each processor takes now."""
        counts = []
        for receiver in self.receivers:
            received = receiver.receive(most)
            self.taken += [socket.socket(fileno=each.fd) for each in received]
            receiver.flush()
            counts.append(len(received))
        return counts

    def close(self):
        self.acceptor.close()
        for each in [*self.sockets, *self.clients, *self.taken, *self.channel, *sum(self.pairs, ())]:
            each.close()
        for descriptor in (*self.wakeup, self.context.config_fd):
            os.close(descriptor)


@pytest.fixture
def world():
    made = World()
    made.acceptor.turn(0)  # greets the processors, begins to listen
    yield made
    made.close()


def _counted(world, counter: Counter) -> int:
    return world.row.counter(counter)


def test_connections_go_in_turn_over_several_accepts(world):
    for expected in ([2, 1], [1, 2], [2, 1]):
        world.connect(3)
        world.acceptor.turn(100)
        assert world.receive() == expected
        world.acceptor.turn(0)


def test_accepted_sockets_have_kafkas_options(world):
    world.connect()
    world.acceptor.turn(100)
    world.receive()
    (taken,) = world.taken
    assert taken.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
    assert taken.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
    with pytest.raises(BlockingIOError):
        taken.recv(1)


@pytest.mark.parametrize("size", [50_000, 200_000])
def test_buffer_sizes_are_those_of_the_settings(size):
    world = World(f"socket.send.buffer.bytes={size}", f"socket.receive.buffer.bytes={size}")
    try:
        world.acceptor.turn(0)
        world.connect()
        world.acceptor.turn(100)
        world.receive()
        for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
            assert world.taken[0].getsockopt(socket.SOL_SOCKET, option) == 2 * size, "the kernel doubles it"
    finally:
        world.close()


def test_minus_one_leaves_the_buffers_to_the_system():
    world = World("socket.send.buffer.bytes=-1", "socket.receive.buffer.bytes=-1")
    with socket.create_server(("127.0.0.1", 0)) as plain:
        untouched = socket.create_connection(plain.getsockname())
        served, _ = plain.accept()
        try:
            world.acceptor.turn(0)
            world.connect()
            world.acceptor.turn(100)
            world.receive()
            for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
                assert world.taken[0].getsockopt(socket.SOL_SOCKET, option) == served.getsockopt(
                    socket.SOL_SOCKET, option
                )
        finally:
            world.close()
            untouched.close()
            served.close()


def test_an_error_of_accept_is_logged_and_the_loop_goes_on(world):
    class Failing:
        """A listening socket whose accept fails once."""

        def __init__(self, real):
            self.real, self.failures = real, 1

        def fileno(self):
            return self.real.fileno()

        def close(self):
            self.real.close()

        def accept(self):
            if self.failures:
                self.failures -= 1
                raise OSError(errno.EMFILE, "too many open files")
            return self.real.accept()

    world.acceptor.listeners[0]._socket = Failing(world.listening)
    world.connect()
    world.acceptor.turn(100)
    assert world.log.events == ["accept_failed"] and world.receive() == [0, 0]
    for _ in range(100):  # it rests for 10 ms
        world.acceptor.turn(10)
        if sum(world.receive()):
            break
    assert len(world.taken) == 1


def test_full_processors_make_it_wait_and_the_time_is_counted(world):
    """Nobody acknowledges: two windows fill, the rest stays in the kernel and is taken when there is room."""
    connections = 2 * WINDOW_SOCKETS + 5
    world.connect(connections)
    for _ in range(10):
        world.acceptor.turn(10)
    assert _counted(world, Counter.CONNECTIONS_ACCEPTED) == 2 * WINDOW_SOCKETS
    assert _counted(world, Counter.ACCEPTOR_BLOCKED_US) == 0, "counted when it ends"
    for _ in range(10):
        world.receive()
        world.acceptor.turn(10)
    assert len(world.taken) == connections == _counted(world, Counter.CONNECTIONS_ACCEPTED)
    assert _counted(world, Counter.ACCEPTOR_BLOCKED_US) > 0


def test_one_turn_hands_on_as_many_as_there_is_room_for(world):
    """A place for each socket: a full message goes to each processor."""
    world.connect(2 * MAX_SOCKETS_PER_MESSAGE)
    world.acceptor.turn(100)
    assert world.receive() == [MAX_SOCKETS_PER_MESSAGE, MAX_SOCKETS_PER_MESSAGE]


def test_a_processor_takes_at_most_what_it_asks_for(world):
    world.connect(30)
    for _ in range(3):
        world.acceptor.turn(10)
    first = world.receive(most=4)
    assert all(count <= WINDOW_SOCKETS for count in first)
    for _ in range(20):
        world.acceptor.turn(10)
        world.receive(most=4)
    assert len(world.taken) == 30


def test_a_processor_with_little_room_gets_no_more_than_it_has_room_for(world):
    """The other one takes the rest; nothing is refused and tried again."""
    world.connect(2 * (WINDOW_SOCKETS - 1))
    for _ in range(3):  # a message holds less than a window
        world.acceptor.turn(10)
        quick = world.receivers[1].receive(100)
        world.taken += [socket.socket(fileno=each.fd) for each in quick]
        world.receivers[1].flush()
    world.acceptor.turn(10)  # reads what was acknowledged
    world.connect(6)
    world.acceptor.turn(10)
    assert world.receive() == [WINDOW_SOCKETS, 5]


def test_what_was_under_way_to_a_killed_processor_is_sent_to_its_successor(world):
    world.connect(4)
    world.acceptor.turn(100)  # two to each; nobody has taken any
    ProcessRow(world.small.core, SLOT_PROCESSORS).begin(os.getpid(), PROCESSOR_ROLE, 0, 0)
    world.receivers[0] = HandoverReceiver(world.pairs[0][1], 2)
    for _ in range(3):
        world.acceptor.turn(0)
        world.receive()
    assert world.receivers[0].stale == 2, "the copies that lay in the dead one's channel"
    assert len(world.taken) == 4
    for taken in world.taken:
        taken.sendall(b"x")
    for client in world.clients:
        client.settimeout(5)
        assert client.recv(1) == b"x"


THREE = (
    "listeners=ONE://127.0.0.1:0,TWO://127.0.0.1:0,CTL://127.0.0.1:0",
    "listener.security.protocol.map=ONE:PLAINTEXT,TWO:PLAINTEXT,CTL:PLAINTEXT",
    "inter.broker.listener.name=ONE",
)


@pytest.fixture
def three():
    made = World(*THREE, "control.plane.listener.name=CTL")
    made.acceptor.turn(0)
    yield made
    made.close()


class Noting:
    """A listening socket that notes whose connections are accepted, and may call when it is asked."""

    def __init__(self, world, index, accepted, when_asked=lambda: None):
        self.real, self.index, self.accepted, self.when_asked = world.sockets[index], index, accepted, when_asked
        world.acceptor.listeners[index]._socket = self

    def __getattr__(self, name):
        return getattr(self.real, name)

    def accept(self):
        self.when_asked()
        found = self.real.accept()
        self.accepted.append(self.index)
        return found


def test_the_control_planes_listener_comes_first_and_again_after_each_other(three):
    """A broker that connects while a flood is accepted waits for the rest of one listener's part, not of the turn."""
    accepted, calls = [], iter([lambda: three.connect(1, CTL)])
    Noting(three, 0, accepted, lambda: next(calls, lambda: None)())
    for index in (1, CTL):
        Noting(three, index, accepted)
    for index, count in ((0, 3), (1, 3), (CTL, 1)):
        three.connect(count, index)
    three.acceptor.turn(100)
    assert accepted == [CTL, 0, 0, 0, CTL, 1, 1, 1]
    assert three.receive() == [3, 3, 2]


def test_a_turn_takes_a_bounded_number_of_connections_of_each_listener(three, monkeypatch):
    monkeypatch.setattr(listener_acceptor, "MAX_ACCEPTS_PER_TURN", 5)
    three.connect(12)
    three.connect(2, CTL)
    for expected in ([5, 0, 2], [5, 0, 0], [2, 0, 0]):
        three.acceptor.turn(100)
        assert three.receive() == expected


def test_full_processors_of_one_listener_keep_no_other_waiting(three):
    three.connect(WINDOW_SOCKETS + 5)
    for _ in range(3):
        three.acceptor.turn(10)
    assert _counted(three, Counter.CONNECTIONS_ACCEPTED) == WINDOW_SOCKETS, "nobody has acknowledged"
    three.connect(4, 1)
    three.acceptor.turn(100)
    assert len(three.receivers[1].receive(100)) == 4


def test_a_listener_is_passed_to_it_while_it_runs_and_another_is_removed(three):
    address = three.sockets[1].getsockname()
    three.connect(1, 1)
    before = len(os.listdir("/proc/self/fd"))
    three.acceptor.turn(100)  # under way to a processor when its listener goes
    with socket.create_server(("127.0.0.1", 0)) as fresh:
        fresh.setblocking(False)
        one, two, control = three.listeners
        three.publish(one, two._replace(removed=True), control, two._replace(index=3, name="NEW"))
        three.context.processors = {3: (1,)}
        assert pass_on(three.channel[0], 3, fresh)
        three.acceptor.turn(100)
        assert sorted(three.acceptor.listeners) == [0, 2, 3]
        three.acceptor.turn(0)
        assert let_go_of(three.channel[0]) == [1]
        assert len(os.listdir("/proc/self/fd")) == before + 1, "the new one here and there, the removed one nowhere"
        three.clients.append(socket.create_connection(fresh.getsockname()))
        three.acceptor.turn(100)
    assert len(three.receivers[1].receive(100)) == 2
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(address)


def test_a_listener_of_whose_removal_it_has_not_heard_is_no_failure(three):
    three.sockets[1].shutdown(socket.SHUT_RDWR)  # what the supervisor does acts on every copy
    three.acceptor.turn(100)
    three.connect()
    three.acceptor.turn(100)
    assert three.receive() == [1, 0, 0] and three.log.events == []


def test_a_socket_that_it_cannot_take_or_that_is_of_no_listener_any_more_is_let_go(three, monkeypatch):
    three.publish(*three.listeners, three.listeners[1]._replace(index=3, removed=True))
    with socket.create_server(("127.0.0.1", 0)) as fresh:
        pass_on(three.channel[0], 3, fresh)
        before = len(os.listdir("/proc/self/fd"))
        three.acceptor.turn(100)
        assert 3 not in three.acceptor.listeners and let_go_of(three.channel[0]) == [3]
        pass_on(three.channel[0], 1, fresh)
        three.acceptor.turn(100)
        assert len(os.listdir("/proc/self/fd")) == before, "its copies are closed"
    assert let_go_of(three.channel[0]) == [] and sorted(three.acceptor.listeners) == [0, 1, 2], "it has that one"
    passed = iter([listener_passing.Passed(3, None), None])
    monkeypatch.setattr(listener_passing, "receive", lambda channel: next(passed))
    let_go(three.channel[0], 0)  # any message
    three.publish(*three.listeners, three.listeners[1]._replace(index=3))
    three.acceptor.turn(100)
    assert let_go_of(three.channel[0]) == [3], "there was no descriptor for it: it is passed again"


def test_nothing_is_accepted_before_the_broker_has_recovered():
    """`main` waits: a client that came in while the controller recovers would see a broker without its topics."""

    class Core:
        def __init__(self, *states):
            self.states = list(states)

        @property
        def state(self):
            return self.states.pop(0)

    waits = []
    row = SimpleNamespace(set_wait=waits.append)
    core = Core(BrokerState.STARTING, BrokerState.STARTING, BrokerState.RESETTING, BrokerState.RUNNING, None)
    wait_for_start(SimpleNamespace(core=core, process_row=row, stop_requested=lambda: False))
    assert (len(waits), core.states) == (3, [None])
    core = Core(BrokerState.STARTING, None)
    wait_for_start(SimpleNamespace(core=core, process_row=row, stop_requested=lambda: True))
    assert (len(waits), core.states) == (3, [None])


def test_what_rings_wakes_it(three):
    """Its own bell, the supervisor, a processor, a client."""
    ready = lambda: {fd for fd, _ in three.acceptor._epoll.poll(0)}  # noqa: E731
    assert ready() == set()
    os.write(three.wakeup[1], b"x")
    let_go(three.channel[0], 0)
    three.receivers[2].receive(1)
    three.connect(1, 1)
    assert select.select([three.sockets[1]], [], [], 10)[0]
    channel, processor = three.channel[1].fileno(), three.pairs[2][0].fileno()
    assert ready() == {three.wakeup[0], channel, processor, three.sockets[1].fileno()}


def test_its_rank_is_asked_for_before_the_first_turn(three, monkeypatch):
    asked = []
    monkeypatch.setattr(acceptor_module, "prefer_latency", asked.append)
    monkeypatch.setattr(acceptor_module, "RANK_EVERY_S", 3600.0)
    three.context.role = "acceptor"
    assert three.context.serves_control_plane
    three.context.listen_sockets = {}
    made = Acceptor(three.context)
    assert asked == [three.context.config.mpbroker_control_plane_scheduling]
    made.turn(0)
    assert len(asked) == 1


@pytest.mark.parametrize("traced", [False, True])
def test_the_kernel_notes_arrivals_where_requests_are_traced(world, traced, monkeypatch):
    """On the listening socket: what is accepted inherits it."""
    stamped = []
    monkeypatch.setattr(listener_acceptor, "stamp_arrivals", stamped.append)
    world.context.lanes = ("lane",) if traced else ()
    with socket.create_server(("127.0.0.1", 0)) as listening, select.epoll() as epoll:
        listener_acceptor.ListenerAcceptor(world.context, world.listeners[0], listening, epoll)
        assert stamped == [listening] * traced
