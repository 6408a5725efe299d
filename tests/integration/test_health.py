"""`mpbroker status --check` and the broker's own WARN line: a real broker hangs, is degraded, and is well again."""

import json
import os
import re
import resource
import signal
import subprocess
import sys
import time
from contextlib import contextmanager

import pytest

from mpbroker.client.bootstrap import connect
from mpbroker.client.topic_admin import create_topic
from tests.harness.broker import Broker, wait_until
from tests.harness.raw_client import RawConnection, api_versions
from tests.harness.raw_records import batch, fetch_request, produce_request

SOON_S = 20.0  # a heartbeat is old after 5 s; two looks of the supervisor; and a busy machine


def _check(broker, *words):
    command = [sys.executable, "-m", "mpbroker", "status", "--check", "--data-dir", str(broker.data_dir), *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=30)


@contextmanager
def _stopped(broker, *who):
    pids = [broker.row(role, index)["pid"] for role, index in who]
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield pids
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


def _health(broker):
    return broker.status()["health"]["state"]


@pytest.fixture
def broker(tmp_path):
    with Broker(tmp_path, overrides={"num.io.threads": 2}) as running:
        yield running


HANDLERS = ("handler", 0), ("handler", 1)


def test_stopped_handlers_with_a_request_waiting_are_hung(broker):
    assert (_check(broker).returncode, _check(broker).stderr) == (0, "")
    with RawConnection(broker.port(), timeout_s=60) as connection, _stopped(broker, *HANDLERS) as pids:
        stopped_at = time.time()
        connection.send(api_versions(1))
        wait_until(lambda: _health(broker) == "hung", "the handlers to hang", SOON_S)
        found = _check(broker)
        assert (found.returncode, found.stdout.count("\n"), found.stderr) == (1, 1, "")
        line = re.fullmatch(
            r"hung: handler (\d) \(pid (\d+)\), since (\d\d:\d\d:\d\d) \(\d+ s\): has not moved: "
            r"(1 request waiting for it|ApiVersions v0 is in its hand); also: handler (\d)\n",
            found.stdout,
        )
        assert line is not None, found.stdout
        assert int(line[2]) in pids and {line[1], line[5]} == {"0", "1"}
        assert line[3] in {time.strftime("%H:%M:%S", time.localtime(stopped_at + late)) for late in (-2, -1, 0, 1)}
        rows = {(row["role"], row["index"]): row["state"] for row in broker.status()["processes"]}
        assert (rows["handler", 0], rows["handler", 1], rows["processor", 0]) == ("hung", "hung", "running")
        wait_until(lambda: broker.log().count(" WARN supervisor process_hung ") == 2, "the broker to say so", SOON_S)
        time.sleep(2.5)  # more looks
        assert broker.log().count("process_hung") == 2, "said once an episode"
    wait_until(lambda: _health(broker) == "ok", "the broker to be well again")
    assert _check(broker).returncode == 0
    wait_until(lambda: broker.log().count("process_no_longer_hung") == 2, "the broker to say that it is over")
    assert json.loads(_check(broker, "--json").stdout)["health"] == {"state": "ok", "findings": []}


def test_a_parked_request_is_work(broker):
    with connect(broker.bootstrap) as client:
        create_topic(client, "t", 1, {})
    with RawConnection(broker.port(), timeout_s=60) as connection:
        connection.send(fetch_request(1, "t", 0, 0, max_wait_ms=30_000))
        wait_until(lambda: broker.status()["counters"]["requests_parked"] > 0, "the fetch to be parked")
        with _stopped(broker, *HANDLERS):
            wait_until(lambda: _health(broker) == "hung", "the handler to hang", SOON_S)
            findings = broker.status()["health"]["findings"]
            assert {one["level"] for one in findings} == {"hung", "silent"}
            assert "1 request parked with it" in findings[0]["sentence"]
            assert findings[0]["for_s"] >= 5 and findings[0]["since_ms"] < time.time() * 1000 - 4900


def test_an_idle_broker_is_well(broker):
    """Nobody asks it anything for more than 5 s: every process sleeps in its wait, and beats."""
    deadline = time.monotonic() + 7
    while time.monotonic() < deadline:
        document = broker.status()
        assert document["health"] == {"state": "ok", "findings": []}
        assert max(row["heartbeat_age_ms"] for row in document["processes"]) < 5000
        time.sleep(0.25)
    assert _check(broker).returncode == 0
    assert "process_" not in broker.log()


def test_a_stopped_process_without_work_is_silent(broker):
    with _stopped(broker, ("acceptor", 0)):
        wait_until(lambda: _health(broker) == "degraded", "the acceptor to be silent", SOON_S)
        found = _check(broker)
        assert found.returncode == 1 and found.stdout.startswith("degraded: acceptor 0 (pid ")
        wait_until(lambda: "WARN supervisor process_silent" in broker.log(), "the broker to say so", SOON_S)
    wait_until(lambda: _health(broker) == "ok", "the broker to be well again")


def test_a_stopped_supervisor_is_seen_from_outside(broker):
    os.kill(broker.pid, signal.SIGSTOP)
    try:
        wait_until(lambda: _health(broker) == "hung", "the supervisor to hang", SOON_S)
        assert _check(broker).stdout.startswith(f"hung: supervisor 0 (pid {broker.pid}), since ")
    finally:
        os.kill(broker.pid, signal.SIGCONT)
    wait_until(lambda: _health(broker) == "ok", "the broker to be well again")


def test_after_everything_was_frozen_nobody_is_said_to_hang(broker):
    pids = list(broker.processes())
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    time.sleep(6)
    os.kill(broker.pid, signal.SIGCONT)
    time.sleep(0.3)  # the supervisor looks first, and sees that everybody's heartbeat is old
    for pid in pids:
        os.kill(pid, signal.SIGCONT)
    assert _check(broker).returncode == 0
    time.sleep(2)
    assert "process_" not in broker.log()


def test_a_process_that_dies_again_and_again_degrades(broker):
    def kill_and_look():
        pid = broker.row("tracer")["pid"]
        if pid:
            os.kill(pid, signal.SIGKILL)
        return _health(broker) == "degraded"

    wait_until(kill_and_look, "the broker to be degraded", SOON_S)
    found = _check(broker)
    assert found.returncode == 1 and "tracer 0" in found.stdout and "dies again and again" in found.stdout
    wait_until(lambda: _health(broker) == "ok", "the tracer to settle", SOON_S)


def test_many_resets_degrade(broker):
    for _ in range(3):
        pid = broker.kill("handler", 0, signal.SIGSEGV)
        broker.wait_restarted("handler", 0, pid)
    wait_until(lambda: _health(broker) == "degraded", "the broker to be degraded", SOON_S)
    assert "one or two more within a minute" in _check(broker).stdout


def test_traces_that_cannot_be_written_degrade(tmp_path):
    traces = tmp_path / "traces"
    overrides = {"mpbroker.trace.dir": str(traces), "mpbroker.trace.segment.ms": 100}
    with Broker(tmp_path, overrides=overrides) as broker:
        wait_until(lambda: list(traces.glob("*.mpt")), "a segment")
        traces.rename(tmp_path / "elsewhere")

        def asked_and_degraded():
            with RawConnection(broker.port()) as connection:
                connection.ask(api_versions(1))
            return _health(broker) == "degraded"

        wait_until(asked_and_degraded, "the broker to be degraded", SOON_S)
        assert "tracer 0" in _check(broker).stdout and "traces cannot be written" in _check(broker).stdout
        (tmp_path / "elsewhere").rename(traces)
        wait_until(lambda: _health(broker) == "ok", "the broker to be well again", SOON_S)


def test_writes_that_fail_degrade(tmp_path):
    """A limit on the size of files stands for a disk that fails: every append beyond it does."""
    broker = Broker(tmp_path, overrides={"num.partitions": 1, "mpbroker.trace.enabled": "false"}).start()
    with connect(broker.bootstrap) as client:
        create_topic(client, "t", 1, {})
    for row in broker.status()["processes"]:
        if row["role"] == "handler":
            resource.prlimit(row["pid"], resource.RLIMIT_FSIZE, (1 << 16, 1 << 16))
    with RawConnection(broker.port()) as connection:
        for n in range(20):
            connection.ask(produce_request(n, "t", 0, batch([b"x" * 10_000])))
    wait_until(lambda: _health(broker) != "ok", "the broker to be degraded", SOON_S)
    found = _check(broker)
    assert found.returncode == 1 and found.stdout.startswith("degraded: log-keeper 0 (pid "), found.stdout
    assert "the log directory is offline after an I/O error" in found.stdout
    assert broker.status()["topics"][0]["offline_partitions"] == 1
    broker.stop(check=False)  # exit code 1: it could not end cleanly
    broker.assert_nothing_left()


def test_exit_code_3_where_nothing_runs(tmp_path):
    found = _check(Broker(tmp_path))
    assert (found.returncode, found.stdout) == (3, "") and "no broker runs" in found.stderr
