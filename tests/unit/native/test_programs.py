"""Runs the C programs of native/tests: plain, with the address and undefined-behaviour sanitizers, and, if they start
threads, with threads'. Each build is a group of its own (tests/harness/groups.py): made once, beside the others."""

import os
import shutil
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

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


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("program", "sanitizer"), RUNS)
def test_program(program, sanitizer, tmp_path):
    """What a failed one had open stays in its own directory, to look into; one that ends well leaves nothing."""
    if not shutil.which("make") or not shutil.which("gcc"):
        pytest.skip("make and gcc are not installed")
    environment = {
        key: value for key, value in os.environ.items() if key not in ("MAKEFLAGS", "MAKELEVEL", "SAN", "ONLY", "ARGS")
    }
    environment["TMPDIR"] = str(tmp_path)
    code, told = _make(["-j2", "-C", str(NATIVE), "test", f"ONLY={program}", f"SAN={sanitizer}"], environment)
    assert code == 0, told
    assert os.listdir(tmp_path) == [], "left by a program that ended well"
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
