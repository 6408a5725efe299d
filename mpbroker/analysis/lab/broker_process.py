"""A broker of our own as a child process in a private directory: for `mpbroker lab run` and `mpbroker bench`.

Owned by the process that runs the laboratory. Leaving the block stops the broker and removes its directory, whatever
happened; the traces stay where `trace_dir` says.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from mpbroker.errors import MpbrokerError

START_TIMEOUT_S, STOP_TIMEOUT_S = 30.0, 15.0
_CONTROL = {
    "control.plane.listener.name": "CONTROLLER",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
}
_LOG_LINES_SHOWN = 20


class BrokerFailed(MpbrokerError):
    """The broker did not start; the message ends with its last log lines."""


class BrokerProcess:
    """`addresses`: ("127.0.0.1", port) by "data" and, where there is one, "control"; `pid`: root of its process
    tree."""

    def __init__(
        self,
        *,
        overrides: Mapping[str, Any] | None = None,
        control_listener: bool = False,
        trace_dir: Path | None = None,
        cores: Collection[int] | None = None,
    ) -> None:
        """`cores`: processors (of the machine) that the whole tree is pinned to."""
        self._overrides = dict(overrides or {})
        self._listeners = ["PLAINTEXT://127.0.0.1:0"]
        if control_listener:
            self._listeners.append("CONTROLLER://127.0.0.1:0")
            self._overrides |= _CONTROL
        if trace_dir is not None:
            self._overrides["mpbroker.trace.dir"] = str(trace_dir.absolute())
        self._cores = cores
        self._process: subprocess.Popen[bytes] | None = None
        self.addresses: dict[str, tuple[str, int]] = {}
        self.pid = 0

    def __enter__(self) -> BrokerProcess:
        self._directory = Path(tempfile.mkdtemp(prefix="mpbroker-lab-"))
        self.data_dir = self._directory / "data"
        try:
            self._start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _start(self) -> None:
        ready_file = self._directory / "ready.json"
        command = [
            sys.executable,
            "-m",
            "mpbroker",
            "start",
            "--data-dir",
            str(self.data_dir),
            "--ready-file",
            str(ready_file),
        ]
        for listener in self._listeners:
            command += ["--listener", listener]
        for key, value in self._overrides.items():
            command += ["--override", f"{key}={str(value).lower() if isinstance(value, bool) else value}"]
        mine = os.sched_getaffinity(0)
        try:
            if self._cores:
                os.sched_setaffinity(0, self._cores)  # inherited by what is started now
            with open(self._directory / "broker.log", "wb") as log:
                self._process = subprocess.Popen(
                    command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
                )  # Ctrl-C reaches us; we stop the broker in order
        finally:
            os.sched_setaffinity(0, mine)
        self._wait_ready(ready_file)

    def _wait_ready(self, ready_file: Path) -> None:
        assert self._process is not None
        deadline = time.monotonic() + START_TIMEOUT_S
        while not ready_file.exists():
            if self._process.poll() is not None or time.monotonic() > deadline:
                lines = (self._directory / "broker.log").read_text(errors="replace").splitlines()
                raise BrokerFailed("the broker did not start:\n" + "\n".join(lines[-_LOG_LINES_SHOWN:]))
            time.sleep(0.005)
        ready = json.loads(ready_file.read_text())
        self.pid = ready["pid"]
        for row in ready["listeners"]:
            plane = "control" if row["name"] == "CONTROLLER" else "data"
            self.addresses[plane] = ("127.0.0.1", int(row["port"]))

    @property
    def bootstrap(self) -> str:
        """HOST:PORT of the data listener."""
        return "{}:{}".format(*self.addresses["data"])

    def __exit__(self, *_exc: object) -> None:
        try:
            if self._process is not None:
                self._stop(self._process)
        finally:
            shutil.rmtree(self._directory, ignore_errors=True)

    def _stop(self, process: subprocess.Popen[bytes]) -> None:
        """SIGTERM and wait; then, or when interrupted while waiting, kill everything of its session."""
        process.terminate()
        try:
            process.wait(STOP_TIMEOUT_S)
        except BaseException as error:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            if not isinstance(error, subprocess.TimeoutExpired):
                raise
