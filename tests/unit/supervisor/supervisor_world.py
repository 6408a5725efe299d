"""A supervisor that is stepped: no process is forked, shared memory only writes down what it is told."""

import signal
from types import SimpleNamespace

from mpbroker.config.load_config import load_broker_config
from mpbroker.shm.process_context import BoundListener
from mpbroker.shm.process_table import ProcessState
from mpbroker.supervisor import handover, stopping, supervisor, workers
from mpbroker.supervisor.process_types import LATE_STAGE, plan_processes
from mpbroker.supervisor.staffing import Room
from mpbroker.supervisor.supervisor import Supervisor
from mpbroker.supervisor.workers import Death, Worker

LISTENERS = tuple(
    BoundListener(index, name, "PLAINTEXT", "", 9092 + index, "h", 9092 + index, name == "CTL")
    for index, name in enumerate(("A", "CTL"))
)
GIVEN = (
    "listeners=A://:1,CTL://:2",
    "listener.security.protocol.map=A:PLAINTEXT,CTL:PLAINTEXT",
    "control.plane.listener.name=CTL",
    "inter.broker.listener.name=A",
)
SIGNALS, NOTICES, PROBE = 1001, 1002, 1003
SEGV, KILLED, CODE_1, CODE_2 = signal.SIGSEGV, signal.SIGKILL, 1 << 8, 2 << 8


class Noted:
    """Writes down each call as (name, arguments); `given` are attributes."""

    def __init__(self, done, **given):
        self._done = done
        self.__dict__.update(given)

    def __getattr__(self, name):
        return lambda *arguments, **fields: self._done.append((name, *arguments, *([fields] if fields else [])))


class World:
    """A supervisor, its clock, and all that it did."""

    def __init__(self, monkeypatch, *more):
        self.now_s, self.done, self.said, self.killed, self.states = 1000.0, [], [], [], {}
        self.answered, self.poll = False, []
        self.launches, self._next = [], 5000
        self.config = load_broker_config(
            overrides=[*GIVEN, "num.network.threads=1", "num.io.threads=1", *more], environ={}, cores=2
        )
        clock = SimpleNamespace(monotonic=lambda: self.now_s)
        for module in (supervisor, workers, stopping, handover):
            monkeypatch.setattr(module, "time", clock)
        monkeypatch.setattr(supervisor.launch, "launch", self._launch)
        monkeypatch.setattr(supervisor, "release_library_pages", lambda: None)
        monkeypatch.setattr(supervisor, "write_ready_line", self.done.append)
        monkeypatch.setattr(supervisor, "write_status_file", lambda *_given: self.done.append("status file"))
        monkeypatch.setattr(Worker, "kill", lambda worker, number: self.killed.append((worker.plan.name, number)))
        monkeypatch.setattr(Worker, "reap", lambda worker: self._reap(worker))
        self.shared = Noted(
            self.done,
            plans=plan_processes(self.config, LISTENERS),
            listening=SimpleNamespace(all=LISTENERS, present=LISTENERS, removed=(), follow=lambda *_given: ([], [])),
            passed=Noted([], held=set()),
            room=Room(10, 10),
            page_name="",
            held_requests=dict,
            notice_fd=NOTICES,
            process_state=lambda slot: self.states.get(slot, ProcessState.EMPTY),
            context_for=lambda *_given: SimpleNamespace(),
            keep_fds=lambda _context: [],
            stored_settings=lambda: None,
            rebuild=self._rebuild,
            admin_url="",
        )
        self.broker = broker = Supervisor(self.config, self.shared, None, None)
        broker._epoll.close()
        self.epoll = broker._epoll = Noted([], poll=lambda wait_s: self.poll)
        broker._signals = SimpleNamespace(stops=0, reload=False, dump=False, fd=SIGNALS, drain=lambda: None)
        broker._oom_score = 0
        broker._mains = {plan.type.role: None for plan in self.shared.plans}
        broker._api_versions = {False: {}, True: {}}
        broker._log = Noted(self.said)
        self.looks = False
        broker._health = SimpleNamespace(look=lambda: self.looks)
        broker._probes = SimpleNamespace(
            begin=lambda: self.done.append("probes"),
            step=lambda: self.answered,
            timeout_s=lambda: None,
            close=lambda: self.done.append("no probes"),
            readable=lambda fd: self.done.append(("readable", fd)),
        )

    def _launch(self, launches, _oom_score):
        self.launches += launches
        self._next += len(launches)
        return [(self._next - number, self._next - number) for number in range(len(launches))]

    def _rebuild(self):
        self.done.append(("rebuild",))
        self.states.clear()

    def _reap(self, worker):
        self.done.append(("reaped", worker.plan.name))
        worker.pid, worker.pidfd = 0, -1

    @property
    def all(self):
        return self.broker._workers.all

    def alive(self):
        return {worker.plan.type.role for worker in self.broker._workers.alive()}

    def of(self, role):
        return next(worker for worker in self.all if worker.plan.type.role == role)

    def serve(self):
        for worker in self.broker._workers.alive():
            self.states[worker.plan.slot] = ProcessState.RUNNING

    def started(self):
        """Every listener has answered."""
        self.broker._step()
        self.serve()
        self.broker._step()
        self.answered = True
        self.broker._step()
        self.serve()
        self.forget()
        return self

    def forget(self):
        for each in (self.done, self.said, self.killed, self.launches):
            each.clear()

    def dies(self, worker, status, at_s=0.0):
        """Its process ends with a status of wait(2), so long after it was forked."""
        self.now_s += at_s
        death = Death(worker.plan, worker.pid, status)
        self._reap(worker)
        self.broker._on_death(worker, death)

    def events(self):
        return [entry[1] for entry in self.said if entry[0] in ("info", "warning", "error")]


def roles(world, late):
    return {plan.type.role for plan in world.shared.plans if (plan.type.start_stage == LATE_STAGE) == late}
