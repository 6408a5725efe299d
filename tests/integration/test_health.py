"""`mpbroker status --check` and the broker's own WARN line: a real broker hangs, is degraded, and is well again."""

import json
import os
import re
import resource
import signal
import subprocess
import sys
import time
from contextlib import suppress

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


def _clock(second):
    return time.strftime("%H:%M:%S", time.localtime(second))


def _health(broker):
    return broker.status()["health"]["state"]


def _is_parked(status, before):
    """One more than before, and no longer in the hand of the handler that parked it, which sleeps: else it is in the
    middle of its work."""
    handlers = [row for row in status["processes"] if row["role"] == "handler"]
    return status["counters"]["requests_parked"] > before and all(
        row["wait"] == "request" and not row["request"] for row in handlers
    )


def _stopped_while_parked(scene, before):
    """Whether the handlers stand still in their sleep: between a look and the signal one may have woken up."""
    scene.stop(*HANDLERS)
    if _is_parked(scene.broker.status(), before):
        return True
    scene.go_on()
    return False


class Scene:
    """A broker in which some processes were stopped, and a connection to it. `go_on` lets them run again."""

    def __init__(self, directory):
        self.broker = Broker(directory, overrides={"num.io.threads": 2}).start()
        self.connection = RawConnection(self.broker.port(), timeout_s=60)
        self.pids = []
        self.stopped_at = 0.0
        self.last_beats = set()  # as a clock shows them

    def stop(self, *who):
        self.pids = [self.broker.row(role, index)["pid"] for role, index in who]
        for pid in self.pids:
            os.kill(pid, signal.SIGSTOP)
        self.stopped_at = time.time()
        rows = self.broker.status()["processes"]
        ages_s = [row["heartbeat_age_ms"] / 1000 for row in rows if row["pid"] in self.pids]
        first, last = int(self.stopped_at - max(ages_s)), int(time.time() - min(ages_s))
        self.last_beats = {_clock(second) for second in range(first - 1, last + 2)}

    def go_on(self):
        for pid in self.pids:
            os.kill(pid, signal.SIGCONT)
        self.pids = []

    def close(self):
        self.go_on()
        self.connection.close()
        self.broker.stop()


HANDLERS = ("handler", 0), ("handler", 1)


@pytest.fixture(scope="module")
def scenes(tmp_path_factory):
    """Everything that takes 5 s and more, at the same time."""
    names = ("hung", "parked", "silent", "supervisor", "frozen", "idle")
    scenes = {name: Scene(tmp_path_factory.mktemp(name)) for name in names}
    try:
        assert [_health(scene.broker) for scene in scenes.values()] == ["ok"] * len(names)
        with connect(scenes["parked"].broker.bootstrap) as client:
            create_topic(client, "t", 1, {})
        before = scenes["parked"].broker.status()["counters"]["requests_parked"]  # the topic's creation was, too
        scenes["parked"].connection.send(fetch_request(1, "t", 0, 0, max_wait_ms=60_000))
        wait_until(lambda: _stopped_while_parked(scenes["parked"], before), "handlers that sleep and the fetch parked")
        scenes["hung"].stop(*HANDLERS)
        scenes["hung"].connection.send(api_versions(1))
        scenes["silent"].stop(("acceptor", 0))
        scenes["supervisor"].stop(("supervisor", 0))
        _freeze(scenes["frozen"])
        yield scenes
    finally:
        for scene in scenes.values():
            scene.close()


def test_stopped_handlers_with_a_request_waiting_are_hung(scenes):
    scene, broker = scenes["hung"], scenes["hung"].broker
    wait_until(lambda: _health(broker) == "hung", "the handlers to hang", SOON_S)
    found = _check(broker)
    assert (found.returncode, found.stdout.count("\n"), found.stderr) == (1, 1, "")
    line = re.fullmatch(
        r"hung: handler (\d) \(pid (\d+)\), since (\d\d:\d\d:\d\d) \(\d+ s\): has not moved: "
        r"(1 request waiting for it|ApiVersions v0 is in its hand); also: handler (\d)\n",
        found.stdout,
    )
    assert line is not None, found.stdout
    assert int(line[2]) in scene.pids and {line[1], line[5]} == {"0", "1"}
    assert line[3] in scene.last_beats
    rows = {(row["role"], row["index"]): row["state"] for row in broker.status()["processes"]}
    assert (rows["handler", 0], rows["handler", 1], rows["processor", 0]) == ("hung", "hung", "running")
    wait_until(lambda: broker.log().count(" WARN supervisor process_hung ") == 2, "the broker to say so", SOON_S)
    time.sleep(2.2)  # two more looks
    assert broker.log().count("process_hung") == 2, "said once an episode"
    scene.go_on()
    wait_until(lambda: _health(broker) == "ok", "the broker to be well again")
    assert _check(broker).returncode == 0
    wait_until(lambda: broker.log().count("process_no_longer_hung") == 2, "the broker to say that it is over")
    assert json.loads(_check(broker, "--json").stdout)["health"] == {"state": "ok", "findings": []}
    assert scene.connection.receive()[0] == 1


def test_a_parked_request_is_work(scenes):
    broker = scenes["parked"].broker

    def of_the_parked():  # the other handler may be found first
        findings = broker.status()["health"]["findings"]
        return [one for one in findings if one["level"] == "hung" and "1 request parked with it" in one["sentence"]]

    [parked] = wait_until(of_the_parked, "the handler to hang", SOON_S)
    assert parked["for_s"] >= 5 and parked["since_ms"] < time.time() * 1000 - 4900
    scenes["parked"].go_on()
    wait_until(lambda: _health(broker) == "ok", "the broker to be well again")


def test_a_stopped_process_without_work_is_silent(scenes):
    broker = scenes["silent"].broker
    wait_until(lambda: _health(broker) == "degraded", "the acceptor to be silent", SOON_S)
    found = _check(broker)
    assert found.returncode == 1 and found.stdout.startswith("degraded: acceptor 0 (pid ")
    wait_until(lambda: "WARN supervisor process_silent" in broker.log(), "the broker to say so", SOON_S)
    scenes["silent"].go_on()
    wait_until(lambda: _health(broker) == "ok", "the broker to be well again")


def test_a_stopped_supervisor_is_seen_from_outside(scenes):
    broker = scenes["supervisor"].broker
    wait_until(lambda: _health(broker) == "hung", "the supervisor to hang", SOON_S)
    assert _check(broker).stdout.startswith(f"hung: supervisor 0 (pid {broker.pid}), since ")
    scenes["supervisor"].go_on()
    wait_until(lambda: _health(broker) == "ok", "the broker to be well again")


def _freeze(scene):
    scene.stop(*((row["role"], row["index"]) for row in scene.broker.status()["processes"]))


def _thawed_between_two_looks(scene):
    """Whether the others woke up before the supervisor, which woke up first, looked again: we may have paused."""
    wait_until(lambda: time.time() > scene.stopped_at + 6, "all heartbeats to be old")
    begun = time.monotonic()
    os.kill(scene.broker.pid, signal.SIGCONT)
    time.sleep(0.3)  # the supervisor looks first, and sees that everybody's heartbeat is old
    scene.go_on()
    return time.monotonic() - begun < 0.9


def test_after_everything_was_frozen_nobody_is_said_to_hang(scenes):
    scene, broker, said_before = scenes["frozen"], scenes["frozen"].broker, 0

    def thawed():
        nonlocal said_before
        if _thawed_between_two_looks(scene):
            return True
        wait_until(lambda: _health(broker) == "ok", "the broker to be well again")
        time.sleep(2.2)  # two more looks: what was said is over by then
        said_before = len(broker.log())
        _freeze(scene)
        return False

    wait_until(thawed, "the others to go on right after the supervisor", 60)
    assert _check(broker).returncode == 0
    time.sleep(2)
    assert "process_" not in broker.log()[said_before:]


def test_an_idle_broker_is_well(scenes):
    """Nobody asks it anything for more than 5 s: every process sleeps in its wait, and beats."""
    broker = scenes["idle"].broker
    wait_until(lambda: broker.status()["uptime_s"] >= 8, "the time to pass")
    document = broker.status()
    assert document["health"] == {"state": "ok", "findings": []}
    assert max(row["heartbeat_age_ms"] for row in document["processes"]) < 5000
    assert _check(broker).returncode == 0 and "process_" not in broker.log()


@pytest.fixture
def broker(tmp_path):
    with Broker(tmp_path, overrides={"num.io.threads": 2}) as running:
        yield running


def test_a_process_that_dies_again_and_again_degrades(broker):
    def kill_and_look():
        pid = broker.row("tracer")["pid"]
        if pid:
            with suppress(ProcessLookupError):  # the last one, which the supervisor has not met yet
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
