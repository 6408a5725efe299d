"""Runs the C programs of native/tests: plain, with the address and undefined-behaviour sanitizers, and with
threads'."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

NATIVE = Path(__file__).parents[3] / "native"
PROGRAMS = sorted(path.stem.removeprefix("test_") for path in (NATIVE / "tests").glob("*/test_*.c"))


@pytest.mark.timeout(600)
@pytest.mark.parametrize("sanitizer", ["", "address", "thread"], ids=["plain", "address", "thread"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_program(program, sanitizer):
    if not shutil.which("make") or not shutil.which("gcc"):
        pytest.skip("make and gcc are not installed")
    environment = {
        key: value for key, value in os.environ.items() if key not in ("MAKEFLAGS", "MAKELEVEL", "SAN", "ONLY")
    }
    done = subprocess.run(
        ["make", "-s", "-C", str(NATIVE), "test", f"ONLY={program}", f"SAN={sanitizer}"],
        capture_output=True,
        text=True,
        env=environment,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.strip(), "a program says what it checked"
