"""Every listener is asked until it has answered once; stepped."""

from types import SimpleNamespace

import pytest

from mpbroker.supervisor import probes as probes_module
from mpbroker.supervisor.probes import AGAIN_S, Probes


class Probe:
    """One of a listener: `fails` to start so often; its answer comes when the test says so."""

    def __init__(self, number):
        self.number, self.answered, self.socket, self.fails, self.starts, self.closed = number, False, None, 0, 0, False
        self.ends = True

    def start(self):
        self.starts += 1
        if self.fails:
            self.fails -= 1
            raise OSError("refused")
        self.socket = SimpleNamespace(fileno=lambda: self.number)
        return self.socket

    def readable(self):
        if self.ends:
            self.socket = None
        return self.ends

    def close(self):
        self.closed = True


@pytest.fixture
def world(monkeypatch):
    made = SimpleNamespace(now_s=10.0, watched=[])
    monkeypatch.setattr(probes_module, "ReadyProbe", Probe)
    monkeypatch.setattr(probes_module, "time", SimpleNamespace(monotonic=lambda: made.now_s))
    epoll = SimpleNamespace(register=lambda fd, _events: made.watched.append(fd))
    made.probes = Probes(epoll, (5, 6))
    made.first, made.second = made.probes._probes
    return made


def answer(world, probe, answered=True, ends=True):
    probe.answered, probe.ends = answered, ends
    world.probes.readable(probe.number)


def test_ready_is_when_every_listener_has_answered(world):
    for probe in (world.first, world.second):
        probe.answered = True
    assert world.probes.step() is False, "it has not begun"
    world.first.answered = world.second.answered = False
    world.probes.begin()
    assert world.watched == [5, 6] and world.probes.timeout_s() is None
    answer(world, world.first)
    assert world.probes.step() is False and world.probes.timeout_s() is None
    answer(world, world.second)
    assert world.probes.step() is True
    assert (world.first.starts, world.second.starts) == (1, 1)


def test_who_could_not_be_asked_is_asked_again_and_nobody_else(world):
    world.first.fails = 1
    world.probes.begin()
    assert world.watched == [6] and world.probes.timeout_s() == pytest.approx(AGAIN_S)
    world.now_s += AGAIN_S / 2
    world.probes.step()
    assert world.watched == [6] and world.probes.timeout_s() == pytest.approx(AGAIN_S / 2)
    world.now_s += AGAIN_S
    assert world.probes.timeout_s() == 0
    world.probes.step()
    assert world.watched == [6, 5] and world.probes.timeout_s() is None and world.second.starts == 1


def test_at_the_moment_it_is_due_a_listener_is_asked_again(world):
    """The loop wakes at it: later would be after another turn."""
    world.first.fails = 1
    world.probes.begin()
    world.now_s = 10.0 + AGAIN_S
    assert world.probes.timeout_s() == 0
    world.probes.step()
    assert world.watched == [6, 5]


def test_an_answer_that_is_none_is_asked_for_again(world):
    world.probes.begin()
    answer(world, world.first)
    answer(world, world.second, answered=False, ends=False)
    world.probes.step()
    assert world.probes.timeout_s() is None, "the rest of it is awaited"
    answer(world, world.second, answered=False)
    assert world.probes.timeout_s() == pytest.approx(AGAIN_S) and 6 not in world.probes._by_fd
    world.probes.readable(6)
    world.now_s += AGAIN_S + 0.001
    assert world.probes.step() is False
    assert (world.first.starts, world.second.starts) == (1, 2) and world.watched == [5, 6, 6]
    answer(world, world.second)
    assert world.probes.step() is True


def test_all_are_given_up_together(world):
    world.probes.begin()
    world.probes.close()
    assert world.first.closed and world.second.closed and not world.probes._by_fd
