"""A copy of the tree in a temporary directory, in which one file at a time is changed, and the runs of tests in it.

The tree itself is never touched. What a run leaves behind (processes that have a file of the copy open or are in it,
names in /dev/shm) is removed after it: a changed broker does not stop as it should.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tests.harness.leftovers import left_names
from tests.mutation.change import Change

COPIED = ("mpbroker", "native", "tests", "docs", "deploy", "perf", ".ci")
COPIED_FILES = ("pyproject.toml", "Makefile", "README.md", "CONTRIBUTING.md", "CHANGELOG.md", "LICENSE")
PYTEST = ("-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-p", "no:benchmark", "-p", "no:xdist")
RED = re.compile(r"^(?:FAILED|ERROR) (tests/\S+::.+?)(?: - .*)?$", re.MULTILINE)
SHM = Path("/dev/shm")


def heed_signals() -> None:
    """Who ends the tool ends its run as well: SIGTERM leaves through every `finally`. Under nohup every program
    inherits an ignored SIGHUP; behind a handler of ours it gets the usual one."""
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, lambda *_: None)


@dataclass(frozen=True)
class Outcome:
    """Of one run: `failed` is the test that pytest named, if it came so far."""

    green: bool
    seconds: float
    hung: bool
    failed: str | None


class WorkingCopy:
    """`root` holds the copy in `tree`, temporary files in `tmp` and built programs in `build`."""

    def __init__(self, original: Path, root: Path) -> None:
        self.tree, self.tmp, self.build = root / "tree", root / "tmp", root / "build"
        self.log = root / "last.log"
        for directory in (self.tree, self.tmp, self.build):
            directory.mkdir(parents=True)
        unwanted = shutil.ignore_patterns("build", "__pycache__", ".*_cache")
        for name in COPIED:
            if (original / name).is_dir():
                shutil.copytree(original / name, self.tree / name, ignore=unwanted, symlinks=True)
        for name in COPIED_FILES:
            if (original / name).exists():
                shutil.copy2(original / name, self.tree / name)
        self._turn = 0
        self._kept: tuple[Path, str, float] | None = None

    def change(self, change: Change) -> None:
        """Apply it. Its time is new in every turn, so that no compiled file of an earlier one is taken for it."""
        file = self.tree / change.path
        text, modified = file.read_text(), file.stat().st_mtime
        self._kept = (file, text, modified)
        file.write_text(change.edit.apply(text))
        self._turn += 1
        os.utime(file, (modified + self._turn, modified + self._turn))

    def restore(self) -> None:
        """The file as it was, time included."""
        if self._kept is not None:
            file, text, modified = self._kept
            file.write_text(text)
            os.utime(file, (modified, modified))
            self._kept = None

    def pytest(self, words: Sequence[str], limit_s: float, test_limit_s: float) -> Outcome:
        """Run tests until the first is red."""
        limit = ["--timeout", str(round(test_limit_s)), "--basetemp", str(self.tmp / "pytest")]
        return self.run([sys.executable, *PYTEST, *limit, *words], limit_s)

    def run(self, command: list[str], limit_s: float, more: Mapping[str, str] | None = None) -> Outcome:
        """Run a command in the copy. No test collected (pytest's 5) is no fault found."""
        environment = {**os.environ, "PYTHONPATH": str(self.tree), "TMPDIR": str(self.tmp), **(more or {})}
        for name in ("PYTHONDONTWRITEBYTECODE", "PYTEST_ADDOPTS", "MPBROKER_CRASH", "LONG"):
            environment.pop(name, None)
        begun, code, process = time.monotonic(), None, None
        with open(self.log, "wb") as output:
            try:  # a signal that ends this tool may come at any place
                process = subprocess.Popen(
                    command, cwd=self.tree, env=environment, stdout=output, stderr=output, start_new_session=True
                )
                code = process.wait(limit_s)
            except subprocess.TimeoutExpired:
                pass
            finally:
                seconds = time.monotonic() - begun
                self._clean(process)
        return self._outcome(code, seconds, "pytest" in command)

    def _outcome(self, code: int | None, seconds: float, is_pytest: bool) -> Outcome:
        told = self.log.read_text(errors="replace") if is_pytest else ""
        named = RED.search(told)
        hung = code is None or "Timeout" in told
        return Outcome(code == 0 or (is_pytest and code == 5), seconds, hung, named[1] if named else None)

    def _clean(self, process: subprocess.Popen[bytes] | None) -> None:
        """The run's whole session first: what it traced or forked goes on when its first process has ended."""
        names = set[str]()
        if process is not None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            names = {name for name in os.listdir(SHM) if name.startswith("mp") and f"-{process.pid}-" in name}
        for pid in self._left():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for name in names | set(left_names(self.tmp)):
            (SHM / name).unlink(missing_ok=True)
        shutil.rmtree(self.tmp, ignore_errors=True)
        self.tmp.mkdir(exist_ok=True)

    def _left(self) -> list[int]:
        return [int(name) for name in os.listdir("/proc") if name.isdigit() and self._is_in_copy(int(name))]

    def _is_in_copy(self, pid: int) -> bool:
        """Only what this copy's runs started stands in it, runs from it or has a file of it open."""
        inside, links = f"{self.tree.parent}/", [f"/proc/{pid}/cwd", f"/proc/{pid}/exe"]
        with suppress(OSError):  # gone meanwhile, a kernel's thread, or somebody else's
            links += [f"/proc/{pid}/fd/{number}" for number in os.listdir(f"/proc/{pid}/fd")]
        return pid != os.getpid() and any(_target(link).startswith(inside) for link in links)


def _target(link: str) -> str:
    try:
        return f"{os.readlink(link)}/"
    except OSError:  # closed meanwhile
        return ""
