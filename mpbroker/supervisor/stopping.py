"""The orderly end: which workers are told to stop when, and when patience ends; the supervisor steps it in its loop.

Stage 0 (acceptor, processors) ends with its requests in flight or after the drain timeout, then the handlers, then
controller and log keeper, last the tracer, which has seen every request by then.
"""

import signal
import time

from mpbroker.supervisor.process_types import STOP_STAGES
from mpbroker.supervisor.workers import Workers

FINISHED = STOP_STAGES
LOGS = 2  # the stage of the log keeper


class Stopping:
    """`stage` is the one told to stop last, -1 before the first. Times in seconds. `flush_s`: what the log keeper has
    to sync and write down everything; a slow disk must not turn every planned stop into a crash recovery."""

    def __init__(self, workers: Workers, drain_s: float, stop_s: float, flush_s: float) -> None:
        self.stage = -1
        self.killed: list[str] = []  # names of workers that had to be killed
        self._workers = workers
        self._stop_s, self._flush_s = stop_s, flush_s
        self._hurried = False
        now = self._told_at = time.monotonic()
        self._drain_deadline = now + drain_s + stop_s * 0.3  # processors keep the drain timeout themselves
        self._deadline = now + drain_s + stop_s * 0.8

    def hurry(self) -> None:
        """No more patience."""
        self._hurried = True

    def step(self) -> bool:
        """Do what is due. True when no worker is left."""
        while self.stage < FINISHED and not self._workers.alive(lambda plan: plan.type.stop_stage <= self.stage):
            self.stage += 1
            self._told_at = time.monotonic()
            self._workers.kill(signal.SIGTERM, lambda plan: plan.type.stop_stage == self.stage)
            self._workers.kill(signal.SIGCONT, lambda plan: plan.type.stop_stage == self.stage)
        if self.stage >= FINISHED:
            return True
        if time.monotonic() >= self._patience_ends():
            self._kill()
        return False

    def timeout_s(self) -> float:
        """Seconds until `step` has something to do by itself."""
        return max(0.01, self._patience_ends() - time.monotonic())

    def _patience_ends(self) -> float:
        if self._hurried:
            return 0.0
        if self.stage == 0:
            return self._drain_deadline
        if self.stage == LOGS:
            return self._told_at + self._flush_s
        return self._deadline if self.stage < LOGS else max(self._deadline, self._told_at + self._stop_s / 2)

    def _kill(self) -> None:
        for worker in self._workers.alive(lambda plan: plan.type.stop_stage <= self.stage):
            if worker.plan.name not in self.killed:
                self.killed.append(worker.plan.name)
                worker.kill(signal.SIGKILL)
