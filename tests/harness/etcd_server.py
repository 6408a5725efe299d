"""An etcd of one or more members on loopback, for tests of its driver. Its program: $TEST_ETCD, or `etcd` on PATH."""

import json
import os
import shutil
import signal
import subprocess
import time
import urllib.request
from pathlib import Path

import pytest

from mpbroker.cli.cluster_ports import free_ports

START_S = 30.0


def program() -> str:
    """Skips the test where there is none."""
    found = os.environ.get("TEST_ETCD") or shutil.which("etcd")
    if not found:
        pytest.skip("no etcd: name one by TEST_ETCD")
    return found


class EtcdServer:
    """Use as a context manager. `members` by number, each may be killed, stopped, and started again."""

    def __init__(self, directory: Path, members: int = 1) -> None:
        self._program = program()
        self._directory = directory
        self._ports = free_ports(2 * members)
        self.members = range(members)
        self._processes: dict[int, subprocess.Popen[bytes]] = {}

    def port(self, member: int) -> int:
        """Where clients reach it."""
        return self._ports[2 * member]

    @property
    def addresses(self) -> list[str]:
        """HOST:PORT of every member."""
        return [f"127.0.0.1:{self.port(member)}" for member in self.members]

    def __enter__(self) -> "EtcdServer":
        try:
            for member in self.members:
                self.start(member)
            self.wait_healthy()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes.values():
            process.kill()
        for process in self._processes.values():
            process.wait()

    def start(self, member: int) -> None:
        """Begin, or begin again with its data."""
        client = f"http://127.0.0.1:{self.port(member)}"
        peers = {one: f"http://127.0.0.1:{self._ports[2 * one + 1]}" for one in self.members}
        words = [
            *(self._program, "--name", f"m{member}", "--data-dir", str(self._directory / f"m{member}")),
            *("--listen-client-urls", client, "--advertise-client-urls", client),
            *("--listen-peer-urls", peers[member], "--initial-advertise-peer-urls", peers[member]),
            *("--initial-cluster", ",".join(f"m{one}={url}" for one, url in peers.items())),
            *("--log-level", "error", "--unsafe-no-fsync"),
        ]
        with open(self._directory / f"m{member}.log", "ab") as log:
            self._processes[member] = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def kill(self, member: int) -> None:
        """As kill -9 does."""
        self._processes[member].kill()
        self._processes[member].wait()

    def pause(self, member: int) -> None:
        """SIGSTOP: its connections stay open."""
        self._processes[member].send_signal(signal.SIGSTOP)

    def resume(self, member: int) -> None:
        """SIGCONT."""
        self._processes[member].send_signal(signal.SIGCONT)

    def leader(self) -> int:
        """Number of the member that leads."""
        for member in self.members:
            status = self.ask(member, "/v3/maintenance/status", {})
            if status and status.get("leader") == status["header"]["member_id"]:
                return member
        raise AssertionError("nobody leads")

    def wait_healthy(self) -> None:
        """Until a member answers a linearizable read."""
        deadline = time.monotonic() + START_S
        while not all(self.ask(member, "/v3/kv/range", {"key": "AA=="}) for member in self.members):
            assert time.monotonic() < deadline, (self._directory / "m0.log").read_text()[-2000:]
            time.sleep(0.05)

    def ask(self, member: int, path: str, body: dict) -> dict:
        """The member's answer; empty without one."""
        url = f"http://127.0.0.1:{self.port(member)}{path}"
        try:
            with urllib.request.urlopen(urllib.request.Request(url, json.dumps(body).encode()), timeout=2) as answer:
                return json.loads(answer.read())
        except (OSError, ValueError):
            return {}

    def empty(self) -> None:
        """Delete all keys."""
        assert self.ask(0, "/v3/kv/deleterange", {"key": "AA==", "range_end": "AA=="})
