"""A signal ends what a process waits for in the extension: its handler runs at once, and what it raises is raised."""

import os
import select
import signal
import socket
import threading
import time

import pytest

from mpbroker import _native
from tests.harness.small_core import small_core

LONG_MS, SOON_S = 30_000, 15.0


class Signals:
    """SIGUSR1 again and again while `during` runs: the first one may come before the wait begins."""

    def __init__(self) -> None:
        self.seen = 0
        self.raises = False

    def came(self, *_):
        self.seen += 1
        if self.raises:
            self.raises = False  # once: what ends the signals is not to be interrupted
            raise KeyError("a signal")

    def during(self, call):
        over, main = threading.Event(), threading.get_ident()

        def send():
            while not over.wait(0.02):
                signal.pthread_kill(main, signal.SIGUSR1)

        sender = threading.Thread(target=send)
        begun_s = time.monotonic()
        try:
            sender.start()
            return call()
        finally:
            over.set()
            sender.join()
            assert time.monotonic() - begun_s < SOON_S and self.seen > 0


@pytest.fixture
def signals():
    made = Signals()
    before = signal.signal(signal.SIGUSR1, made.came)
    yield made
    signal.signal(signal.SIGUSR1, before)


class World:
    """Everything that waits."""

    def __init__(self, path) -> None:
        self.core = small_core(replicated=True).core
        self.processor, self.handler = _native.ProcessorPort(self.core, 0), _native.HandlerPort(self.core, 0)
        self.takes = _native.CommandPort(self.core, 112)
        self.epoll = select.epoll()
        self.turn = _native.NetworkTurn(self.processor, self.epoll.fileno(), 0, 0, 1000, -1, {})
        self.log = _native.Log(self.core, [str(path)], 118)
        self.fetches = _native.SteadyFetches(self.log, self.epoll.fileno())

    def close(self) -> None:
        self.log.close()
        self.epoll.close()


@pytest.fixture
def world(tmp_path):
    made = World(tmp_path)
    yield made
    made.close()


#: What waits, and what it says when it is interrupted.
WAITS = {
    "a service": (lambda w: w.core.wait_service(120, LONG_MS), False),
    "a controller": (lambda w: w.takes.claim(LONG_MS), None),
    "a handler": (lambda w: w.handler.serve_or_claim(LONG_MS), None),
    "a handler for ever": (lambda w: w.handler.serve_or_claim(-1), None),
    "a follower": (lambda w: w.fetches.poll(LONG_MS), []),
    "a processor": (lambda w: w.turn.poll(LONG_MS, 1, 1, 0, 0), False),
}


@pytest.mark.parametrize("name", WAITS)
def test_a_signal_ends_a_wait(world, signals, name):
    wait, said = WAITS[name]
    assert signals.during(lambda: wait(world)) == said


@pytest.mark.parametrize("name", WAITS)
def test_what_a_signal_raises(world, signals, name):
    wait, _ = WAITS[name]
    signals.raises = True
    with pytest.raises(KeyError, match="a signal"):
        signals.during(lambda: wait(world))


def test_a_part_of_an_answer_does_not_end_a_wait(world):
    """What is served natively is nobody's business; the time goes on from the first look."""
    near, far = socket.socketpair()
    assert world.fetches.begin(near.fileno(), "c", 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, []) is True
    world.epoll.register(near, select.EPOLLIN)
    far.send(b"\0\0")
    begun_ns = time.monotonic_ns()
    assert world.fetches.poll(60) == []
    assert 59_000_000 <= time.monotonic_ns() - begun_ns < SOON_S * 1e9
    far.close()
    ended = [(near.fileno(), select.EPOLLIN | select.EPOLLHUP)]
    assert world.fetches.poll(LONG_MS) == ended
    assert world.fetches.poll(0) == ended, "until it is taken back"
    world.epoll.unregister(near)
    assert world.fetches.take_back(near.fileno())[5:7] == (b"\0\0", b"")
    near.close()


def test_events_of_more_descriptors_than_are_looked_at_once(world):
    """All of them are told, some in each look."""
    pipes = [os.pipe() for _ in range(20)]
    for reading, writing in pipes:
        world.epoll.register(reading, select.EPOLLIN)
        os.write(writing, b"x")
    told = set()
    for _ in range(3):
        found = world.fetches.poll(LONG_MS)
        assert 1 <= len(found) <= 16 and {what for _, what in found} == {select.EPOLLIN}
        told |= {fd for fd, _ in found}
    assert told == {reading for reading, _ in pipes}
    for pipe in pipes:
        for end in pipe:
            os.close(end)


def test_what_is_over_already_is_not_waited_for(world):
    """The least of many: the machine may be busy, but not every time."""
    spent_ns = []
    for _ in range(50):
        begun_ns = time.monotonic_ns()
        assert world.fetches.poll(-1) == []
        spent_ns.append(time.monotonic_ns() - begun_ns)
    assert min(spent_ns) < 900_000
