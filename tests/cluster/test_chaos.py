"""Short runs of chaos.py; LONG=1: two minutes. (`make cluster-chaos SECONDS=1800` for longer ones.)"""

import json
import os
import subprocess
import sys

import pytest

from tests.harness import etcd_server

LONG = bool(os.environ.get("LONG"))
SECONDS, SEED = (120, 2) if LONG else (6, 1)
ETCD_SECONDS = 120 if LONG else 20
pytestmark = [pytest.mark.slow, pytest.mark.timeout(max(SECONDS, ETCD_SECONDS) + 240)]


def chaos(seconds, seed, *words):
    command = [sys.executable, "-m", "tests.cluster.chaos", "--seconds", str(seconds), "--seed", str(seed), *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=seconds + 220)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("no anomaly\n")
    return json.loads(done.stdout.splitlines()[0])


def test_nothing_that_was_acknowledged_is_lost_whatever_fails():
    chaos(SECONDS, SEED)


def test_nothing_is_lost_when_etcd_fails():
    """Its leader killed or stopped, its history compacted, leases of living brokers and controllers ended."""
    etcd_server.program()
    report = chaos(ETCD_SECONDS, SEED, "--etcd", "--kinds", "store_fails")
    assert sum(report["faults"].values()) > 0, report
