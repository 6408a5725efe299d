"""Stop order and patience, stepped with workers that are only noted down."""

import signal

import pytest

from mpbroker.supervisor import stopping as module
from mpbroker.supervisor.process_types import PROCESS_TYPES, ProcessPlan
from mpbroker.supervisor.stopping import Stopping
from mpbroker.supervisor.workers import Worker, Workers


class NotedWorker(Worker):
    def __init__(self, plan):
        super().__init__(plan)
        self.signals = []
        self.pidfd = 1_000_000

    def kill(self, number):
        self.signals.append(number)

    def end(self):
        self.pidfd = -1


@pytest.fixture
def workers():
    found = Workers([])
    found.all = [NotedWorker(ProcessPlan(row, 0)) for row in PROCESS_TYPES]
    return found


@pytest.fixture
def clock(monkeypatch):
    class Clock:
        now = 100.0

        def monotonic(self):
            return self.now

    clock = Clock()
    monkeypatch.setattr(module, "time", clock)
    return clock


def _told(workers):
    return {worker.plan.type.role for worker in workers.all if signal.SIGTERM in worker.signals}


def test_each_stage_waits_for_the_one_before(workers, clock):
    stopping = Stopping(workers, 4.0, 1.0, 3.0)
    order = [
        {"acceptor", "processor"},
        {"handler", "coordinator", "admin", "cluster-controller", "fetcher"},
        {"controller", "log-keeper"},
        {"tracer"},
    ]
    told = set()
    for stage in order:
        assert not stopping.step()
        told |= stage
        assert _told(workers) == told
        assert not stopping.step() and _told(workers) == told
        for worker in workers.all:
            if worker.plan.type.role in stage:
                worker.end()
    assert stopping.step() and stopping.killed == []


def test_who_does_not_drain_is_killed_and_the_rest_still_has_its_turn(workers, clock):
    stopping = Stopping(workers, 4.0, 1.0, 3.0)
    stopping.step()
    clock.now += 4.0
    stopping.step()
    assert stopping.killed == []
    clock.now += 0.31
    stopping.step()
    assert sorted(stopping.killed) == ["acceptor 0", "processor 0"]
    assert _told(workers) == {"acceptor", "processor"}


def test_everything_is_over_within_the_timeouts(workers, clock):
    stopping = Stopping(workers, 4.0, 1.0, 3.0)
    end = clock.now + 4.0 + 3.0 + 1.5
    while not stopping.step():
        for worker in workers.all:
            if signal.SIGKILL in worker.signals:
                worker.end()
        clock.now += 0.05
    assert clock.now <= end + 0.3 and len(stopping.killed) == len(workers.all)


def test_a_second_signal_is_at_once(workers, clock):
    stopping = Stopping(workers, 4.0, 1.0, 3.0)
    stopping.step()
    stopping.hurry()
    stopping.step()
    assert sorted(stopping.killed) == ["acceptor 0", "processor 0"]


def test_the_log_keeper_has_its_own_time_counted_from_its_own_signal(workers, clock):
    stopping = Stopping(workers, 4.0, 1.0, 30.0)
    while stopping.stage < 2:
        stopping.step()
        for worker in workers.all:
            if worker.plan.type.stop_stage < 2:
                worker.end()
    clock.now += 29.9
    stopping.step()
    assert stopping.killed == []
    assert stopping.timeout_s() == pytest.approx(0.1)
    clock.now += 0.2
    stopping.step()
    assert sorted(stopping.killed) == ["controller 0", "log-keeper 0"]
    for worker in workers.all:
        if worker.plan.type.stop_stage == 2:
            worker.end()
    stopping.step()
    assert stopping.timeout_s() == pytest.approx(0.5), "the tracer still has time to write down what they did"


def test_until_when_each_stage_has_time(workers, clock):
    """Of ten seconds for a stop the processors have three beyond the drain timeout, the handlers five more; what was
    written must reach the disk, in its own time; the tracer has half of ten seconds, or what is left of the eight."""
    stopping = Stopping(workers, 4.0, 10.0, 16.0)
    assert (stopping.stage, stopping.killed) == (-1, [])
    began, told_at = clock.now, [0.0, 1.0, 5.0, 7.0]
    for stage, ends in enumerate((7.0, 12.0, told_at[2] + 16.0, 12.0)):
        clock.now = began + told_at[stage]
        stopping.step()
        assert stopping.stage == stage and stopping.timeout_s() == ends - told_at[stage]
        for worker in workers.all:
            if worker.plan.type.stop_stage == stage < 3:
                worker.end()
    clock.now = began + 11.75
    stopping.step()
    assert stopping.killed == [] and stopping.timeout_s() == 0.25
    clock.now = began + 12.0
    stopping.step()
    assert stopping.killed == ["tracer 0"] and stopping.timeout_s() == 0.01, "again soon, but not at once"


def test_who_is_stopped_by_somebody_hears_of_the_end_all_the_same(workers, clock):
    """A stopped process would take no SIGTERM until it goes on."""
    Stopping(workers, 4.0, 1.0, 3.0).step()
    for worker in workers.all:
        told = [signal.SIGTERM, signal.SIGCONT] if worker.plan.type.stop_stage == 0 else []
        assert worker.signals == told


def test_who_had_to_be_killed_is_named_and_killed_once(workers, clock):
    stopping = Stopping(workers, 4.0, 1.0, 3.0)
    stopping.hurry()
    for _ in range(3):
        assert stopping.step() is False
    assert sorted(stopping.killed) == ["acceptor 0", "processor 0"]
    assert all(worker.signals.count(signal.SIGKILL) == (worker.plan.type.stop_stage == 0) for worker in workers.all)
