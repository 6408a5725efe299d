"""Three brokers of one cluster as child processes in a private directory, for the laboratory. Broker 3 starts first, so
it is the controller.

Owned by the process that runs the laboratory. Leaving the block stops them and removes the directory; the traces stay.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mpbroker.analysis.lab.broker_process import BrokerFailed
from mpbroker.client.network_client import ConnectionLost, NetworkClient
from mpbroker.protocol.messages.metadata import MetadataRequest, MetadataResponse

BROKERS = (1, 2, 3)
CONTROLLER = 3
START_TIMEOUT_S, STOP_TIMEOUT_S = 40.0, 20.0
_CONTROL = {
    "control.plane.listener.name": "CONTROLLER",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
}
_LOG_LINES_SHOWN = 15


class ClusterBrokers:
    """`addresses`: of each broker's data listener; `traces`: of each broker its trace folder; `pids`: roots of their
    process trees; `per_broker`: further settings of one."""

    def __init__(
        self,
        overrides: Mapping[str, Any],
        traces: Path | None = None,
        control_listener: bool = False,
        per_broker: Mapping[int, Mapping[str, Any]] | None = None,
    ) -> None:
        self._overrides = dict(overrides)
        self._control_listener = control_listener
        self._per_broker = per_broker or {}
        self.traces = {} if traces is None else {broker: traces / f"broker-{broker}" for broker in BROKERS}
        self.addresses: dict[int, tuple[str, int]] = {}
        self.admin: dict[int, str] = {}
        self.pids: dict[int, int] = {}
        self._processes: dict[int, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> ClusterBrokers:
        self.directory = Path(tempfile.mkdtemp(prefix="mpbroker-lab-"))
        self._cluster_id = base64.urlsafe_b64encode(os.urandom(16)).decode().rstrip("=")
        try:
            self._format()
            self.start(CONTROLLER)
            self._until(lambda: self._controller() == CONTROLLER, "no controller was elected")
            others = [broker for broker in BROKERS if broker != CONTROLLER]
            for broker in others:
                self._spawn(broker)
            for broker in others:
                self._wait_ready(broker)
            self._until(lambda: all(len(self._live(broker)) == len(BROKERS) for broker in BROKERS), "they do not meet")
        except BaseException:
            self.__exit__()
            raise
        return self

    def _format(self) -> None:
        """Directories of one cluster."""
        words = [sys.executable, "-m", "mpbroker", "format", f"--cluster-id={self._cluster_id}"]
        formats = [subprocess.Popen([*words, *self._identity(broker)], stdout=subprocess.DEVNULL) for broker in BROKERS]
        codes = [process.wait() for process in formats]
        if any(codes):
            raise BrokerFailed("a data directory could not be formatted")

    def _identity(self, broker: int) -> list[str]:
        return ["--data-dir", str(self.directory / f"broker-{broker}"), "--override", f"node.id={broker}"]

    def start(self, broker: int) -> None:
        """Start one; returns when it serves."""
        self._spawn(broker)
        self._wait_ready(broker)

    def _spawn(self, broker: int) -> None:
        ready = self._ready_file(broker)
        ready.unlink(missing_ok=True)
        words = [sys.executable, "-m", "mpbroker", "start", *self._identity(broker), "--ready-file", str(ready)]
        words += ["--listener", f"PLAINTEXT://127.0.0.1:{self.addresses.get(broker, ('', 0))[1]}"]
        if self._control_listener:
            words += ["--listener", "CONTROLLER://127.0.0.1:0"]
        for key, value in self._settings(broker).items():
            words += ["--override", f"{key}={str(value).lower() if isinstance(value, bool) else value}"]
        with (self.directory / f"broker-{broker}.log").open("ab") as log:
            self._processes[broker] = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )

    def _ready_file(self, broker: int) -> Path:
        return self.directory / f"ready-{broker}.json"

    def _wait_ready(self, broker: int) -> None:
        process, ready = self._processes[broker], self._ready_file(broker)
        self._until(lambda: ready.exists() or process.poll() is not None, f"broker {broker} does not start")
        if not ready.exists():
            raise BrokerFailed(f"broker {broker} did not start:\n{self.last_lines(broker)}")
        told = json.loads(ready.read_text())
        self.pids[broker], self.admin[broker] = told["pid"], told.get("admin") or ""
        port = next(int(row["port"]) for row in told["listeners"] if row["name"] == "PLAINTEXT")
        self.addresses[broker] = ("127.0.0.1", port)

    def _settings(self, broker: int) -> dict[str, Any]:
        settings = {
            "mpbroker.cluster.store": f"sqlite:{self.directory / 'metadata.db'}",
            "inter.broker.listener.name": "PLAINTEXT",
            "mpbroker.admin.listener": "127.0.0.1:0",
            "num.network.threads": 1,
            "num.io.threads": 1,
            **(_CONTROL if self._control_listener else {}),
            **self._overrides,
            **self._per_broker.get(broker, {}),
        }
        if self.traces:
            settings["mpbroker.trace.dir"] = str(self.traces[broker].absolute())
        return settings

    def last_lines(self, broker: int) -> str:
        """The end of its log."""
        lines = (self.directory / f"broker-{broker}.log").read_text(errors="replace").splitlines()
        return "\n".join(lines[-_LOG_LINES_SHOWN:])

    def kill(self, broker: int) -> None:
        """SIGKILL of its whole tree."""
        process = self._processes.pop(broker)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def _until(self, holds: Any, problem: str) -> None:
        deadline = time.monotonic() + START_TIMEOUT_S
        while not holds():
            if time.monotonic() > deadline:
                raise BrokerFailed(f"{problem}:\n{self.last_lines(CONTROLLER)}")
            time.sleep(0.02)

    def metadata(self, broker: int) -> MetadataResponse | None:
        """What a broker says of the cluster; None: it does not answer."""
        try:
            with NetworkClient(*self.addresses[broker], client_id="lab") as client:
                return client.call(MetadataRequest(topics=[], allow_auto_topic_creation=False), MetadataResponse, 8)
        except ConnectionLost:
            return None

    def _controller(self) -> int:
        found = self.metadata(CONTROLLER)
        return -1 if found is None else found.controller_id

    def _live(self, broker: int) -> set[int]:
        found = self.metadata(broker)
        return set() if found is None else {one.node_id for one in found.brokers}

    def __exit__(self, *_exc: object) -> None:
        for process in self._processes.values():
            process.terminate()
        deadline = time.monotonic() + STOP_TIMEOUT_S
        for process in self._processes.values():
            try:
                process.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        shutil.rmtree(self.directory, ignore_errors=True)
