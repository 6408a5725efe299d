"""A real broker for tests: started by exec on port 0 in a directory of its own, and nothing of it may be left behind.

    with Broker(tmp_path) as broker:
        broker.bootstrap            # "127.0.0.1:40123"
        broker.kill("handler", 0)   # SIGKILL, returns the pid
        broker.status()["processes"]

It runs in a session of its own, so every process it ever forked can be found again, whatever its parent is.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from mpbroker.errors import MpbrokerError
from mpbroker.shm.page_view import PageView
from mpbroker.shm.process_table import ProcessRow, ProcessState
from mpbroker.supervisor.process_types import process_type

START_TIMEOUT_S = 30
LATE_TIMEOUT_S = 20
SICK_TIMEOUT_S = 5  # where one dies again and again
STOP_TIMEOUT_S = 40  # the broker gives itself 30 to sync its logs
SHM = Path("/dev/shm")
LOG_KEEPER, RUNNING = process_type("log-keeper").number, ProcessState.RUNNING

_running: set[Broker] = set()


@atexit.register
def _destroy_forgotten() -> None:
    """A test that failed between start and stop leaves its broker to us."""
    for broker in list(_running):
        broker.destroy()


def wait_until(condition: Callable[[], Any], what: str, timeout_s: float = 10.0) -> Any:
    """The first true value of `condition`; fails the test when there is none in time."""
    deadline = time.monotonic() + timeout_s
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < deadline, f"waited {timeout_s} s for {what}"
        time.sleep(0.005)


def session_processes(session: int) -> dict[int, str]:
    """Every live process of a session: pid → command line."""
    found = {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            with open(f"/proc/{entry}/stat") as file:
                state, *fields = file.read().rpartition(")")[2].split()
            if int(fields[2]) == session and state not in ("Z", "X"):
                with open(f"/proc/{entry}/cmdline", "rb") as file:
                    found[int(entry)] = file.read().replace(b"\0", b" ").decode(errors="replace").strip()
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found


def all_run(rows: Sequence[ProcessRow]) -> bool:
    """Whether every process of a broker runs, those forked last too, and the supervisor has noted its number."""
    return any(row.role == LOG_KEEPER for row in rows) and all(row.state is RUNNING and row.pid for row in rows)


class Broker:
    """One broker process tree. `overrides`: settings by Kafka's names; `prefix`: words before its command, which
    execute it (`sh -c 'exec "$@"' sh`). Use as a context manager, or start and stop."""

    def __init__(
        self,
        directory: Path,
        *,
        overrides: Mapping[str, Any] | None = None,
        listeners: Sequence[str] = ("PLAINTEXT://127.0.0.1:0",),
        env: Mapping[str, str] | None = None,
        properties: Path | None = None,
        prefix: Sequence[str] = (),
        further_dirs: Sequence[str] = (),
    ) -> None:
        self.directory = Path(directory)
        self.data_dir = self.directory / "data"
        self.log_path = self.directory / "broker.log"
        self.ready_file = self.directory / "ready.json"
        self.overrides = dict(overrides or {})
        self.listeners = list(listeners)
        self.env = dict(env or {})
        self.properties = properties
        self.prefix = list(prefix)
        self.further_dirs = list(further_dirs)  # log.dirs beside data_dir
        self.process: subprocess.Popen[bytes] | None = None
        self.ready_line = ""
        self.ready: dict[str, Any] = {}
        self.names: list[str] = []  # in /dev/shm

    def __enter__(self) -> Broker:
        return self.start()

    def __exit__(self, failed: Any, *_: Any) -> None:
        if self.process is None:
            return
        if failed:
            print(self.log())
        self.stop(check=not failed)

    def command(self) -> list[str]:
        """What is executed."""
        words = [
            *self.prefix,
            sys.executable,
            "-m",
            "mpbroker",
            "start",
            *([str(self.properties)] if self.properties else []),
            "--data-dir",
            ",".join([str(self.data_dir), *self.further_dirs]),
            "--ready-file",
            str(self.ready_file),
        ]
        for listener in self.listeners:
            words += ["--listener", listener]
        for name, value in self.overrides.items():
            words += ["--override", f"{name}={value}"]
        return words

    def start(self) -> Broker:
        """Start it and wait for its ready line."""
        self.spawn()
        assert self.process is not None and self.process.stdout is not None
        os.set_blocking(self.process.stdout.fileno(), False)
        received = b""
        deadline = time.monotonic() + START_TIMEOUT_S
        while not received.endswith(b"\n"):
            received += self.process.stdout.read() or b""
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.destroy()
                raise AssertionError(
                    f"the broker did not get ready (exit code {self.process.returncode}):\n{self.log()}"
                )
            time.sleep(0.002)
        self.ready_line = received.decode()
        self.ready = json.loads(self.ready_file.read_text())
        self.names = json.loads((self.data_dir / ".mpbroker-status.json").read_text())["names"]
        self._await_processes()
        return self

    def _await_processes(self) -> None:
        """Those that no client waits for are forked after the ready line; a test may kill or count them. One that
        cannot run is for the test to see."""
        begun = time.monotonic()
        name = next(name for name in self.names if name.endswith("-page"))
        with contextlib.suppress(MpbrokerError), contextlib.closing(PageView(name)) as page:
            while not all_run(rows := page.processes()):
                patience_s = SICK_TIMEOUT_S if any(row.restarts for row in rows) else LATE_TIMEOUT_S
                if time.monotonic() > begun + patience_s:
                    return
                time.sleep(0.002)

    def spawn(self) -> subprocess.Popen[bytes]:
        """Start it without waiting for anything."""
        self.directory.mkdir(parents=True, exist_ok=True)
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(
                self.command(),
                stdout=subprocess.PIPE,
                stderr=log,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                env={**os.environ, **self.env},
            )
        _running.add(self)
        return self.process

    @property
    def pid(self) -> int:
        """Of the supervisor; also the session of all its processes."""
        assert self.process is not None
        return self.process.pid

    def port(self, listener: int = 0) -> int:
        """The bound port of a listener, in the order of `listeners` (the control plane's stands last)."""
        return int(self.ready["listeners"][listener]["port"])

    @property
    def bootstrap(self) -> str:
        """HOST:PORT of the first listener."""
        return f"127.0.0.1:{self.port()}"

    def log(self) -> str:
        """All log lines so far."""
        return self.log_path.read_text(errors="replace") if self.log_path.exists() else ""

    def status(self) -> dict[str, Any]:
        """What `mpbroker status --json` prints, read in this process."""
        from mpbroker.supervisor.status import read_status

        return read_status(str(self.data_dir))

    def row(self, role: str, index: int = 0) -> dict[str, Any]:
        """One process in the status."""
        return next(row for row in self.status()["processes"] if (row["role"], row["index"]) == (role, index))

    def kill(self, role: str, index: int = 0, number: int = signal.SIGKILL) -> int:
        """Signal one process; returns its pid."""
        pid = self.pid if role == "supervisor" else self.row(role, index)["pid"]
        assert pid, f"{role} {index} does not run"  # 0 would be pytest and all its processes
        os.kill(pid, number)
        return pid

    def wait_restarted(self, role: str, index: int, old_pid: int, timeout_s: float = 10.0) -> dict[str, Any]:
        """The row of the successor, once it runs."""

        def successor() -> dict[str, Any] | None:
            row = self.row(role, index)
            return row if row["pid"] not in (0, old_pid) and row["state"] == "running" else None

        return wait_until(successor, f"a successor of {role} {index}", timeout_s)

    def processes(self) -> dict[int, str]:
        """Every live process of this broker: pid → title."""
        return session_processes(self.pid)

    def stop(self, check: bool = True, timeout_s: float = STOP_TIMEOUT_S) -> int:
        """SIGTERM, wait, and see that nothing is left; the exit code."""
        assert self.process is not None
        if self.process.poll() is None:
            self.process.terminate()
        try:
            code = self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.destroy()
            raise AssertionError(f"the broker did not stop in {timeout_s} s:\n{self.log()}") from None
        if check:
            self.assert_nothing_left()
            assert code == 0, f"exit code {code}:\n{self.log()}"
        self._close()
        return code

    def assert_nothing_left(self, timeout_s: float = 3.0) -> None:
        """No process of its session lives, none of its names is in /dev/shm."""

        def left() -> list[object]:
            return [*self.processes().items(), *(name for name in self.names if (SHM / name.lstrip("/")).exists())]

        deadline = time.monotonic() + timeout_s
        while left() and time.monotonic() < deadline:
            time.sleep(0.01)
        remains = left()
        if remains:
            self.destroy()
        assert not remains, f"left behind: {remains}\n{self.log()}"

    def destroy(self) -> None:
        """Kill whatever is alive, until nothing is; for tests that failed already, and for those that kill everything.

        A worker that was killed and had no core yet holds the data directory's lock still."""
        assert self.process is not None
        wait_until(self._kill_all, "what was killed to be gone")
        self.process.wait()
        for name in self.names:
            (SHM / name.lstrip("/")).unlink(missing_ok=True)
        self._close()

    def _kill_all(self) -> bool:
        """Whether nothing was left to kill. Who dies may have forked another meanwhile."""
        alive = self.processes()
        for pid in alive:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return not alive

    def _close(self) -> None:
        _running.discard(self)
        if self.process is not None and self.process.stdout is not None:
            self.process.stdout.close()
