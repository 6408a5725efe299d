"""A short run of chaos.py; LONG=1: two minutes. (`make cluster-chaos SECONDS=1800` for longer ones.)"""

import os
import subprocess
import sys

import pytest

LONG = bool(os.environ.get("LONG"))
SECONDS, SEED = (120, 2) if LONG else (6, 1)
pytestmark = [pytest.mark.slow, pytest.mark.timeout(SECONDS + 240)]


def test_nothing_that_was_acknowledged_is_lost_whatever_fails():
    words = [sys.executable, "-m", "tests.cluster.chaos", "--seconds", str(SECONDS), "--seed", str(SEED)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=SECONDS + 220)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("no anomaly\n")
