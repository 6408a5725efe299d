"""The acceptor's loop on real sockets and small shared memory: socket options, turns, errors, blocked time."""

import errno
import os
import socket
from types import SimpleNamespace

import pytest

from mpbroker.config.load_config import load_broker_config
from mpbroker.network.acceptor import Acceptor, wait_for_start
from mpbroker.network.fd_passing import MAX_SOCKETS_PER_MESSAGE, handover_pair
from mpbroker.network.handover import WINDOW_SOCKETS
from mpbroker.network.handover_receiver import HandoverReceiver
from mpbroker.shm.counters import Counter
from mpbroker.shm.layout import SLOT_ACCEPTORS, SLOT_PROCESSORS
from mpbroker.shm.process_context import ProcessContext
from mpbroker.shm.process_table import BrokerState, ProcessRow
from mpbroker.supervisor.sockets import open_listeners
from tests.harness.small_core import small_core

PROCESSORS = 2
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
    """An acceptor with a listening socket, and the receiving ends of two processors."""

    def __init__(self, *overrides: str):
        config = load_broker_config(overrides=["listeners=PLAINTEXT://127.0.0.1:0", *overrides], environ={}, cores=2)
        (self.listening,), listeners = open_listeners(config)
        self.small = small_core(processors=PROCESSORS)
        self.pairs = [handover_pair() for _ in range(PROCESSORS)]
        self.wakeup = os.pipe2(os.O_NONBLOCK)
        self.log = Log()
        for number in range(PROCESSORS):
            ProcessRow(self.small.core, SLOT_PROCESSORS + number).begin(os.getpid(), PROCESSOR_ROLE, number, 0)
        self.row = ProcessRow(self.small.core, SLOT_ACCEPTORS)
        context = ProcessContext(
            core=self.small.core,
            config=config,
            process_row=self.row,
            incarnation=1,
            listeners=listeners,
            listener=0,
            listen_socket=self.listening,
            processors=tuple(range(PROCESSORS)),
            eventfds=(0,) * PROCESSORS,
            handovers={n: pair[0] for n, pair in enumerate(self.pairs)},
            wakeup_fd=self.wakeup[0],
            log=self.log,
        )
        self.acceptor = Acceptor(context)
        self.receivers = [HandoverReceiver(pair[1], 1) for pair in self.pairs]
        self.clients, self.taken = [], []

    def connect(self, count: int = 1):
        for _ in range(count):
            self.clients.append(socket.create_connection(("127.0.0.1", self.listening.getsockname()[1])))

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
        for each in [self.listening, *self.clients, *self.taken, *(end for pair in self.pairs for end in pair)]:
            each.close()
        for descriptor in self.wakeup:
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

        def accept(self):
            if self.failures:
                self.failures -= 1
                raise OSError(errno.EMFILE, "too many open files")
            return self.real.accept()

    world.acceptor._socket = Failing(world.listening)
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
