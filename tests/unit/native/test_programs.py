"""Runs the C programs of native/tests: plain, with the address and undefined-behaviour sanitizers, and, if they start
threads, with threads'. Each build is a group of its own (tests/harness/groups.py): made once, beside the others.

Their files lie in memory where there is room: they make and empty some hundred thousand small ones, and on a disk wait
for what the brokers of other tests sync at the same time."""

import os
import shutil
import signal
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path

import pytest

from tests.harness import in_memory
from tests.harness.broker import SHM

pytestmark = pytest.mark.slow

NATIVE = Path(__file__).parents[3] / "native"
SOURCES = {path.stem.removeprefix("test_"): path for path in sorted((NATIVE / "tests").glob("*/test_*.c"))}
#: Races are among threads: of processes that share memory the sanitizer sees each alone, as the plain build does.
BUILDS = {
    "": list(SOURCES),
    "address": list(SOURCES),
    "thread": [name for name, path in SOURCES.items() if "pthread" in path.read_text()],
}
RUNS = [
    pytest.param(name, sanitizer, id=f"{name}-{sanitizer or 'plain'}")
    for sanitizer, names in BUILDS.items()
    for name in names
]


@pytest.fixture
def files(tmp_path):
    """An empty directory, gone after the test: in memory, or `tmp_path` on a machine that has little room there."""
    if not in_memory.has_room():
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(prefix="mpb-programs-", dir=SHM) as directory:
        yield Path(directory)


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("program", "sanitizer"), RUNS)
def test_program(program, sanitizer, tmp_path, files):
    """What a failed one had open stays in its own directory, to look into; one that ends well leaves nothing."""
    if not shutil.which("make") or not shutil.which("gcc"):
        pytest.skip("make and gcc are not installed")
    environment = {
        key: value for key, value in os.environ.items() if key not in ("MAKEFLAGS", "MAKELEVEL", "SAN", "ONLY", "ARGS")
    }
    environment["TMPDIR"] = str(files)
    code, told = _make(["-j2", "-C", str(NATIVE), "test", f"ONLY={program}", f"SAN={sanitizer}"], environment)
    left = os.listdir(files)
    if files != tmp_path:
        for name in left:
            shutil.move(files / name, tmp_path / name)
    assert code == 0, told
    assert left == [], "left by a program that ended well"
    assert told.strip(), "a program says what it checked"


def _make(words, environment):
    """In a session of its own: when the test's time is over, what `make` started ends with it."""
    process = subprocess.Popen(
        ["make", "-s", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment,
        start_new_session=True,
    )
    try:
        told, _ = process.communicate()
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    return process.returncode, told


def test_races_are_looked_for():
    assert {"append_threads", "metadata", "request_path", "ring", "trace_lane"} <= set(BUILDS["thread"])
