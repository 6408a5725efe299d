"""The thread that flushes beside the log keeper's jobs: whom it wakes and when, how it ends, and what if it breaks."""

import os
import queue
import threading
import time

import pytest

from mpbroker.log import flush_thread
from mpbroker.log.flush_thread import FlushThread

PATIENCE_S = 10


class World:
    """`rings`: what the bell says, in turn; `done`: what was called in the thread."""

    def __init__(self):
        self.done, self.rings, self.drained = queue.SimpleQueue(), queue.SimpleQueue(), []
        self.signals, self._signal = os.pipe2(os.O_NONBLOCK)
        self.made = FlushThread(
            lambda: self.done.put("flush"),
            lambda: self.rings.get(timeout=PATIENCE_S),
            lambda: self.rings.put(True),
            self.signals,
            lambda: self.drained.append(os.read(self.signals, 9)),
        )

    def signal(self):
        os.write(self._signal, b"s")

    def close(self):
        for descriptor in (self.signals, self._signal, self.made._rung):
            os.close(descriptor)


@pytest.fixture
def world():
    world = World()
    yield world
    world.close()


def waited_s(world, wait_ms):
    begun = time.monotonic()
    world.made.wait(wait_ms)
    return time.monotonic() - begun


def test_each_ring_is_a_flush_and_then_the_main_threads_turn(world):
    world.made.start()
    world.rings.put(True)
    assert waited_s(world, PATIENCE_S * 1000) < PATIENCE_S
    assert world.done.get_nowait() == "flush", "before the main thread was woken"
    assert waited_s(world, 20) >= 0.02, "one ring is one turn"
    world.rings.put(False)
    assert world.done.get(timeout=PATIENCE_S) == "flush", "its time was over"
    assert waited_s(world, 20) >= 0.02, "which is nothing to the main thread"
    world.made.stop()


def test_it_flushes_while_the_main_thread_is_at_a_slow_disk(world):
    world.made.start()
    for _ in range(5):
        world.rings.put(True)
        assert world.done.get(timeout=PATIENCE_S) == "flush"
    world.made.stop()


def test_a_signal_wakes_the_main_thread(world):
    world.signal()
    assert waited_s(world, PATIENCE_S * 1000) < PATIENCE_S
    assert world.drained == [b"s"] and waited_s(world, 20) >= 0.02


def test_it_has_ended_when_it_is_stopped(world):
    world.made.start()
    world.made.stop()
    assert not world.made._thread.is_alive()


def test_one_that_is_broken_ends_the_process(world, monkeypatch):
    """Another one takes over."""
    codes = []
    monkeypatch.setattr(flush_thread.os, "_exit", codes.append)
    world.made._flush = lambda: 1 // 0
    world.rings.put(True)
    threading.Thread.run(world.made._thread)
    assert codes == [1]
