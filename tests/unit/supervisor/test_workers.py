"""How a worker died is read before it is reaped; successors of short lives wait."""

import os
import signal
import subprocess
import sys
from types import SimpleNamespace

import pytest

from mpbroker.supervisor import workers as workers_module
from mpbroker.supervisor.process_types import ProcessPlan, process_type
from mpbroker.supervisor.workers import (
    FREE_SHORT_LIVES,
    MAX_DELAY_OF_KILLED_S,
    MAX_DELAY_S,
    SHORT_LIFE_S,
    Worker,
    Workers,
)

PLAN = ProcessPlan(process_type("handler"), 1)


def _running(code):
    process = subprocess.Popen([sys.executable, "-c", code])
    worker = Worker(PLAN)
    worker.started(process.pid, os.pidfd_open(process.pid))
    return process, worker


def _death(worker):
    os.waitid(os.P_PIDFD, worker.pidfd, os.WEXITED | os.WNOWAIT)
    return worker.look()


@pytest.mark.parametrize(
    ("code", "number", "exit_code", "is_fault"),
    [
        ("raise SystemExit(0)", 0, 0, False),
        ("raise SystemExit(2)", 0, 2, False),
        ("import os; os.kill(os.getpid(), 9)", signal.SIGKILL, -1, False),
        ("import os; os.kill(os.getpid(), 15)", signal.SIGTERM, -1, False),
        ("import os; os.kill(os.getpid(), 11)", signal.SIGSEGV, -1, True),
        ("import os; os.kill(os.getpid(), 7)", signal.SIGBUS, -1, True),
        ("import os; os.abort()", signal.SIGABRT, -1, True),
        ("import os; os.kill(os.getpid(), 4)", signal.SIGILL, -1, True),
        ("import os; os.kill(os.getpid(), 8)", signal.SIGFPE, -1, True),
    ],
)
def test_a_death_is_read_then_reaped(code, number, exit_code, is_fault):
    process, worker = _running(f"import resource; resource.setrlimit(resource.RLIMIT_CORE, (0, 0)); {code}")
    death = _death(worker)
    assert (death.signal, death.exit_code, death.is_fault, death.pid) == (number, exit_code, is_fault, process.pid)
    assert os.path.exists(f"/proc/{process.pid}"), "not reaped yet: nobody else can have the pid"
    descriptor = worker.pidfd
    worker.reap()
    assert (worker.pid, worker.pidfd) == (0, -1)
    with pytest.raises(OSError):
        os.fstat(descriptor)
    assert not worker.alive and not os.path.exists(f"/proc/{process.pid}")
    process.returncode = 0  # reaped by us


def test_the_living_have_no_death():
    process, worker = _running("import time; time.sleep(60)")
    assert worker.look() is None and worker.alive
    worker.kill(signal.SIGKILL)
    assert _death(worker).signal == signal.SIGKILL
    worker.kill(signal.SIGTERM)
    worker.reap()
    process.returncode = 0


def test_successors_of_short_lives_wait_longer_and_longer():
    worker = Worker(PLAN)
    delays = []
    for _ in range(FREE_SHORT_LIVES + 10):
        worker.started(0, -1)
        delays.append(worker.plan_restart())
    assert delays[:FREE_SHORT_LIVES] == [0.0] * FREE_SHORT_LIVES
    assert delays[FREE_SHORT_LIVES] > 0 and delays == sorted(delays) and delays[-1] == MAX_DELAY_S


def test_a_long_life_forgets_the_short_ones_before_it(monkeypatch):
    now_s = [1000.0]
    monkeypatch.setattr("mpbroker.supervisor.workers.time.monotonic", lambda: now_s[0])
    worker = Worker(PLAN)
    for _ in range(FREE_SHORT_LIVES + 3):
        worker.started(0, -1)
        delay_s = worker.plan_restart()
    assert delay_s > 0 and worker.unsteady and worker.restart_at == now_s[0] + delay_s
    worker.started(0, -1)
    now_s[0] += SHORT_LIFE_S
    assert worker.plan_restart() == 0.0 and not worker.unsteady
    worker.started(0, -1)
    assert worker.plan_restart() == 0.0 and worker.short_lives == 1


def test_successors_of_killed_workers_hardly_wait():
    worker = Worker(PLAN)
    for _ in range(FREE_SHORT_LIVES + 10):
        worker.started(0, -1)
        assert worker.plan_restart(killed=True) <= MAX_DELAY_OF_KILLED_S


def test_due_successors_are_found():
    workers = Workers([PLAN, ProcessPlan(process_type("handler"), 2)])
    assert workers.due() == [] and workers.next_due_s() is None
    workers.all[0].plan_restart()
    assert workers.due() == [workers.all[0]] and workers.next_due_s() == 0.0
    workers.forget_restarts()
    assert workers.due() == []


def test_a_slot_whose_process_was_forked_has_no_successor_due():
    worker = Worker(SimpleNamespace(name="one"))
    worker.restart_at, worker.short_lives = 17.0, 3
    worker.started(99, -1)
    assert (worker.pid, worker.pidfd, worker.restart_at, worker.short_lives) == (99, -1, 0.0, 3)
    assert 0 <= worker.age_s < 60 and not worker.alive
    worker.settled()
    assert worker.short_lives == 0


def test_a_slot_has_no_process_before_the_first_is_forked():
    worker = Worker(PLAN)
    assert (worker.pid, worker.pidfd, worker.alive, worker.leaving) == (0, -1, False, False)
    assert (worker.restart_at, worker.short_lives, worker.unsteady) == (0.0, 0, False)
    worker.kill(signal.SIGKILL)  # nobody


@pytest.fixture
def clock(monkeypatch):
    now = SimpleNamespace(s=1000.0, signalled=[])
    monkeypatch.setattr(workers_module, "time", SimpleNamespace(monotonic=lambda: now.s))
    monkeypatch.setattr(workers_module.signal, "pidfd_send_signal", lambda *how: now.signalled.append(how))
    return now


def test_after_how_many_short_lives_a_successor_waits_for_how_long(clock):
    """Doubled each time, from a fifth of a second on, up to five seconds."""
    worker = Worker(PLAN)
    found = []
    for _ in range(13):
        worker.started(1, -1)
        found.append((worker.plan_restart(), worker.unsteady))
        assert worker.restart_at == clock.s + found[-1][0]
    assert found == [(0.0, False)] * 5 + [(delay, True) for delay in (0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0, 5.0)]


def test_whose_successor_is_due_and_when_the_next_one_is(clock):
    workers = Workers(ProcessPlan(process_type("handler"), index) for index in range(4))
    soon, now, lives, never = workers.all
    soon.restart_at, now.restart_at, lives.restart_at, lives.pidfd = 1000.5, 1000.0, 999.0, 0
    assert workers.due() == [now] and workers.next_due_s() == 0.0
    now.restart_at = 1003.0
    assert workers.due() == [] and workers.next_due_s() == 0.5
    clock.s = 1002.0
    assert workers.due() == [soon] and workers.next_due_s() == 0.0
    workers.forget_restarts()
    assert workers.due() == [] and workers.next_due_s() is None and not never.restart_at


def test_every_descriptor_is_one_of_a_process_and_only_those_are_signalled(clock):
    """0 is one where the supervisor's input was closed."""
    workers = Workers([])
    first, second, third = (workers.add(ProcessPlan(process_type(role), 0)) for role in ("handler", "tracer", "admin"))
    assert workers.all == [first, second, third] and workers.alive() == []
    first.pidfd, second.pidfd = 0, 7
    assert workers.alive() == [first, second]
    assert workers.alive(lambda plan: plan.type.role in ("tracer", "admin")) == [second]
    workers.kill(15)
    assert clock.signalled == [(0, 15), (7, 15)]
    workers.kill(9, lambda plan: plan.type.role == "handler")
    assert clock.signalled[2:] == [(0, 9)]
    workers.remove(second)
    assert workers.all == [first, third]
