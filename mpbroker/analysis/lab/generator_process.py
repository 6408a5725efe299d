"""Starts generator processes, gives them one start time, collects what they say. Owned by whoever runs the
laboratory."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Collection
from pathlib import Path
from typing import Any

from mpbroker.analysis.lab.generator_plan import GeneratorPlan
from mpbroker.errors import MpbrokerError

READY_TIMEOUT_S, END_TIMEOUT_S = 40.0, 30.0


class GeneratorFailed(MpbrokerError):
    """A generator process ended early; the message has its last words."""


class GeneratorProcess:
    """One group of clients. Leaving the block ends the process, whatever it does."""

    def __init__(self, plan: GeneratorPlan, directory: Path, cores: Collection[int] = ()) -> None:
        """`cores`: processors (of the machine) that it is pinned to; none: as the one who starts it."""
        self.plan = plan
        self._cores = cores
        self._errors = directory / f"{plan.client_id}.{plan.process}.stderr"
        self._plan_file = directory / f"{plan.client_id}.{plan.process}.json"

    def __enter__(self) -> GeneratorProcess:
        self._plan_file.write_text(json.dumps(self.plan._asdict()))
        mine = os.sched_getaffinity(0)
        try:
            if self._cores:
                os.sched_setaffinity(0, self._cores)  # inherited by what is started now
            with open(self._errors, "wb") as errors:
                self._process = subprocess.Popen(
                    [sys.executable, "-m", "mpbroker.analysis.lab.generator", str(self._plan_file)],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=errors,
                    start_new_session=True,
                )
        finally:
            os.sched_setaffinity(0, mine)
        return self

    def wait_ready(self) -> None:
        """Every connection stands."""
        if self._line(READY_TIMEOUT_S) != "ready":
            raise self._failure("did not connect")

    def start(self, start_ns: int) -> None:
        """The moment (CLOCK_MONOTONIC) at which the first phase begins."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{start_ns}\n".encode())
        self._process.stdin.flush()

    def collect(self, timeout_s: float = END_TIMEOUT_S) -> dict[str, Any]:
        """Counts of the whole run (Generator.summary), once it is over; the log file is complete then."""
        line = self._line(timeout_s)
        if not line:
            raise self._failure("gave no result")
        self._process.wait(END_TIMEOUT_S)
        summary: dict[str, Any] = json.loads(line)
        return summary

    @property
    def alive(self) -> bool:
        """Whether it still runs."""
        return self._process.poll() is None

    def _line(self, timeout_s: float) -> str:
        """One line of its output; empty when it ended or time is up."""
        assert self._process.stdout is not None
        deadline, received = time.monotonic() + timeout_s, b""
        while not received.endswith(b"\n"):
            readable, _, _ = select.select([self._process.stdout], [], [], max(deadline - time.monotonic(), 0))
            piece = os.read(self._process.stdout.fileno(), 4096) if readable else b""
            if not piece:
                return ""
            received += piece
        return received.decode().strip()

    def _failure(self, what: str) -> GeneratorFailed:
        words = self._errors.read_text(errors="replace").strip().splitlines()
        return GeneratorFailed(
            f"the clients of group {self.plan.group} {what}: {words[-1] if words else 'no word from them'}"
        )

    def __exit__(self, *_exc: object) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()
