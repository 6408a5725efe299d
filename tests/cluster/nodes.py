"""The brokers of a cluster as processes that can be killed one by one or whole, and stopped: for the chaos run, which
needs more than `mpbroker cluster` gives (a network of its own, several stores, processes by role)."""

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress

from mpbroker.cli.cluster_actions import kill_tree
from mpbroker.cli.cluster_plan import ClusterPlan, NodePlan
from mpbroker.cli.cluster_ports import HOST, free_ports
from mpbroker.log import data_dir
from mpbroker.metadata.keys import STORE_FILE
from tests.cluster.cut_network import address

GONE_S = 15.0


class Nodes:
    """`network` None: all on loopback. `store`: what mpbroker.cluster.store takes, None: a SQLite file."""

    def __init__(self, directory, network=None, store=None, overrides=()):
        self.directory = directory
        directory.mkdir(parents=True, exist_ok=True)
        store = store or f"sqlite:{directory / STORE_FILE}"
        if network is None:
            ports = free_ports(12)
            nodes = tuple(NodePlan(n + 1, *ports[4 * n : 4 * n + 4]) for n in range(3))
        else:
            nodes = tuple(NodePlan(n, 9092, 9093, 9094, 9095) for n in (1, 2, 3))
        self.plan = ClusterPlan(str(directory), data_dir.new_id(), store, nodes, tuple(overrides))
        self.nodes = {node.node_id: Node(self.plan, node, network) for node in nodes}

    def __enter__(self):
        try:
            for node in self.nodes.values():
                node.start()
        except BaseException:
            self.destroy()
            raise
        return self

    def __exit__(self, failed, *_):
        self.destroy()

    def __getitem__(self, number):
        return self.nodes[number]

    def __iter__(self):
        return iter(self.nodes.values())

    @property
    def bootstrap(self):
        """HOST:PORT of all."""
        return ",".join(node.bootstrap for node in self)

    def destroy(self):
        """Nothing is left running."""
        for node in self:
            node.resume()
            node.kill()

    def stop(self):
        """The orderly way, all at once; exit codes."""
        for node in self:
            node.process.send_signal(signal.SIGTERM)
        return [node.process.wait(60) for node in self]


class Node:
    """One broker."""

    def __init__(self, plan, node, network):
        self.number = node.node_id
        self.host = HOST if network is None else address(node.node_id)
        self.port = node.port
        self.process = None
        self.stopped = False
        self.environment = {}
        self._plan, self._network = plan, network

    @property
    def bootstrap(self):
        """HOST:PORT for clients."""
        return f"{self.host}:{self.port}"

    @property
    def data_dir(self):
        """Where it keeps its records."""
        return self._plan.data_dir(self.number)

    @property
    def is_up(self):
        """Whether its supervisor lives."""
        return self.process is not None and self.process.poll() is None

    def start(self):
        """Execute it."""
        directory = self.data_dir
        data_dir.create(directory)
        data_dir.prepare(directory, self.number, self._plan.cluster_id)
        with suppress(FileNotFoundError):
            os.unlink(self._plan.ready_file(self.number))
        words = [] if self._network is None else self._network.inside(self.number)
        words += [sys.executable, "-m", "mpbroker", "start", "--data-dir", directory]
        words += ["--ready-file", self._plan.ready_file(self.number)]
        for name, text in self._plan.settings(self.number).items():
            words += ["--override", f"{name}={text.replace(HOST, self.host) if 'listener' in name else text}"]
        for pair in self._plan.overrides:
            words += ["--override", pair]
        with open(self._plan.log_file(self.number), "ab") as log:
            self.process = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=log,
                env=os.environ | self.environment, process_group=0,
            )  # fmt: skip

    def workers(self):
        """Role → pids."""
        found = {}
        if self.is_up:
            for pid in _children(self.process.pid):
                with suppress(OSError), open(f"/proc/{pid}/cmdline", "rb") as file:
                    role = file.read().split(b"\0")[0].decode(errors="replace")
                    found.setdefault(role, []).append(pid)
        return found

    def kill(self):
        """SIGKILL to the whole tree."""
        if self.process is not None:
            if self.is_up:
                kill_tree(self.process.pid)
            self.process.wait(GONE_S)
            self.stopped = False

    def kill_supervisor(self):
        """Only the parent of all: its workers end by themselves."""
        workers = [pid for pids in self.workers().values() for pid in pids]
        self.process.kill()
        self.process.wait(GONE_S)
        deadline = time.monotonic() + GONE_S
        while any(os.path.exists(f"/proc/{pid}") for pid in workers):
            assert time.monotonic() < deadline, "workers outlive their supervisor"
            time.sleep(0.01)

    def suspend(self):
        """SIGSTOP to every process: it is as if the machine stood still."""
        self.stopped = True
        for pid in (self.process.pid, *_children(self.process.pid)):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)

    def resume(self):
        """They go on."""
        if self.stopped and self.is_up:
            for pid in (*_children(self.process.pid), self.process.pid):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)
        self.stopped = False


def _children(pid):
    try:
        with open(f"/proc/{pid}/task/{pid}/children") as file:
            return [int(word) for word in file.read().split()]
    except (FileNotFoundError, ProcessLookupError):
        return []
