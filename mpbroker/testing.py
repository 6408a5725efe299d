"""A broker for the tests of an application: on a free port, in a temporary folder, gone at the end.

    from mpbroker.testing import broker

    with broker() as running:
        producer = Producer({"bootstrap.servers": running.bootstrap})

As a pytest fixture:

    @pytest.fixture(scope="session")
    def bootstrap():
        with broker({"num.partitions": 3}) as running:
            yield running.bootstrap

It starts in about 0.3 s. Runs in the process of the tests, which owns it; the broker is a child (`python -m mpbroker
start`), and this module imports nothing of it. Settings of the environment (MPBROKER_…, KAFKA_…) do not reach it.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from mpbroker.errors import MpbrokerError

START_TIMEOUT_S, STOP_TIMEOUT_S, POLL_S = 30.0, 15.0, 0.005
MAX_LOG_SHOWN = 4000


class BrokerFailed(MpbrokerError):
    """The broker did not start; the message ends with the end of its log."""


class RunningBroker:
    """`bootstrap`: HOST:PORT for clients; `data_dir`: where it keeps everything; `pid`: of its supervisor."""

    def __init__(self, process: subprocess.Popen[bytes], folder: Path) -> None:
        self._process = process
        self._folder = folder
        self.data_dir = folder / "data"
        self.pid = process.pid
        self.bootstrap = ""

    def log(self) -> str:
        """What the broker has logged so far."""
        return (self._folder / "broker.log").read_text(errors="replace")

    def _wait(self, timeout_s: float) -> None:
        ready, deadline = self._folder / "ready.json", time.monotonic() + timeout_s
        while not ready.exists():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise BrokerFailed(f"the broker did not start:\n{self.log()[-MAX_LOG_SHOWN:]}")
            time.sleep(POLL_S)
        listener = json.loads(ready.read_text())["listeners"][0]
        self.bootstrap = f"{listener['host']}:{listener['port']}"

    def _stop(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()  # its children end with it
            self._process.wait()


@contextmanager
def broker(settings: Mapping[str, object] | None = None, timeout_s: float = START_TIMEOUT_S) -> Iterator[RunningBroker]:
    """A broker while the block lasts. `settings`: by Kafka's names. BrokerFailed if it is not ready in `timeout_s`."""
    folder = Path(tempfile.mkdtemp(prefix="mpbroker-test-"))
    try:
        running = RunningBroker(_start(folder, settings or {}), folder)
        try:
            running._wait(timeout_s)
            yield running
        finally:
            running._stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _start(folder: Path, settings: Mapping[str, object]) -> subprocess.Popen[bytes]:
    words = [sys.executable, "-m", "mpbroker", "start", "--data-dir", str(folder / "data")]
    words += ["--listener", "PLAINTEXT://127.0.0.1:0", "--ready-file", str(folder / "ready.json")]
    for name, value in settings.items():
        words += ["--override", f"{name}={str(value).lower() if isinstance(value, bool) else value}"]
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("MPBROKER_", "KAFKA_"))}
    with open(folder / "broker.log", "wb") as log:
        return subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environ)
