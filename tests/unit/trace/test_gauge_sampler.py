"""Gauges of a moment: rings as they are, processes that live, each with a descriptor that is kept while it lives."""

import errno
from types import SimpleNamespace

import pytest

from mpbroker.shm.process_table import ProcessState
from mpbroker.trace import gauge_sampler
from mpbroker.trace.gauge import ProcessGauge, RingGauge
from mpbroker.trace.gauge_sampler import GaugeSampler


class World:
    """Processes by pid: (processor time, what schedstat says or None); descriptors are 100 + pid."""

    def __init__(self, monkeypatch):
        self.processes, self.done, self.first_file = {}, [], 100
        monkeypatch.setattr(gauge_sampler.time, "clock_gettime_ns", self.time_of)
        fake = SimpleNamespace(open=self.open, pread=self.read, close=self.done.append, O_RDONLY=0, O_CLOEXEC=0)
        monkeypatch.setattr(gauge_sampler, "os", fake)
        self.sampler = GaugeSampler()

    def time_of(self, clock):
        pid = ~(clock >> 3)
        assert clock & 7 == 2
        if pid not in self.processes:
            raise OSError(errno.ESRCH, "gone")
        return self.processes[pid][0]

    def open(self, path, _flags):
        pid = int(path.split("/")[2])
        assert path == f"/proc/{pid}/schedstat"
        if self.processes[pid][1] is None:
            raise OSError(errno.ENOENT, "the system has none")
        self.done.append(f"open {pid}")
        return self.first_file + pid

    def read(self, descriptor, most, at):
        assert (most, at) == (80, 0)
        return self.processes[descriptor - self.first_file][1]

    def look(self, *rows, rings=()):
        return self.sampler.sample(9, [row_of(*row) for row in rows], rings)


def row_of(slot, pid, state=ProcessState.RUNNING):
    return SimpleNamespace(slot=slot, pid=pid, state=state, role=4, index=5, incarnation=6)


def gauge(slot, pid, cpu_ns, wait_ns):
    return ProcessGauge(9, slot, cpu_ns, wait_ns, pid, 4, 5, 6)


@pytest.fixture
def world(monkeypatch):
    return World(monkeypatch)


def test_a_descriptor_is_kept_while_the_same_process_has_the_slot(world):
    world.processes = {7: (70, b"1 2 3"), 8: (80, b"4 5 6")}
    assert world.look((1, 7), (2, 8)) == [gauge(1, 7, 70, 2), gauge(2, 8, 80, 5)]
    assert world.look((1, 7), (2, 8)) == [gauge(1, 7, 70, 2), gauge(2, 8, 80, 5)]
    assert world.done == ["open 7", "open 8"]
    world.processes[9] = (90, b"7 8 9")
    assert world.look((1, 9)) == [gauge(1, 9, 90, 8)] and world.done[2:] == [107, "open 9"]
    world.sampler.close()
    assert sorted(world.done[4:]) == [108, 109]
    world.sampler.close()
    assert len(world.done) == 6


def test_who_has_ended_is_left_out_and_its_descriptor_given_back(world):
    world.processes = {7: (70, b"1 2 3")}
    world.look((1, 7))
    del world.processes[7]
    assert world.look((1, 7), (2, 8)) == [] and world.done == ["open 7", 107]


@pytest.mark.parametrize("state", [ProcessState.DEAD, ProcessState.EMPTY])
def test_rows_of_nobody_are_left_out(world, state):
    world.processes = {7: (70, b"1 2 3")}
    assert world.look((1, 7, state), (2, 0)) == [] and world.done == []


@pytest.mark.parametrize("text", [b"", b"1", b"1 x 3"])
def test_a_wait_that_cannot_be_read_is_not_known(world, text):
    world.processes = {7: (70, text)}
    assert world.look((1, 7)) == [gauge(1, 7, 70, None)]


def test_where_the_system_has_no_waits_it_is_asked_once(world):
    world.processes = {7: (70, None)}
    for _ in range(2):
        assert world.look((1, 7)) == [gauge(1, 7, 70, None)]
    world.processes[7] = (70, b"1 2 3")
    assert world.look((1, 7)) == [gauge(1, 7, 70, None)]
    world.sampler.close()
    assert world.done == []


def test_rings_come_first(world):
    world.processes = {7: (70, b"1 2 3")}
    ring = SimpleNamespace(number=3, depth=4, capacity=5, peak=6)
    assert world.look((1, 7), rings=[ring]) == [RingGauge(9, 3, 4, 5, 6), gauge(1, 7, 70, 2)]


@pytest.mark.parametrize("pid", [1, 7])
def test_every_descriptor_and_every_pid_is_one(world, pid):
    """0 is a descriptor where the tracer's input was closed, and in a container the supervisor is 1."""
    world.processes, world.first_file = {pid: (70, b"1 2 3")}, -pid
    for _ in range(2):
        assert world.look((4, pid)) == [gauge(4, pid, 70, 2)]
    assert world.done == [f"open {pid}"]
    world.sampler.close()
    assert world.done == [f"open {pid}", 0]
