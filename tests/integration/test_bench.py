"""`mpbroker bench` for real, shortly: against a broker of its own, and against one that runs."""

import json
import subprocess
import sys

from mpbroker.trace import manifest
from tests.harness.broker import Broker

SECONDS = 0.6


def _bench(out, *words):
    done = subprocess.run(
        [sys.executable, "-m", "mpbroker", "bench", "--out", str(out), *words],
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout, json.loads((out / "bench.json").read_text())


def test_all_workloads(tmp_path):
    text, result = _bench(tmp_path, "--seconds", str(SECONDS))
    rows = {row["name"]: row for row in result["workloads"]}
    assert list(rows) == ["W1", "W2", "W3", "W3 acks=1", "W4"]
    assert all(row["errors"] == 0 for row in rows.values())
    assert all(row["unsent"] == 0 or (row["name"] == "W4" and "never sent" in text) for row in rows.values())
    read, written = rows["W2"]["records"], rows["W1"]["records"]
    assert 0 < read <= written
    assert read == written or rows["W2"]["seconds"] >= SECONDS, "its time was not over, and it read less"
    assert all(
        row["broker_cpu_us"] is not None and row["p50_us"] <= row["p99_us"] <= row["max_us"] for row in rows.values()
    )
    assert all(name in text for name in rows) and result["traces"] == ["traces/workloads"]
    traced = sum(info.record_count for info in manifest.segments(tmp_path / "traces" / "workloads"))
    assert traced >= sum(row["requests"] for row in rows.values())


def test_a_broker_that_runs_already(tmp_path):
    with Broker(tmp_path / "broker") as broker:
        text, result = _bench(tmp_path / "out", "--seconds", "0.5", "--workload", "W3", "--bootstrap", broker.bootstrap)
        assert result["workloads"][0]["broker_cpu_us"] is None and "n/a" in text
        listed = subprocess.run(
            [sys.executable, "-m", "mpbroker", "topic", "list", "--bootstrap", broker.bootstrap],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        assert "bench-" not in listed
        _, result = _bench(
            tmp_path / "out",
            "--seconds",
            "0.5",
            "--workload",
            "W4",
            "--bootstrap",
            broker.bootstrap,
            "--pid",
            str(broker.pid),
        )
        assert result["workloads"][0]["broker_cpu_us"] > 0
