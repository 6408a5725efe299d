"""Who has nothing to do gives back the copies of the heap's image that say what it says; who has work goes on with it.

The first look of a process is due a second after it first had nothing to do, so every case is a fork of one process,
and all of them wait for that second together.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
SCRIPT = """
import os, select, socket, time
from mpbroker import _native
from tests.harness.small_core import small_core

FRAME = bytes.fromhex("0003 0001 00000007 0002") + b"me"


class World:
    # one for each case: forks would share its memory and its epoll

    def __init__(self):
        self.core = small_core().core
        self.row = _native.ProcessRow(self.core, 120)
        self.processor, self.handler = _native.ProcessorPort(self.core, 0), _native.HandlerPort(self.core, 0)
        self.sends, self.takes = _native.CommandPort(self.core, 48), _native.CommandPort(self.core, 112)
        self.epoll = select.epoll()
        self.turn = _native.NetworkTurn(self.processor, self.epoll.fileno(), 0, 0, 1000, -1, {})
        near, self.far = socket.socketpair()
        near.setblocking(False)
        self.connection = _native.Connection(near.detach(), 1, 2, 3)
        self.turn.add(self.connection)

    def readable(self):
        reading, writing = os.pipe()
        os.write(writing, b"x")
        self.epoll.register(reading, select.EPOLLIN)

    def polled(self):
        self.turn.poll(1, 0, 1, 0, 0)

    def woken(self, waits, wake):
        if os.fork() == 0:
            time.sleep(0.05)
            wake()
            os._exit(0)
        waits(5000.0)
        os.wait()


#: What happens before, and the call.
CASES = {
    "a beat": (lambda w: None, lambda w: w.row.beat()),
    "a service": (lambda w: None, lambda w: w.core.wait_service(120, 0.0)),
    "a service that was rung": (lambda w: w.core.ring_service(120), lambda w: w.core.wait_service(120, 0.0)),
    "a controller": (lambda w: None, lambda w: w.takes.claim(0.0)),
    "a controller with a command": (lambda w: w.sends.send(b"x", 9), lambda w: w.takes.claim(0.0)),
    "a handler": (lambda w: None, lambda w: w.handler.serve_or_claim(1.0)),
    "a handler with a request": (
        lambda w: w.processor.submit(0, 5, 6, 7, FRAME, 1), lambda w: w.handler.serve_or_claim(1.0)
    ),
    "a controller that was woken": (
        lambda w: None, lambda w: w.woken(w.takes.claim, lambda: w.sends.send(b"x", 9))
    ),
    "a handler that was woken": (
        lambda w: None,
        lambda w: w.woken(w.handler.serve_or_claim, lambda: w.processor.submit(0, 5, 6, 7, FRAME, 1)),
    ),
    "a processor": (lambda w: None, World.polled),
    "a processor with a connection": (lambda w: w.turn.schedule(w.connection), World.polled),
    "a processor with an event": (World.readable, World.polled),
}
texts = [str(number) for number in range(60_000)]
assert _native.take_heap_image() > 0
for name, (before, call) in CASES.items():
    if os.fork() == 0:
        world = World()
        world.row.beat()
        before(world)
        time.sleep(1.05)
        for text in texts:  # each is counted up and down: every page of them is copied, and what it was again
            pass
        call(world)
        os.write(1, f"{name}: {_native.give_back_heap()}\\n".encode())
        os._exit(0)
for _ in CASES:
    os.wait()
"""


@pytest.fixture(scope="module")
def left():
    """Case → bytes that a second look still found."""
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    words = [sys.executable, "-c", SCRIPT]
    told = subprocess.run(words, env=environment, capture_output=True, text=True, check=True, timeout=60).stdout
    return {name: int(bytes_left) for name, bytes_left in (line.split(": ") for line in told.splitlines())}


@pytest.mark.parametrize("name", ["a beat", "a service", "a controller", "a handler", "a processor"])
def test_who_is_idle_has_looked(left, name):
    assert left[name] < 1 << 19


@pytest.mark.parametrize(
    "name",
    [
        "a service that was rung",
        "a controller with a command",
        "a controller that was woken",
        "a handler that was woken",
        "a handler with a request",
        "a processor with a connection",
        "a processor with an event",
    ],
)
def test_who_has_work_has_not(left, name):
    assert left[name] > 1 << 20
