"""A leader that comes to lead another partition while it holds a Fetch back: the follower asks anew, as acks=all
waits."""

from types import SimpleNamespace

import pytest

from mpbroker.protocol.messages.fetch import FetchResponse
from mpbroker.replication import fetcher as module
from mpbroker.replication.fetcher import Fetcher
from mpbroker.replication.follower import FetchLimits, Followed, LeaderFetch
from mpbroker.replication.leader_link import HELD_BACK_MS, LeaderLink
from mpbroker.shm.clock import ManualClock

LEADER, FOLLOWER = 0, 1
WAIT_MAX_MS = 500


class Connection:
    """Sent whole at once; an answer comes when a test says so, and may come in parts."""

    def __init__(self, number):
        self.number, self.asked, self.answer = number, [], None
        self.wants_to_write = self.is_watched_for_room = self.is_partly_there = self.is_closed = False

    @property
    def is_idle(self):
        return not self.asked or self.asked[-1] is None

    @property
    def correlation_id(self):
        return None if self.is_idle or self.is_partly_there else 7

    def fileno(self):
        return self.number

    def ask(self, message, answer, version):
        self.asked.append(message)

    def write(self):
        pass

    def read(self):
        self.asked.append(None)
        return FetchResponse(session_id=9)

    def close(self):
        self.is_closed = True


class World:
    """A fetcher of parts: `rows` are followed, `connections` were made to their leader."""

    def __init__(self, monkeypatch):
        self.clock, self.rows, self.connections = ManualClock(), [], []
        made = self.made = Fetcher.__new__(Fetcher)
        monkeypatch.setattr(module, "cluster_state", lambda _: SimpleNamespace(broker_epoch=1))
        config = SimpleNamespace(replica_socket_timeout_ms=30_000)
        made._ctx, made._clock = SimpleNamespace(core=None, config=config), self.clock
        made._index, made._fetchers, made._by_fd, made._scan_at_ms = 0, 1, {}, 0
        made._epoll = SimpleNamespace(unregister=lambda _: None)
        made._logs = SimpleNamespace(refresh=lambda: None, rows=lambda *_: (False, list(self.rows)))
        made._steady = SimpleNamespace(
            take_all=lambda *_: None, has=lambda _: False, lend=lambda _: None, take_back=lambda _: None
        )
        made._find_addresses = made._show_lag = lambda: None
        made._connect = self.connect
        made._removed_files = SimpleNamespace(due_ms=lambda: 1 << 62, give_back=lambda: None)
        fetch = LeaderFetch(FOLLOWER, 1, FetchLimits(wait_max_ms=WAIT_MAX_MS))
        self.link = LeaderLink(LEADER, fetch, None, self.clock, lambda: None)
        made._links = {LEADER: self.link}

    def connect(self, link):
        if link.fetch.due_ms(self.clock.monotonic_ms()) != self.clock.monotonic_ms():
            return False
        self.connections.append(Connection(len(self.connections)))
        link.connection = self.made._by_fd[len(self.connections) - 1] = self.connections[-1]
        return True

    def follow(self, *partitions):
        self.rows = [Followed(number, b"t" * 16, number, LEADER, 1, 0, 0, 0, 0) for number in partitions]
        self.made._scan(self.clock.monotonic_ms())

    def serve(self, after_ms=0):
        """Twice: what was given up is begun anew in the turn after."""
        self.clock.advance(after_ms)
        for _ in range(2):
            self.made._serve(self.link)

    def asked(self):
        """Of each connection the partitions that its requests named."""
        return [
            [
                sorted(one.partition for topic in request.topics for one in topic.partitions)
                for request in each.asked
                if request is not None
            ]
            for each in self.connections
        ]


@pytest.fixture
def world(monkeypatch):
    return World(monkeypatch)


def test_a_partition_that_is_followed_from_now_on_does_not_wait_for_an_answer_that_is_held_back(world):
    world.follow(0)
    world.serve()
    world.follow(0, 1)
    world.serve(HELD_BACK_MS - 1)
    assert world.asked() == [[[0]]] and world.made._wait_s() == 0.001
    world.serve(1)
    assert world.asked() == [[[0]], [[0, 1]]] and world.connections[0].is_closed
    assert list(world.made._by_fd) == [1]
    world.serve(WAIT_MAX_MS)
    assert len(world.connections) == 2, "everything is asked for now"


def test_an_answer_that_comes_is_taken(world):
    world.follow(0)
    world.serve()
    world.follow(0, 1)
    world.made._on_event(world.link, 1)
    world.serve(HELD_BACK_MS)
    assert world.asked() == [[[0], [1]]]
    world.connections[0].is_partly_there = True
    world.follow(0, 1, 2)
    world.serve(HELD_BACK_MS)
    assert len(world.connections) == 1, "it is on its way"


def test_nothing_is_given_up_for_partitions_that_are_asked_for_or_wait_for_something_else(world):
    world.follow(0, 1)
    world.serve()
    world.follow(0, 1)
    world.follow(0)
    world.serve(HELD_BACK_MS)
    assert world.asked() == [[[0, 1]]]
    world.follow(0, 1)
    world.link.fetch.failed(1, world.clock.monotonic_ms())
    world.made._on_event(world.link, 1)
    world.serve()
    assert world.connections[0].asked[-1].max_wait_ms < HELD_BACK_MS, "it has its pause"
    world.follow(0, 1)
    world.serve(HELD_BACK_MS)
    assert len(world.connections) == 1
