"""Kills workers of a running broker, one at random after the other, and waits for the successors."""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from typing import Any

from tests.harness.broker import Broker

#: How often each kind is chosen; those that handle requests most.
WEIGHTS = {"handler": 8, "processor": 6, "log-keeper": 2, "controller": 2, "coordinator": 2, "acceptor": 1, "tracer": 1}
SUCCESSOR_TIMEOUT_S = 20.0


class Killer:
    """SIGKILL for one worker after the other. `killed` counts by role, `restart_ms` how long successors took, by
    role."""

    def __init__(self, broker: Broker, seed: int, pause_s: float) -> None:
        self._broker = broker
        self._random = random.Random(seed)
        self._pause_s = pause_s
        self.killed: Counter[str] = Counter()
        self.restart_ms: dict[str, list[float]] = {}

    def kill_one(self) -> None:
        """Kill a running worker; four times of five wait for its successor, else let the next kill come at once."""
        rows = [row for row in self._workers() if row["state"] == "running"]
        row = self._random.choices(rows, [WEIGHTS[row["role"]] for row in rows])[0]
        begun = time.monotonic()
        try:
            os.kill(row["pid"], signal.SIGKILL)
        except ProcessLookupError:
            return
        self.killed[row["role"]] += 1
        if self._random.random() < 0.8:
            self._await_successor(row)
            self.restart_ms.setdefault(row["role"], []).append((time.monotonic() - begun) * 1000)
        time.sleep(self._random.uniform(0, 2 * self._pause_s))

    def settle(self) -> None:
        """Wait until every worker runs."""
        deadline = time.monotonic() + SUCCESSOR_TIMEOUT_S
        while not all(row["state"] == "running" for row in self._workers()):
            assert time.monotonic() < deadline, (
                f"not all workers came back: {self._workers()}\n{self._broker.log()[-5000:]}"
            )
            time.sleep(0.01)

    def _workers(self) -> list[dict[str, Any]]:
        return [row for row in self._broker.status()["processes"] if row["role"] in WEIGHTS]

    def _await_successor(self, dead: dict[str, Any]) -> None:
        deadline = time.monotonic() + SUCCESSOR_TIMEOUT_S
        while True:
            row = next((row for row in self._workers() if row["slot"] == dead["slot"]), None)
            if row is not None and row["state"] == "running" and row["pid"] not in (0, dead["pid"]):
                return
            assert time.monotonic() < deadline, (
                f"{dead['role']} {dead['index']} did not come back in "
                f"{SUCCESSOR_TIMEOUT_S} s: {row}\n{self._broker.log()[-5000:]}"
            )
            time.sleep(0.003)
