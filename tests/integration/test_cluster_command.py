"""`mpbroker cluster`: three brokers in one command, what scripts may rely on, and nothing left behind."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import suppress

import pytest

from tests.harness.broker import session_processes, wait_until
from tests.harness.etcd_server import EtcdServer

pytestmark = pytest.mark.slow
READY = re.compile(r"mpbroker cluster ready controller=(\d) bootstrap=((?:127\.0\.0\.1:\d+,?)+)\n\Z")
TIMEOUT_S = 60


def _command(*words):
    return [sys.executable, "-m", "mpbroker", "cluster", *map(str, words)]


class Cluster:
    """The foreground process, and the other commands of its directory."""

    def __init__(self, directory, *more):
        self.directory = directory
        self._errors = open(f"{directory}.err", "ab")  # noqa: SIM115  # until close
        words = _command("start", "--dir", directory, "--port", 0, *more)
        self.foreground = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=self._errors, text=True)

    def ready(self):
        """(controller, bootstrap), once it says so."""
        found = READY.match(self.foreground.stdout.readline())
        assert found, self.errors()
        return int(found[1]), found[2]

    def run(self, verb, *words, code=0):
        """Standard output of another command."""
        done = subprocess.run(
            _command(verb, *words, "--dir", self.directory), capture_output=True, text=True, timeout=TIMEOUT_S
        )
        assert done.returncode == code, done.stderr
        return done.stdout or done.stderr

    def status(self):
        return json.loads(self.run("status", "--json"))

    def pids(self):
        return {broker["node_id"]: broker["pid"] for broker in self.status()["brokers"]}

    def errors(self):
        with open(f"{self.directory}.err") as file:
            return file.read()

    def close(self):
        self.foreground.kill()
        self.foreground.wait(TIMEOUT_S)
        self.foreground.stdout.close()
        self._errors.close()


@pytest.fixture
def begin(tmp_path):
    made = []

    def one(*more):
        made.append(Cluster(tmp_path / "cluster", *more))
        return made[-1]

    yield one
    for cluster in made:
        cluster.close()


def _tree(pid):
    """All processes below a broker, itself too."""
    found = [pid]
    for one in found:
        try:
            with open(f"/proc/{one}/task/{one}/children") as file:
                found += map(int, file.read().split())
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found


def _is_executed(pid):
    """Whether a broker is a program of its own, and not a fork of the foreground."""
    with open(f"/proc/{pid}/cmdline", "rb") as file:
        return not file.read().startswith(b"mpbroker start")


def _lies_on_the_image(pid):
    """Whether its heap is a mapping of what the foreground's was: copies that it does not need, it can give back."""
    with open(f"/proc/{pid}/maps") as file:
        return "/memfd:mpbroker-heap" in file.read()


def _descriptors(pid):
    found = set()
    for name in os.listdir(f"/proc/{pid}/fd"):
        with suppress(FileNotFoundError):  # closed meanwhile
            found.add(os.readlink(f"/proc/{pid}/fd/{name}"))
    return found


def _gone(pids):
    return all(not os.path.exists(f"/proc/{pid}") for pid in pids)


def test_what_scripts_rely_on(begin):
    cluster = begin("-n", 3, "--override", "num.partitions=6")
    controller, bootstrap = cluster.ready()
    found = cluster.status()
    assert set(found) == {"controller", "controller_epoch", "brokers", "under_replicated"}
    assert (found["controller"], found["controller_epoch"], found["under_replicated"]) == (controller, 1, 0)
    assert [(broker["node_id"], broker["state"]) for broker in found["brokers"]] == [(n, "running") for n in (1, 2, 3)]
    listeners = [broker["listeners"][0] for broker in found["brokers"]]
    assert bootstrap == ",".join(f"{one['host']}:{one['port']}" for one in listeners)
    assert "in use" in cluster.run("start", code=3)
    another = bootstrap.split(",")[controller % 3]  # clients of the command line find the controller themselves
    words = [sys.executable, "-m", "mpbroker", "topic", "create", "orders", "-b", another]
    assert subprocess.run(words, capture_output=True, timeout=TIMEOUT_S).stdout == b"created orders with 6 partitions\n"
    assert cluster.status()["under_replicated"] == 0
    shared = [_descriptors(pid) & _descriptors(cluster.foreground.pid) for pid in cluster.pids().values()]
    assert not any(link.startswith(("socket:", "pipe:", "/")) for one in shared for link in one - {"/dev/null"})

    tree = _tree(cluster.pids()[controller])
    assert all(map(_lies_on_the_image, tree))
    cluster.run("kill", controller)
    wait_until(lambda: _gone(tree), "the end of the whole tree", TIMEOUT_S)
    wait_until(lambda: cluster.status()["controller"] not in (controller, -1), "another controller", TIMEOUT_S)
    found = cluster.status()
    assert found["controller_epoch"] == 2
    dead = found["brokers"][controller - 1]
    assert (dead["state"], dead["pid"], dead["listeners"]) == ("dead", 0, [])
    assert "does not run" in cluster.run("kill", controller, code=3)

    cluster.run("start", controller)  # it waits until the broker serves
    assert [broker["state"] for broker in cluster.status()["brokers"]] == ["running"] * 3
    executed = {broker for broker, pid in cluster.pids().items() if _is_executed(pid)}
    assert executed == {controller}  # all others share what the foreground has imported
    assert f"broker {controller} runs" in cluster.run("start", controller, code=1)
    assert not _lies_on_the_image(cluster.pids()[controller])
    trees = [pid for broker in cluster.pids().values() for pid in _tree(broker)]
    cluster.run("stop")
    assert cluster.foreground.wait(TIMEOUT_S) == 0
    assert cluster.foreground.stdout.read() == ""
    wait_until(lambda: _gone(trees), "the end of all processes", TIMEOUT_S)
    assert f"broker {controller} (pid {tree[0]}) has died: killed by signal 9" in cluster.errors()
    assert "no broker of the cluster" in cluster.run("status", code=3)


def test_a_killed_foreground_leaves_no_broker(begin):
    cluster = begin("-n", 1)
    cluster.ready()
    trees = [pid for broker in cluster.pids().values() for pid in _tree(broker)]
    assert len(trees) > 8
    cluster.foreground.send_signal(signal.SIGKILL)
    wait_until(lambda: _gone(trees), "the end of all processes", 30.0)


def test_metadata_in_etcd(begin, tmp_path):
    (tmp_path / "etcd").mkdir()
    with EtcdServer(tmp_path / "etcd") as server:
        cluster = begin("-n", 1, "--store", f"etcd://{server.addresses[0]}")
        controller, _ = cluster.ready()
        assert cluster.status()["controller"] == controller
        began = time.monotonic()
        cluster.run("stop")
        assert time.monotonic() - began < TIMEOUT_S


def test_brokers_that_cannot_start_end_the_command(begin):
    cluster = begin("-n", 2, "--override", "num.partitions=none")
    assert cluster.foreground.wait(TIMEOUT_S) == 1
    assert re.search(
        r"broker \d does not start; the end of its log:\n.*num\.partitions=none", cluster.errors(), re.DOTALL
    )
    assert cluster.foreground.stdout.read() == ""
    assert not session_processes(cluster.foreground.pid)
