"""Everything workers inherit: shared memory, trace lanes and notices, eventfds, hand-over socketpairs, listening
sockets.

Made by the supervisor before the first fork and held by it to the end; a death of any worker takes none of it away.
"""

import contextlib
import fcntl
import json
import os
import socket
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from mpbroker import __version__
from mpbroker.config.broker_config import BrokerConfig
from mpbroker.config.dynamic import DynamicSettings
from mpbroker.config.limits import (
    COORDINATORS,
    HANDLER_ARENA_BYTES,
    MAX_HANDLERS,
    MAX_PROCESSORS,
    MIN_HANDLER_ARENA_BYTES,
    PROCESSOR_ARENA_BYTES,
)
from mpbroker.config.memory import available_memory_bytes
from mpbroker.log import reserve_file
from mpbroker.metrics.event_log import EventLog
from mpbroker.network.fd_passing import close_all, handover_pair, receive_message
from mpbroker.shm import segment, settings_board
from mpbroker.shm.clock import Began
from mpbroker.shm.core_view import CLAIMED
from mpbroker.shm.layout import INDEX_BITS, MAX_FETCH_SESSIONS, MAX_SLOTS, PAGE_BYTES, SESSION_UNIT_BYTES, MemoryPlan
from mpbroker.shm.page_view import PageView
from mpbroker.shm.process_context import MAX_CONFIG_BYTES, ProcessContext
from mpbroker.shm.process_table import NO_LISTENER, BrokerState, ProcessState
from mpbroker.shm.troubles import Trouble
from mpbroker.shm.waits import WaitName
from mpbroker.supervisor import health
from mpbroker.supervisor.health import Facts, Finding
from mpbroker.supervisor.passed_listeners import PassedListeners
from mpbroker.supervisor.process_types import SUPERVISOR_SLOT, ProcessPlan
from mpbroker.supervisor.ready import listener_document
from mpbroker.supervisor.sockets import Listening, admin_url
from mpbroker.supervisor.staffing import Room
from mpbroker.supervisor.startup import Claim
from mpbroker.supervisor.status_file import StatusFile
from mpbroker.trace import lane

MOST_ENTRIES = 2**INDEX_BITS - 2
TRACE_NOTICES_BYTES = 1 << 20
"""What the pipe to the tracer holds: some ten thousand connections opened and closed between two of its turns."""


class SharedState:
    """Owner of what is shared. `close` removes every name; only the supervisor calls it."""

    def __init__(
        self,
        config: BrokerConfig,
        plans: tuple[ProcessPlan, ...],
        listening: Listening,
        admin_socket: socket.socket | None,
        claim: Claim,
    ) -> None:
        self.plans = plans  # those of the start
        self.listening = listening
        self.passed = PassedListeners()
        self._admin_socket = admin_socket
        self._cluster_id = claim.cluster_id
        self._lock_fds = claim.lock_fds
        self._directories = claim.directories
        self._data_dir = config.data_dir
        plan = memory_plan(config, plans)
        self.room = Room(plan.processors, plan.handlers - plan.coordinator)
        self.boot_id = int.from_bytes(os.urandom(8), "little") >> 1 or 1
        self._began = Began.now()
        self._boot_secret = os.urandom(32)
        segment.sweep(config.data_dir)
        self._eventfds = tuple(os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC) for _ in range(plan.processors))
        self.notice_fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._config_fd = os.memfd_create("mpbroker-config", os.MFD_CLOEXEC)
        self._settings_fd = settings_board.create()
        self._controller_fd = _controller_board() if config.cluster_store is not None else -1
        self._handovers = [handover_pair() for _ in range(plan.processors)]
        self._memory = segment.create(plan, config.data_dir, self.boot_id, self._eventfds)
        self._arm_crash_points()
        self._mark_offline()
        self._made_lanes: set[int] = set()
        self._lanes = self._create_lanes(config)
        self._trace_notices = trace_notices_pipe() if self._lanes else (-1, -1)
        self._trace_bell_fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC) if self._lanes else -1
        self._rows = [self._memory.row(slot) for slot in range(MAX_SLOTS)]
        self._rows[SUPERVISOR_SLOT].begin(os.getpid(), 0, 0, NO_LISTENER)
        self._rows[SUPERVISOR_SLOT].set_state(ProcessState.RUNNING)

    def _mark_offline(self) -> None:
        """Log directories that could not be used at the start, in memory that is new."""
        for number, directory in enumerate(self._directories):
            if directory.problem:
                self._memory.core.fail_log_dir(number)

    def _arm_crash_points(self) -> None:
        """Those of the environment, for tests and for whoever wants to see a repair; they need a build that has
        them."""
        points = os.environ.get(segment.CRASH_VARIABLE)
        if not points:
            return
        try:
            self._memory.arm_crash_points(points)
        except BaseException:
            self._memory.close()
            raise

    def _create_lanes(self, config: BrokerConfig) -> tuple[str, ...]:
        """Names of the trace lanes, one for each processor there is room for; none when tracing is off. Those of the
        processors of the start are made."""
        if not config.mpbroker_trace_enabled:
            return ()
        if self._has_dashcam(config):
            segment.check_room(config.mpbroker_trace_dashcam_bytes)
        prefix = f"{segment.name_prefix(config.data_dir)}{self.boot_id:016x}-lane-"
        lanes = tuple(f"{prefix}{index}" for index in range(self.room.processors))
        try:
            for plan in self.plans:
                if plan.type.role == "processor":
                    lane.create(lanes[plan.index], plan.index, self.boot_id)
                    self._made_lanes.add(plan.index)
        except BaseException:
            segment.sweep(config.data_dir)
            raise
        return lanes

    def _lanes_for(self, plan: ProcessPlan) -> tuple[str, ...]:
        """Empty names where there is no lane; the tracer looks for those that may come."""
        if plan.type.role == "tracer":
            return self._lanes
        return tuple(name if index in self._made_lanes else "" for index, name in enumerate(self._lanes))

    def make_lane(self, plan: ProcessPlan) -> None:
        """The lane of a processor that is added, if it has none yet. LaneError: /dev/shm is too small for it."""
        if self._lanes and plan.index not in self._made_lanes:
            lane.create(self._lanes[plan.index], plan.index, self.boot_id)
            self._made_lanes.add(plan.index)

    @property
    def page_name(self) -> str:
        """Name of the metrics page."""
        return self._memory.name

    @property
    def names(self) -> tuple[str, ...]:
        """Every name of this broker in /dev/shm."""
        return (self.page_name, *(self._lanes[index] for index in sorted(self._made_lanes) if self._lanes))

    def status_file(self, config: BrokerConfig) -> StatusFile:
        """What `status` and `stop` are told, from outside."""
        return StatusFile(
            pid=os.getpid(),
            version=__version__,
            node_id=config.node_id,
            cluster_id=self._cluster_id,
            boot_id=self.boot_id,
            started_ms=time.time_ns() // 1_000_000,
            started_ns=time.monotonic_ns(),
            page=self.page_name,
            names=self.names,
            listeners=tuple(listener_document(one) | {"index": one.index} for one in self.listening.present),
            trace_dir=self._trace_place(config),
            admin=self.admin_url,
            dump_dir=config.trace_dir if self._has_dashcam(config) else "",
        )

    @property
    def admin_url(self) -> str | None:
        """Where the admin process is found; None when there is none."""
        return admin_url(self._admin_socket)

    def _has_dashcam(self, config: BrokerConfig) -> bool:
        return bool(config.mpbroker_trace_enabled and config.mpbroker_trace_dashcam_bytes)

    def _trace_place(self, config: BrokerConfig) -> str:
        if self._has_dashcam(config):
            return segment.dashcam_directory(config.data_dir, self.boot_id)
        return config.trace_dir if config.mpbroker_trace_enabled else ""

    def ask_for_dump(self, config: BrokerConfig, log: EventLog) -> None:
        """SIGUSR1: the tracer takes it as it takes `mpbroker trace dump`."""
        if not self._has_dashcam(config):
            log.info("no_dashcam", hint="SIGUSR1 asks for a dump of it: mpbroker.trace.dashcam.bytes")
            return
        from pathlib import Path

        from mpbroker.trace import mark_spool

        try:
            mark_spool.put(Path(self._trace_place(config)), "SIGUSR1", dump_after_ms=0)
        except OSError as error:
            log.error("trace_dump_failed", directory=self._trace_place(config), reason=str(error))

    # ---- processes

    def context_for(
        self, plan: ProcessPlan, config: BrokerConfig, processors: Mapping[int, Sequence[int]]
    ) -> ProcessContext:
        """What the next process of a slot is given; takes the slot for it. `processors`: of each listener."""
        row = self._rows[plan.slot]
        row.begin(0, plan.type.number, plan.index, NO_LISTENER if plan.listener is None else plan.listener)
        context = ProcessContext(
            core=self._memory.core,
            config=config,
            role=plan.type.role,
            index=plan.index,
            slot=plan.slot,
            process_row=row,
            incarnation=row.incarnation,
            boot_id=self.boot_id,
            began=self._began,
            boot_secret=self._boot_secret,
            cluster_id=self._cluster_id,
            listeners=self.listening.all,
            listener=plan.listener,
            eventfds=self._eventfds,
            lanes=self._lanes_for(plan),
            names=(self.page_name, *self._lanes),  # also those that may come
            data_dirs=tuple(directory.path for directory in self._directories),
            directory_ids=tuple(directory.id for directory in self._directories),
            supervisor_pid=os.getpid(),
            notice_fd=self.notice_fd,
            config_fd=self._config_fd,
            settings_fd=self._settings_fd,
            controller_fd=self._controller_fd,
        )
        if plan.type.role == "acceptor":
            context.listen_sockets = self.passed.begin(self.listening)
            context.listener_channel = self.passed.acceptors_end
            context.processors = {index: tuple(places) for index, places in processors.items()}
            context.handovers = {index: pair[0] for index, pair in enumerate(self._handovers)}
        elif plan.type.role == "processor":
            context.handovers = {plan.index: self._handovers[plan.index][1]}
            context.trace_notices_fd = self._trace_notices[1]
            context.trace_bell_fd = self._trace_bell_fd
        elif plan.type.role == "tracer":
            context.trace_notices_fd = self._trace_notices[0]
            context.trace_bell_fd = self._trace_bell_fd
            context.may_trace = lambda: not reserve_file.is_spent_by(config.trace_dir, self._data_dir)
        elif plan.type.role == "controller":
            context.trace_notices_fd = self._trace_notices[1]
        elif plan.type.role == "admin":
            context.listen_socket = self._admin_socket
            context.roles = health.ROLES
            context.judge = self._judge
        return context

    def keep_fds(self, context: ProcessContext) -> list[int]:
        """The descriptors a worker needs. The tracer may outlive the supervisor and must not hold the directory's
        lock."""
        keep = [self.notice_fd, self._config_fd, self._settings_fd, *self._eventfds]
        if self._controller_fd >= 0:
            keep.append(self._controller_fd)
        keep += [end.fileno() for end in context.handovers.values()]
        keep += [each.fileno() for each in context.listen_sockets.values()]
        if context.listener_channel is not None:
            keep.append(context.listener_channel.fileno())
        if context.listen_socket is not None:
            keep.append(context.listen_socket.fileno())
        keep += [fd for fd in (context.trace_notices_fd, context.trace_bell_fd) if fd >= 0]
        if context.role != "tracer":
            keep += self._lock_fds
        return keep

    def process_started(self, plan: ProcessPlan, pid: int) -> None:
        """A process was forked."""
        self._rows[plan.slot].pid = pid

    def left(self, plan: ProcessPlan) -> None:
        """The slot's process has left for good; what it counted stays."""
        row = self._rows[plan.slot]
        row.pid = 0
        row.unsteady_since_ns = 0
        row.state = ProcessState.EMPTY

    def process_died(self, plan: ProcessPlan, status: int) -> None:
        """A process died with a wait(2) status; it has not been reaped."""
        row = self._rows[plan.slot]
        row.last_exit = status
        row.restarts = row.restarts + 1
        row.wait = WaitName.NONE
        row.connections = 0
        row.state = ProcessState.DEAD

    def _judge(self, page: PageView) -> list[Finding]:
        """What is not well at the moment."""
        now_ns = time.monotonic_ns()
        facts = Facts(page.state, now_ns, page.processes(), page.rings(), page.reserved_handlers, self.held_requests)
        return health.judge(facts, now_ns)

    def set_unsteady(self, plan: ProcessPlan, unsteady: bool) -> None:
        """The slot's processes die young; while none lives its wait is for the next fork."""
        row = self._rows[plan.slot]
        if unsteady and row.state == ProcessState.DEAD:
            row.wait = WaitName.SUCCESSOR_DELAY
        if not unsteady or not row.unsteady_since_ns:
            row.unsteady_since_ns = time.monotonic_ns() if unsteady else 0

    def set_trouble(self, trouble: Trouble, there: bool) -> None:
        """What is wrong with the broker as a whole stands in the supervisor's row."""
        self._rows[SUPERVISOR_SLOT].set_trouble(trouble, there)

    def held_requests(self) -> Counter[int]:
        """Requests by the slot of the handler that executes or has parked them."""
        return Counter(owner for _, _, state, owner in self._memory.core.entry_states() if state == CLAIMED)

    def oldest_beat_ns(self, slots: Iterable[int]) -> int:
        """When the one of these processes that has been silent for longest beat last, by CLOCK_MONOTONIC."""
        return min((self._rows[slot].heartbeat_ns for slot in slots), default=0)

    def process_state(self, slot: int) -> ProcessState:
        """State of a slot."""
        return ProcessState(self._rows[slot].state)

    # ---- the broker

    def set_state(self, state: BrokerState) -> None:
        """State of the whole broker. Everybody is rung when it is about to stop, for long polls end then."""
        self._memory.set_state(state)
        if state is BrokerState.DRAINING:
            self._memory.core.ring_everybody()

    def heartbeat(self, waiting: bool) -> None:
        """The supervisor is alive."""
        self._rows[SUPERVISOR_SLOT].set_wait(WaitName.SUPERVISE if waiting else WaitName.NONE)

    def drain_notices(self) -> None:
        """Workers told that they serve, or the controller that settings were changed."""
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self.notice_fd)

    def stored_settings(self) -> DynamicSettings | None:
        """Dynamic settings as the controller stored them; None: it has not said yet."""
        return settings_board.read(self._settings_fd)

    def publish_config(self, config: BrokerConfig, processors: Mapping[int, Sequence[int]]) -> None:
        """Put the configuration, and the processors of each listener, where workers read them after SIGHUP."""
        layers = {name: dict(layer) for name, layer in config.dynamic._asdict().items()}
        document = json.dumps(
            {
                "texts": config.texts,
                "cores": config.cores,
                "processors": processors,
                "listeners": self.listening.all,
                **layers,
            }
        ).encode()
        assert len(document) <= MAX_CONFIG_BYTES
        os.pwrite(self._config_fd, document, 0)
        os.ftruncate(self._config_fd, len(document))

    def rebuild(self) -> None:
        """After a reset: empty memory under the same name, no socket under way, no bell pending. Every worker is
        dead."""
        self.empty_places(range(len(self._handovers)))
        for descriptor in self._eventfds:
            with contextlib.suppress(BlockingIOError):
                os.eventfd_read(descriptor)
        self._memory.reset(self._eventfds)
        self._mark_offline()
        self._rows = [self._memory.row(slot) for slot in range(MAX_SLOTS)]

    def close_strays(self, processors: Iterable[int]) -> None:
        """Close our copies of sockets on their way to processors that are not there: the acceptor has its own, and a
        copy in the kernel would keep a connection open that everybody else has closed."""
        for index in processors:
            while (message := receive_message(self._handovers[index][1])) is not None:
                close_all(message.sockets)

    def empty_places(self, processors: Iterable[int]) -> None:
        """Close every socket under way to or from processors, of which the acceptor has let go, too."""
        self.close_strays(processors)
        for index in processors:
            while (message := receive_message(self._handovers[index][0])) is not None:
                close_all(message.sockets)

    def remember_killer(self, plan: ProcessPlan) -> None:
        """A fault ended this process: if it was a handler, or the coordinator, keep the digest of the frame it executed
        over the reset."""
        if plan.type.role == "handler":
            self._memory.remember_killer(plan.index)
        elif plan.type.role == "coordinator":
            self._memory.remember_killer(self._memory.core.coordinator)

    def close_listeners(self) -> None:
        """Refuse new connections from now on (the acceptor's copies go with it)."""
        self.listening.close()

    def close(self) -> None:
        """Remove every name."""
        self.close_listeners()
        self.passed.close()
        if self._admin_socket is not None:
            self._admin_socket.close()
        segment.sweep(self._data_dir)


def trace_notices_pipe() -> tuple[int, int]:
    """Reading end, writing end; neither ever waits. The supervisor holds both, so that no death of a worker closes
    it."""
    reading, writing = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    with contextlib.suppress(PermissionError):  # the system allows less: what finds no room is counted by its writer
        fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, TRACE_NOTICES_BYTES)
    return reading, writing


def _controller_board() -> int:
    """Of a broker of a cluster; others do not import it."""
    from mpbroker.shm import controller_board

    return controller_board.create()


def answer_bytes_of_handler(config: BrokerConfig, handlers: int) -> int:
    """Memory for answers of one handler, in bytes: its part of what the configuration allows for all of them."""
    total: int = config.mpbroker_answer_memory_bytes
    if total < 0:
        total = available_memory_bytes() // 4
    part = max(MIN_HANDLER_ARENA_BYTES, min(total // handlers, HANDLER_ARENA_BYTES))
    return part // PAGE_BYTES * PAGE_BYTES


def request_bytes_of_processor(config: BrokerConfig, processors: int) -> int:
    """Address space for requests of one processor, in bytes. By default they fill no more of a small container than
    the largest request that is allowed."""
    given: int = config.mpbroker_arena_bytes_per_processor
    if given >= 0:
        return given
    part = min(available_memory_bytes() // 4 // processors, PROCESSOR_ARENA_BYTES)
    largest: int = config.socket_request_max_bytes
    return -(-max(part, largest) // PAGE_BYTES) * PAGE_BYTES


def memory_plan(config: BrokerConfig, plans: tuple[ProcessPlan, ...]) -> MemoryPlan:
    """How much of everything: room for as many processors and handlers as there may ever be (`num.network.threads` and
    `num.io.threads` change while the broker runs), which costs memory only where they run."""
    coordinator = any(plan.type.role == "coordinator" for plan in plans)
    handlers = sum(plan.type.role == "handler" for plan in plans) + coordinator
    processors = sum(plan.type.role == "processor" for plan in plans)
    entries = min(config.mpbroker_entries_per_processor, MOST_ENTRIES // processors)
    return MemoryPlan(
        processors=max(processors, min(MAX_PROCESSORS, MOST_ENTRIES // entries)),
        handlers=MAX_HANDLERS - COORDINATORS + coordinator,
        coordinator=coordinator,
        reserved_handlers=config.reserved_handlers,
        entries_per_processor=entries,
        data_requests=config.queued_max_requests,
        topics=config.mpbroker_max_topics,
        partitions=config.mpbroker_max_partitions,
        producers=config.mpbroker_max_producers,
        groups=config.mpbroker_max_groups,
        members=config.mpbroker_max_group_members,
        fetch_sessions=min(config.max_incremental_fetch_session_cache_slots, MAX_FETCH_SESSIONS),
        session_units=config.mpbroker_fetch_session_memory_bytes // SESSION_UNIT_BYTES,
        replicated=config.cluster_store is not None,
        arena_processor_bytes=request_bytes_of_processor(config, processors),
        arena_handler_bytes=answer_bytes_of_handler(config, handlers),
    )
