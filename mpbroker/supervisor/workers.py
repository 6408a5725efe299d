"""The workers as the supervisor sees them: which run, how they died, when a successor may be forked. Supervisor only.

A death is looked at before it is reaped (waitid with WNOWAIT), so that the pid cannot be used again while the process
table still names it. Only pidfds are ever signalled or waited for.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterable
from typing import NamedTuple

from mpbroker.supervisor.process_types import ProcessPlan

FAULT_SIGNALS = frozenset({signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGFPE, signal.SIGABRT})
"""After one of these shared memory may be scribbled over: everything is rebuilt."""

SHORT_LIFE_S = 0.5
FREE_SHORT_LIVES = 5  # successors forked at once although each lived shortly
MAX_DELAY_S = 5.0
MAX_DELAY_OF_KILLED_S = 0.05
"""Whoever kills a worker expects its successor; only so much that a machine out of memory is not kept busy forking."""


class Death(NamedTuple):
    """One process that ended. `status` as wait(2) has it."""

    plan: ProcessPlan
    pid: int
    status: int

    @property
    def signal(self) -> int:
        """The signal that killed it, 0 when it exited."""
        return os.WTERMSIG(self.status) if os.WIFSIGNALED(self.status) else 0

    @property
    def exit_code(self) -> int:
        """Its exit code, -1 when a signal killed it."""
        return os.WEXITSTATUS(self.status) if os.WIFEXITED(self.status) else -1

    @property
    def is_fault(self) -> bool:
        """Whether shared memory can no longer be trusted."""
        return self.signal in FAULT_SIGNALS


class Worker:
    """One slot: its plan, and its process while there is one (`pidfd` -1 otherwise)."""

    def __init__(self, plan: ProcessPlan) -> None:
        self.plan = plan
        self.pid = 0
        self.pidfd = -1
        self.restart_at = 0.0  # monotonic seconds; 0: no successor is due
        self.short_lives = 0
        self.leaving = False  # it was told to go for good; its successor, should it die first, is told so, too
        self._started = 0.0

    @property
    def alive(self) -> bool:
        """Whether its process has not been reaped."""
        return self.pidfd >= 0

    @property
    def unsteady(self) -> bool:
        """Whether its processes die so young that successors are delayed."""
        return self.short_lives > FREE_SHORT_LIVES

    @property
    def age_s(self) -> float:
        """Seconds since its last process was forked."""
        return time.monotonic() - self._started

    def settled(self) -> None:
        """Its process lives long: earlier deaths do not delay a successor any more."""
        self.short_lives = 0

    def started(self, pid: int, pidfd: int) -> None:
        """A process was forked for this slot."""
        self.pid, self.pidfd = pid, pidfd
        self.restart_at = 0.0
        self._started = time.monotonic()

    def look(self) -> Death | None:
        """The death of its process, not reaped yet; None while it lives."""
        found = os.waitid(os.P_PIDFD, self.pidfd, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if found is None:
            return None
        status = found.si_status << 8 if found.si_code == os.CLD_EXITED else found.si_status
        return Death(self.plan, self.pid, status)

    def reap(self) -> None:
        """Let the pid go."""
        os.waitid(os.P_PIDFD, self.pidfd, os.WEXITED)
        os.close(self.pidfd)
        self.pid, self.pidfd = 0, -1

    def plan_restart(self, killed: bool = False) -> float:
        """Decide when the successor may start; returns the delay in seconds. Slots that keep dying young wait longer,
        those that a signal kills not much."""
        now = time.monotonic()
        self.short_lives = self.short_lives + 1 if now - self._started < SHORT_LIFE_S else 0
        excess = self.short_lives - FREE_SHORT_LIVES
        delay = (
            min(MAX_DELAY_OF_KILLED_S if killed else MAX_DELAY_S, 0.1 * 2.0 ** min(excess, 10)) if excess > 0 else 0.0
        )
        self.restart_at = now + delay
        return delay

    def kill(self, number: int) -> None:
        """Send a signal; nothing happens if it is dead already."""
        if self.pidfd >= 0:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self.pidfd, number)


class Workers:
    """All slots."""

    def __init__(self, plans: Iterable[ProcessPlan]) -> None:
        self.all = [Worker(plan) for plan in plans]

    def add(self, plan: ProcessPlan) -> Worker:
        """A slot more."""
        worker = Worker(plan)
        self.all.append(worker)
        return worker

    def remove(self, worker: Worker) -> None:
        """A slot whose process has left."""
        self.all.remove(worker)

    def alive(self, chosen: Callable[[ProcessPlan], bool] = lambda plan: True) -> list[Worker]:
        """Those with a process."""
        return [worker for worker in self.all if worker.alive and chosen(worker.plan)]

    def due(self) -> list[Worker]:
        """Those whose successor may start now."""
        now = time.monotonic()
        return [worker for worker in self.all if worker.restart_at and worker.restart_at <= now and not worker.alive]

    def next_due_s(self) -> float | None:
        """Seconds until the next successor may start; None when none is due."""
        times = [worker.restart_at for worker in self.all if worker.restart_at and not worker.alive]
        return max(0.0, min(times) - time.monotonic()) if times else None

    def kill(self, number: int, chosen: Callable[[ProcessPlan], bool] = lambda plan: True) -> None:
        """Signal all of a kind."""
        for worker in self.alive(chosen):
            worker.kill(number)

    def forget_restarts(self) -> None:
        """No successor is due any more."""
        for worker in self.all:
            worker.restart_at = 0.0
