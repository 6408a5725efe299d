"""`mpbroker cluster start -n 3 --dir D`: forks the brokers, says when they serve, stays until it is told to stop.

The only parent of the brokers. One that dies stays dead until `cluster start N` asks for it. SIGTERM and Ctrl-C stop
all of them, a second one at once; so does the end of this process, whatever ended it.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time
from typing import Any, Final

from mpbroker.cli.cluster_control import Control
from mpbroker.cli.cluster_plan import ClusterPlan, write_plan
from mpbroker.cli.cluster_process import BrokerProcess
from mpbroker.cli.cluster_state import NOBODY, serves
from mpbroker.errors import MpbrokerError
from mpbroker.log import data_dir
from mpbroker.supervisor.warm_parent import warm_up

START_TIMEOUT_S: Final = 60.0
LOOK_S: Final = 0.05


class StartFailed(MpbrokerError):
    """The brokers do not get ready."""


def run(plan: ClusterPlan) -> int:
    """Until the cluster has been stopped. StartFailed; DataDirectoryInUse if a cluster runs on the directory."""
    data_dir.create(plan.directory, "--dir")
    lock = data_dir.lock(plan.directory)
    try:
        write_plan(plan)
        warm_up()
        return Foreground(plan).run()
    finally:
        lock.close()


class Foreground:
    """The loop and what it waits for."""

    def __init__(self, plan: ClusterPlan) -> None:
        self._plan = plan
        self._brokers = {node.node_id: BrokerProcess(plan, node.node_id) for node in plan.nodes}
        self._poll = select.epoll()
        self._stops = 0
        self._stopping = False

    def run(self) -> int:
        """Start all, say so, wait."""
        self._wakeup, writing = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._on_signal)
        self._poll.register(self._wakeup, select.EPOLLIN)
        control = Control(self._plan.directory, self._do)
        self._poll.register(control.fileno(), select.EPOLLIN)
        try:
            for broker in self._brokers.values():
                self._start(broker)
            if self._until_ready(control):
                self._until_stopped(control)
        finally:
            control.close()
            self._end()
        return 0

    def _on_signal(self, number: int, frame: object) -> None:
        self._stops += 1

    # ---- starting

    def _start(self, broker: BrokerProcess) -> None:
        broker.start()
        self._poll.register(broker.fileno(), select.EPOLLIN)

    def _until_ready(self, control: Control) -> bool:
        """True once all brokers serve and know each other; False: told to stop before. StartFailed."""
        deadline = time.monotonic() + START_TIMEOUT_S
        everybody = frozenset(self._brokers)
        while not self._stops:
            self._wait(control, LOOK_S)
            dead = next((broker for broker in self._brokers.values() if not broker.pid), None)
            if dead is not None:
                raise StartFailed(f"broker {dead.node_id} does not start; the end of its log:\n{dead.last_lines()}")
            controllers = {serves(self._plan, one.node_id, one.pid, everybody) for one in self._brokers.values()}
            if len(controllers) == 1 and NOBODY not in controllers:
                bootstrap = self._plan.bootstrap
                print(f"mpbroker cluster ready controller={controllers.pop()} bootstrap={bootstrap}", flush=True)
                return True
            if time.monotonic() > deadline:
                raise StartFailed(f"the brokers do not get ready in {START_TIMEOUT_S:g} seconds; see {self._logs()}")
        return False

    def _logs(self) -> str:
        return ", ".join(self._plan.log_file(node_id) for node_id in self._brokers)

    # ---- running

    def _until_stopped(self, control: Control) -> None:
        while not self._stops:
            self._wait(control, None)

    def _wait(self, control: Control, timeout_s: float | None) -> None:
        for descriptor, _ in self._poll.poll(timeout_s):
            if descriptor == control.fileno():
                control.serve()
            elif descriptor == self._wakeup:
                os.read(self._wakeup, 512)
        self._reap()

    def _reap(self) -> None:
        for broker in self._brokers.values():
            if broker.pid and select.select([broker], [], [], 0)[0]:
                self._poll.unregister(broker.fileno())
                pid, told, how = broker.pid, broker.stopping, broker.ended()
                again = f"it stays down until `mpbroker cluster start {broker.node_id} --dir {self._plan.directory}`"
                _say(f"broker {broker.node_id} (pid {pid}) {'has stopped' if told else f'has died: {how}; {again}'}")

    def _do(self, request: dict[str, Any]) -> dict[str, Any]:
        """What another command asks for."""
        broker = self._brokers[self._plan.node(int(request["node"])).node_id]
        if request["do"] == "start":
            self._reap()
            if broker.pid:
                raise MpbrokerError(f"broker {broker.node_id} runs (pid {broker.pid})")
            self._start(broker)
        elif request["do"] == "stop":
            broker.stop()
        return {"pid": broker.pid}

    # ---- the end

    def _end(self) -> None:
        """Stop whatever runs, and wait for it; another signal hurries all."""
        running = [broker for broker in self._brokers.values() if broker.pid]
        for broker in running:
            broker.stop()
        seen = self._stops
        while any(broker.pid for broker in self._brokers.values()):
            for descriptor, _ in self._poll.poll(1.0):
                if descriptor == self._wakeup:
                    os.read(self._wakeup, 512)
            self._reap()
            if self._stops > seen:
                seen = self._stops
                for broker in running:
                    broker.stop()
        self._poll.close()


def _say(text: str) -> None:
    print(f"mpbroker: {text}", file=sys.stderr, flush=True)
