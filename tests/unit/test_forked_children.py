"""What a test forks never goes on as pytest; and a process of pytest's that dies ends the run."""

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.harness.groups import CHILD_CAME_OUT


def test_a_child_that_an_error_leads_out_of_its_test_reports_nothing():
    """If it did, the rest of this run would be run twice, and pytest-xdist would end with an INTERNALERROR."""
    pid = os.fork()
    if pid == 0:
        raise AssertionError("in the child")
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == CHILD_CAME_OUT


def test_a_process_that_dies_ends_the_run(tmp_path):
    """With the Makefile's options; without them it would wait for ever."""
    [options] = re.findall(r"^SHARED := (.*)$", (Path(__file__).parents[2] / "Makefile").read_text(), re.MULTILINE)
    tests = tmp_path / "tests"
    tests.mkdir()
    for name in "abcdef":
        last = "os._exit(1) if n == 17 else None" if name == "a" else "pass"
        many = '@pytest.mark.parametrize("n", range(40))'
        lines = ["import os, pytest, time", many, "def test(n):", "    time.sleep(0.002)", f"    {last}", ""]
        (tests / f"test_{name}.py").write_text("\n".join(lines))
    words = ["-q", "-p", "no:cacheprovider", "--numprocesses", "2", "--basetemp", str(tmp_path / "base")]
    command = [sys.executable, "-m", "pytest", *words, *options.split(), str(tests)]
    told = subprocess.run(command, cwd=tests, capture_output=True, text=True, timeout=100)
    assert told.returncode == 1 and "crashed while running 'test_a.py::test[17]'" in told.stdout, told.stdout
