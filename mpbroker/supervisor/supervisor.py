"""The supervisor: creates everything shared, forks every worker, watches them, and ends the broker. It serves no
request, takes no lock in shared memory and waits for nobody but in its epoll loop.

Start: data directory, listening sockets, shared memory, then the workers stage by stage; ready when every listener has
answered. A worker that dies is forked again and recovers its slot itself; one that died of a fault makes the supervisor
stop all workers and rebuild the shared state, with the listening sockets open. SIGTERM: in a cluster serve on until the
agent says that others lead (handover.py); then stop stage by stage, at most `mpbroker.drain.timeout.ms` +
`mpbroker.stop.timeout.ms`; a second one, at once. SIGHUP: read the configuration again.
"""

import gc
import os
import select
import signal
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from mpbroker.config.broker_config import BrokerConfig
from mpbroker.metrics.event_log import EventLog
from mpbroker.shm.process_table import BrokerState, ProcessState
from mpbroker.shm.shared_pages import release_library_pages
from mpbroker.shm.troubles import Trouble
from mpbroker.supervisor import launch, process_limits, reload, stacks
from mpbroker.supervisor.cluster_lock import cluster_lock
from mpbroker.supervisor.handover import Handover
from mpbroker.supervisor.health_watch import HealthWatch
from mpbroker.supervisor.probes import Probes
from mpbroker.supervisor.process_types import (
    LATE_STAGE,
    START_STAGES,
    Main,
    ProcessPlan,
    plan_processes,
    prepare_for_workers,
    resolve_mains,
    served_versions,
)
from mpbroker.supervisor.ready import clear_ready_file, ready_document, ready_line, write_atomically, write_ready_line
from mpbroker.supervisor.shared_state import SharedState
from mpbroker.supervisor.signals import SupervisorSignals
from mpbroker.supervisor.sockets import open_admin_listener, warn_of_unset_address
from mpbroker.supervisor.staffing import Staffing
from mpbroker.supervisor.startup import claim_data_dir
from mpbroker.supervisor.status_file import remove_status_file, write_status_file
from mpbroker.supervisor.stopping import Stopping
from mpbroker.supervisor.workers import Death, Worker, Workers
from mpbroker.trace.lane import LaneError

EXIT_CLEAN, EXIT_FAILED, EXIT_CONFIG = 0, 1, 2
MAX_RESETS, RESET_WINDOW_S = 5, 60.0
STARTUP_DEATHS = 5
STEADY_S = 5.0  # a slot whose process has lived so long is well again
HEARTBEAT_S = 1.0
KEEPERS_OF_DATA = frozenset({"controller", "log-keeper"})  # killed or failed at the end, the next start has to repair


def run(
    config: BrokerConfig, ready_file: str | None = None, read_config: Callable[[], BrokerConfig] | None = None
) -> int:
    """Run a broker until it ends; the exit code. `read_config` reads the configuration again, for SIGHUP."""
    process_limits.raise_descriptor_limit()
    gc.disable()  # until everything is imported; launch.freeze turns it on again
    with cluster_lock(config), claim_data_dir(config) as claim:
        if ready_file:
            clear_ready_file(ready_file)
        config = reload.with_stored_settings(config, claim.cluster_id, EventLog("supervisor").use_config(config))
        config, listening = reload.open_as_stored(config, EventLog("supervisor").use_config(config))
        warn_of_unset_address(config, listening.all, EventLog("supervisor").use_config(config))
        plans = plan_processes(config, listening.all)
        admin = open_admin_listener(config)
        shared = SharedState(config, plans, listening, admin, claim)
        supervisor = Supervisor(config, shared, ready_file, read_config)
        try:
            return supervisor.run()
        finally:
            claim.served = supervisor.ready
            shared.close()
            remove_status_file(config.data_dir)


class Supervisor:
    """The loop and what it knows. `run` returns the broker's exit code."""

    def __init__(
        self,
        config: BrokerConfig,
        shared: SharedState,
        ready_file: str | None,
        read_config: Callable[[], BrokerConfig] | None,
    ) -> None:
        self._config = config
        self._shared = shared
        self._ready_file = ready_file
        self._read_config = read_config
        self._stored = config.dynamic
        self._short: dict[str, int] = {}
        self._log = EventLog("supervisor").use_config(config)
        self._workers = Workers(shared.plans)
        self._staffing = Staffing(self._workers, shared.room)
        self._epoll = select.epoll()
        self._probes = Probes(self._epoll, shared.listening.all)
        self._health = HealthWatch(shared.page_name, shared.held_requests, self._log, self._oldest_beat_ns)
        self._started_stages = 0
        self._ready = False
        self._late_forked = False
        self._handover: Handover | None = None
        self._stopping: Stopping | None = None
        self._resetting = False
        self._resets: deque[float] = deque(maxlen=MAX_RESETS)
        self._exit_code = EXIT_CLEAN

    @property
    def ready(self) -> bool:
        """Whether every listener has answered."""
        return self._ready

    def run(self) -> int:
        """Fork the workers, watch them until the last one has ended."""
        self._signals = SupervisorSignals()
        self._oom_score = process_limits.outlive_workers()
        stacks.register()
        self._mains: dict[str, Main] = {}
        self._api_versions: dict[bool, dict[int, tuple[int, int]]] = {}
        self._import(late=False)
        shared = self._shared
        write_status_file(self._config.data_dir, shared.status_file(self._config))
        self._epoll.register(self._signals.fd, select.EPOLLIN)
        self._epoll.register(shared.notice_fd, select.EPOLLIN)
        try:
            while not self._step():
                self._wait()
        finally:
            self._workers.kill(signal.SIGKILL)  # only an exception of ours leaves any
            self._probes.close()
        return self._exit_code

    # ---- one turn

    def _wait(self) -> None:
        self._shared.heartbeat(waiting=True)
        events = self._epoll.poll(self._timeout_s())
        self._shared.heartbeat(waiting=False)
        for fd, _ in events:
            if fd == self._signals.fd:
                self._signals.drain()
            elif fd == self._shared.notice_fd:
                self._shared.drain_notices()
                self._take_stored_settings()
            else:
                self._probes.readable(fd)
        self._reap()

    def _timeout_s(self) -> float:
        waits = [self._workers.next_due_s(), self._probes.timeout_s(), HEARTBEAT_S]
        if self._stopping is not None:
            waits.append(self._stopping.timeout_s())
        elif self._handover is not None:
            waits.append(self._handover.timeout_s())
        return min(wait for wait in waits if wait is not None)

    def _step(self) -> bool:
        """Do what is due now. True when the broker has ended."""
        if self._signals.stops:
            self._on_stop_signal()
        if self._signals.reload:
            self._signals.reload = False
            self._reload()
        if self._signals.dump:
            self._signals.dump = False
            self._shared.ask_for_dump(self._config, self._log)
        if self._stopping is None and self._handover is not None and self._handover.is_over():
            self._stop(EXIT_CLEAN)
        if self._stopping is not None:
            return self._stop_step(self._stopping)
        if self._resetting:
            self._reset_step()
        elif self._started_stages <= START_STAGES:
            self._start_step()
        self._fork(self._workers.due())
        if not self._late_forked and self._started_stages > START_STAGES and self._probes.step():
            if not self._ready:
                self._announce()
            self._fork_late()
        if self._health.look():
            self._note_what_is_over()
        return False

    def _oldest_beat_ns(self) -> int:
        return self._shared.oldest_beat_ns(worker.plan.slot for worker in self._workers.alive())

    def _note_what_is_over(self) -> None:
        """Once a second: which slots have settled, whether resets are long ago."""
        for worker in self._workers.alive():
            if worker.unsteady and worker.age_s >= STEADY_S:
                worker.settled()
                self._shared.set_unsteady(worker.plan, False)
        self._staff()
        self._shared.close_strays(self._staffing.left_places())
        recent = sum(time.monotonic() - reset < RESET_WINDOW_S for reset in self._resets)
        self._shared.set_trouble(Trouble.MANY_RESETS, recent >= MAX_RESETS - 2)

    # ---- starting

    def _start_step(self) -> None:
        """Fork the next stage once all of the ones before serve."""
        while self._stage_serves():
            stage = self._started_stages
            self._started_stages += 1
            if stage == START_STAGES:
                self._shared.set_state(BrokerState.RUNNING)
                self._probes.begin()
                return
            self._fork(self._of_stage(stage))

    def _fork_late(self) -> None:
        """Those that no client waits for; until the log keeper and the tracer run, it is as after a death of them."""
        if not self._late_forked:
            self._late_forked = True
            self._import(late=True)
            self._fork(self._of_stage(LATE_STAGE))
            release_library_pages()

    def _of_stage(self, stage: int) -> list[Worker]:
        """The controller first: for it the others wait."""
        workers = [worker for worker in self._workers.all if worker.plan.type.start_stage == stage]
        return sorted(workers, key=lambda worker: worker.plan.type.role != "controller")

    def _import(self, late: bool) -> None:
        """Import what workers run, for them to share."""
        if late and self._mains.keys() >= {worker.plan.type.role for worker in self._of_stage(LATE_STAGE)}:
            return
        self._mains |= resolve_mains(late, self._config.cluster_store is not None)
        self._api_versions = {each: served_versions(each) for each in (False, True)}
        prepare_for_workers()
        launch.freeze()

    def _stage_serves(self) -> bool:
        return all(
            self._shared.process_state(worker.plan.slot) is ProcessState.RUNNING
            for worker in self._workers.all
            if worker.plan.type.start_stage < self._started_stages
        )

    def _fork(self, workers: Sequence[Worker]) -> None:
        if not workers:
            return
        for worker, (pid, pidfd) in zip(
            workers, launch.launch([self._launch_of(worker) for worker in workers], self._oom_score), strict=True
        ):
            self._shared.process_started(worker.plan, pid)
            worker.started(pid, pidfd)
            self._epoll.register(pidfd, select.EPOLLIN)

    def _is_between_brokers(self, plan: ProcessPlan) -> bool:
        """Whether a processor's listener is one on which the brokers of a cluster talk to each other."""
        if self._config.cluster_store is None or plan.listener is None:
            return False
        listener = self._shared.listening.all[plan.listener]
        return listener.control or listener.name == self._config.end_points.inter_broker

    def _launch_of(self, worker: Worker) -> launch.Launch:
        plan = worker.plan
        context = self._shared.context_for(plan, self._config, self._staffing.processors())
        context.stopping = worker.leaving
        context.api_versions = self._api_versions[self._is_between_brokers(plan)]
        context.log = EventLog(plan.name.replace(" ", "-")).use_config(self._config)
        title = f"mpbroker: {plan.name}"
        if plan.listener is not None:
            title += f" {self._shared.listening.all[plan.listener].name}"
        keep = tuple(self._shared.keep_fds(context))
        return launch.Launch(context, title, self._mains[plan.type.role], keep, plan.type.parent_death)

    def _announce(self) -> None:
        """Every listener has answered: the one line on stdout, and the ready file."""
        self._ready = True
        told = (self._config.node_id, os.getpid(), self._config.data_dir, self._shared.listening.present)
        if self._ready_file:
            write_atomically(self._ready_file, ready_document(*told, self._shared.admin_url))
        try:
            write_ready_line(ready_line(*told))
        except OSError as error:
            self._log.error("ready_line_not_written", error=error)
            self._stop(EXIT_FAILED)
            return
        self._log.info("ready", listeners=",".join(listener.url for listener in self._shared.listening.present))

    # ---- deaths

    def _reap(self) -> None:
        for worker in self._workers.alive():
            death = worker.look()
            if death is None:
                continue
            self._shared.process_died(death.plan, death.status)
            self._epoll.unregister(worker.pidfd)
            worker.reap()
            self._on_death(worker, death)

    def _on_death(self, worker: Worker, death: Death) -> None:
        told: dict[str, Any] = {
            "process": death.plan.name,
            "pid": death.pid,
            "signal": death.signal,
            "exit_code": death.exit_code,
        }
        stopping = self._stopping
        if stopping is not None and death.plan.type.stop_stage <= stopping.stage:
            if death.status and death.plan.type.role in KEEPERS_OF_DATA and self._exit_code == EXIT_CLEAN:
                self._log.error("data_not_stopped_cleanly", **told, next_start="reads the logs")
                self._exit_code = EXIT_FAILED
            return
        if self._resetting:
            return
        if worker.leaving and not death.status:
            self._workers.remove(worker)
            self._shared.left(death.plan)
            self._log.info("worker_left", process=death.plan.name, pid=death.pid)
            return
        if death.is_fault:
            self._log.error("worker_fault", **told)
            self._shared.remember_killer(death.plan)
            self._reset()
            return
        delay_s = worker.plan_restart(killed=death.signal != 0)
        if worker.unsteady:
            self._shared.set_unsteady(death.plan, True)
        self._log.warning("worker_died", **told, successor_in_ms=int(delay_s * 1000))
        if (
            not self._ready
            and stopping is None
            and death.exit_code > 0
            and (death.exit_code == EXIT_CONFIG or worker.short_lives >= STARTUP_DEATHS)
        ):
            self._log.error("start_failed", process=death.plan.name, exit_code=death.exit_code)
            self._stop(death.exit_code)

    def _reset(self) -> None:
        """Stop everybody; `_reset_step` goes on when all are gone."""
        now = time.monotonic()
        if self._handover is not None:
            self._stop(EXIT_CLEAN)
        if self._stopping is not None:
            self._stopping.hurry()
            return
        self._resets.append(now)
        if len(self._resets) == MAX_RESETS and now - self._resets[0] < RESET_WINDOW_S:
            self._log.error("too_many_resets", resets=MAX_RESETS, window_s=int(RESET_WINDOW_S))
            self._stop(EXIT_FAILED)
            return
        self._resetting = True
        self._shared.set_state(BrokerState.RESETTING)
        self._workers.forget_restarts()
        self._workers.kill(signal.SIGKILL)

    def _reset_step(self) -> None:
        if self._workers.alive():
            return
        self._shared.rebuild()
        for worker in [each for each in self._workers.all if each.leaving]:
            self._workers.remove(worker)
            self._shared.left(worker.plan)
        self._resetting = self._late_forked = False
        self._started_stages = 0
        self._log.warning("reset", workers=len(self._workers.all))
        self._start_step()

    # ---- the end

    def _on_stop_signal(self) -> None:
        self._signals.stops -= 1
        if self._stopping is None and self._handover is None:
            self._log.info("stopping")
            self._begin_stop()
            return
        self._stop(EXIT_CLEAN)
        assert self._stopping is not None
        self._stopping.hurry()

    def _begin_stop(self) -> None:
        """What this broker leads goes to others first, where there are others."""
        serves = self._ready and not self._resetting
        self._handover = Handover.wanted(self._config, self._shared.process_state) if serves else None
        if self._handover is None:
            self._stop(EXIT_CLEAN)
        else:
            self._shared.set_state(BrokerState.HANDING_OVER)

    def _stop(self, exit_code: int) -> None:
        if self._stopping is not None:
            return
        if self._started_stages > START_STAGES and not self._late_forked and not self._resetting:
            self._fork_late()  # whatever clients have written by now, the log keeper is to stop cleanly
        self._exit_code = exit_code
        self._resetting = False
        self._shared.set_state(BrokerState.DRAINING)
        self._shared.close_listeners()
        self._probes.close()
        patience = exit_code == EXIT_CLEAN and self._started_stages > START_STAGES
        drain_ms = self._config.mpbroker_drain_timeout_ms if patience else 0
        config = self._config
        self._stopping = Stopping(
            self._workers,
            drain_ms / 1000,
            config.mpbroker_stop_timeout_ms / 1000,
            config.mpbroker_stop_flush_timeout_ms / 1000,
        )

    def _stop_step(self, stopping: Stopping) -> bool:
        finished = stopping.step()
        for worker in self._workers.due():  # a handler that dies while processors drain still has a successor
            if worker.plan.type.stop_stage > stopping.stage:
                self._fork([worker])
            worker.restart_at = 0.0
        if finished:
            self._end(stopping)
        return finished

    def _end(self, stopping: Stopping) -> None:
        if stopping.killed:
            self._log.error("killed_at_stop", processes=", ".join(stopping.killed))
        if self._exit_code == EXIT_CLEAN and any(name.split()[0] in KEEPERS_OF_DATA for name in stopping.killed):
            self._exit_code = EXIT_FAILED
        self._log.info("stopped", exit_code=self._exit_code)

    # ---- SIGHUP, and settings changed through the protocol

    def _reload(self) -> None:
        if self._read_config is None or self._stopping is not None:
            return
        config = reload.read_again(self._config, self._read_config, self._log)
        if config is not None:
            self._use_config(config)

    def _take_stored_settings(self) -> None:
        """The controller has stored dynamic settings, or says again which ones it has."""
        stored = self._shared.stored_settings()
        if stored is not None and stored != self._stored and self._stopping is None:
            self._stored = stored
            self._use_config(reload.with_settings(self._config, stored, self._log))

    def _use_config(self, config: BrokerConfig) -> None:
        """From now on, in every process."""
        self._config = config
        self._log.use_config(config)
        self._publish()
        self._staff()

    def _publish(self) -> None:
        self._shared.publish_config(self._config, self._staffing.processors())
        self._workers.kill(signal.SIGHUP)

    def _staff(self) -> None:
        """Let processors and handlers come and go until there are as many as the configuration says."""
        if not self._ready or self._resetting or self._stopping is not None:
            return
        self._follow_listeners()
        changes = self._staffing.changes(self._config, self._shared.listening.all)
        for plan in changes.come:
            self._make_lane(plan)
        self._fork([self._workers.add(plan) for plan in changes.come])
        if changes.come:  # the acceptor is to know them, and the tracer
            self._publish()
        for worker in changes.stay:
            worker.leaving = False  # it has been told to go: then as a worker that died, with a successor
        for worker in changes.go:
            worker.leaving = True
            worker.kill(signal.SIGTERM)
        for plan in changes.come:
            self._log.info("worker_added", process=plan.name)
        if changes.short != self._short:
            self._short = changes.short
            for role, missing in changes.short.items():
                self._log.warning("no_room_for_workers", role=role, missing=missing, remedy="start the broker again")

    def _follow_listeners(self) -> None:
        """Open and close what the configuration wants; everybody knows a listener before its processes are forked."""
        listening, passed = self._shared.listening, self._shared.passed
        busy = {worker.plan.listener for worker in self._workers.all if worker.plan.listener is not None} | passed.held
        for index in listening.removed:
            if index not in busy:
                self._shared.empty_places(self._staffing.forget(index))
        changed, errors = listening.follow(self._config, busy)
        for error in errors:
            self._log.error("listener_not_opened", reason=error, again_in_s=int(HEARTBEAT_S))
        if changed:
            self._publish()
            write_status_file(self._config.data_dir, self._shared.status_file(self._config))
            self._log.info("listeners_changed", listeners=",".join(each.url for each in listening.present))
        passed.follow(listening)

    def _make_lane(self, plan: ProcessPlan) -> None:
        """A processor without one serves all the same."""
        try:
            if plan.type.role == "processor":
                self._shared.make_lane(plan)
        except LaneError as error:
            self._log.warning("requests_not_traced", process=plan.name, reason=error)
