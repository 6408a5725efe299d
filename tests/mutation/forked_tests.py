"""Collected tests, run in a forked child: what it changes is gone with it, and so is what it started."""

from __future__ import annotations

import ctypes
import os
import select
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest
from _pytest.runner import runtestprotocol

import tests.conftest
from tests.harness.leftovers import left_names

PR_SET_CHILD_SUBREAPER = 36
END = b"end"
LOOKS = 20
SHM = Path("/dev/shm")


class Outcome(NamedTuple):
    """Which tests were red; whether the child came to its end in time."""

    red: list[str]
    ended: bool


class ForkedTests:
    """The tests of a session that has collected them and runs none itself."""

    def __init__(self, session: pytest.Session) -> None:
        self._session = session
        self.items = {item.nodeid: item for item in session.items}
        self._room = Path(tempfile.mkdtemp(prefix="mutation-"))
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)  # what a child leaves comes to us, and is ended

    def close(self) -> None:
        """Removes what children wrote."""
        shutil.rmtree(self._room, ignore_errors=True)

    def run(self, tests: Sequence[str], first: Callable[[], object], limit_s: float, all_of_them: bool) -> Outcome:
        """Calls `first` in the child, then runs the tests, until one is red unless all are asked for."""
        reading, writing = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                self._be_child(tests, first, writing, all_of_them)
            finally:
                os._exit(0)
        os.close(writing)
        try:
            lines = _read(reading, time.monotonic() + limit_s)
        finally:
            os.close(reading)
            self._end_children(pid)
        return Outcome([line.decode() for line in lines if line != END], END in lines)

    def _be_child(self, tests: Sequence[str], first: Callable[[], object], writing: int, all_of_them: bool) -> None:
        os.setpgid(0, 0)
        null = os.open(os.devnull, os.O_RDWR)
        for descriptor in range(3):
            os.dup2(null, descriptor)
        self._move_in()
        first()
        items = [self.items[test] for test in tests]
        for item, following in zip(items, [*items[1:], None], strict=True):
            if any(report.failed for report in runtestprotocol(item, log=False, nextitem=following)):
                os.write(writing, item.nodeid.encode() + b"\n")
                if not all_of_them:
                    break
        os.write(writing, END + b"\n")

    def _move_in(self) -> None:
        """A temporary directory of its own, and leave to run tests (tests/conftest.py ends children that come out of
        one)."""
        tests.conftest.OWN_PID = os.getpid()
        base = self._room / str(os.getpid())
        base.mkdir()
        os.environ["TMPDIR"] = tempfile.tempdir = str(base)
        factory = self._session.config._tmp_path_factory  # type: ignore[attr-defined]
        factory._basetemp = base / "tests"
        factory._basetemp.mkdir()

    def _end_children(self, pid: int) -> None:
        for _ in range(LOOKS):
            children = [int(one) for one in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()]
            for child in children:
                os.kill(child, signal.SIGKILL)  # ours to wait for: the number is not another's
            for child in children:
                os.waitpid(child, 0)
            if not children:
                break
        base = self._room / str(pid)
        remove_names(pid, base)
        shutil.rmtree(base, ignore_errors=True)


def remove_names(pid: int, base: Path) -> None:
    """Names in /dev/shm of this child, and of brokers that it had below its directory."""
    of_brokers = left_names(base) if base.exists() else []
    for name in {*of_brokers, *(one for one in os.listdir(SHM) if one.startswith("mp") and f"-{pid}-" in one)}:
        path = SHM / name
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)


def _read(reading: int, until_s: float) -> list[bytes]:
    """The child's lines, until it is gone or the time is over."""
    told = b""
    while (left_s := until_s - time.monotonic()) > 0 and END + b"\n" not in told:
        if not select.select([reading], [], [], left_s)[0]:
            break
        piece = os.read(reading, 65536)
        if not piece:
            break
        told += piece
    return told.split(b"\n")[:-1]
