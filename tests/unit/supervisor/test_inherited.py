"""What each kind of worker is given by the supervisor, and which names and lanes there are."""

import fcntl
import os
from types import SimpleNamespace

import pytest

from mpbroker.config.limits import HANDLER_ARENA_BYTES, MAX_HANDLERS, MAX_PROCESSORS, MIN_HANDLER_ARENA_BYTES
from mpbroker.config.load_config import load_broker_config
from mpbroker.shm.clock import Began
from mpbroker.shm.core_view import CLAIMED
from mpbroker.shm.layout import MAX_FETCH_SESSIONS, MAX_SLOTS, PAGE_BYTES, SESSION_UNIT_BYTES
from mpbroker.shm.process_table import NO_LISTENER, BrokerState, ProcessState
from mpbroker.shm.troubles import Trouble
from mpbroker.shm.waits import WaitName
from mpbroker.supervisor import shared_state
from mpbroker.supervisor.process_types import SUPERVISOR_SLOT, ProcessPlan, process_type
from mpbroker.supervisor.shared_state import (
    MOST_ENTRIES,
    SharedState,
    answer_bytes_of_handler,
    memory_plan,
    trace_notices_pipe,
)

LISTENERS = ("first", "second")
READING, WRITING, BELL = 70, 71, 72


def config(*overrides):
    return load_broker_config(overrides=["log.dirs=/data", *overrides], environ={}, cores=2)


class Row(SimpleNamespace):
    """A row of the process table that remembers who began."""

    def begin(self, *who):
        self.begun, self.incarnation = who, 12

    def set_trouble(self, *words):
        self.trouble = words

    def set_wait(self, name):
        self.wait = name


@pytest.fixture
def made(monkeypatch):
    """Shared state of a broker with two processors and room for four."""
    lanes = []
    monkeypatch.setattr(shared_state.lane, "create", lambda name, index, boot_id: lanes.append((name, index, boot_id)))
    monkeypatch.setattr(shared_state.segment, "name_prefix", lambda path: f"prefix{path}-")
    monkeypatch.setattr(shared_state.segment, "dashcam_directory", lambda path, boot_id: f"ram{path}-{boot_id}")
    one = object.__new__(SharedState)
    one.plans = tuple(ProcessPlan(process_type("processor"), index, 0) for index in (0, 1))
    one.lanes_made, one.room, one.boot_id, one._boot_secret = lanes, SimpleNamespace(processors=4), 0xAB, b"secret"
    one._made_lanes, one._data_dir, one._cluster_id, one._began = set(), "/data", "c", Began(9, 7)
    one._memory = SimpleNamespace(name="page", core=SimpleNamespace(coordinator=9), remembered=[])
    one._memory.remember_killer = one._memory.remembered.append
    one._rows = [Row(state=0) for _ in range(MAX_SLOTS)]
    one.listening = SimpleNamespace(all=LISTENERS)
    one.passed = SimpleNamespace(begin=lambda listening: {0: listening.all[0]}, acceptors_end="channel")
    one._eventfds, one.notice_fd, one._config_fd, one._settings_fd, one._controller_fd = (1, 2), 3, 4, 5, -1
    one._directories = [SimpleNamespace(path="/a", id="A", problem=""), SimpleNamespace(path="/b", id="B", problem="x")]
    one._handovers = [("a0", "p0"), ("a1", "p1")]
    one._trace_notices, one._admin_socket = (READING, WRITING), "admin socket"
    one._trace_bell_fd = BELL
    return one


def context(made, role, index=0, listener=None):
    made._lanes = made._create_lanes(config())
    return made.context_for(ProcessPlan(process_type(role), index, listener), config(), {0: [0, 1], 1: []})


@pytest.mark.parametrize("role", ["acceptor", "processor", "handler", "tracer", "controller", "admin", "log-keeper"])
def test_a_worker_is_given_what_its_role_needs(made, role):
    given = context(made, role, 1 if role == "processor" else 0, 0 if role == "processor" else None)
    assert (given.role, given.boot_id, given.boot_secret, given.cluster_id) == (role, 0xAB, b"secret", "c")
    assert (given.incarnation, given.listeners, given.eventfds) == (12, LISTENERS, (1, 2))
    assert given.began == Began(9, 7)
    assert (given.data_dirs, given.directory_ids) == (("/a", "/b"), ("A", "B"))
    assert (given.notice_fd, given.config_fd, given.settings_fd, given.controller_fd) == (3, 4, 5, -1)
    assert given.process_row is made._rows[given.slot]
    assert given.process_row.begun[0] == 0 and given.process_row.begun[2] == given.index
    assert given.process_row.begun[3] == (0 if role == "processor" else NO_LISTENER)
    notices = {"processor": WRITING, "controller": WRITING, "tracer": READING}
    assert given.trace_notices_fd == notices.get(role, -1)
    assert given.trace_bell_fd == (BELL if role in ("processor", "tracer") else -1)
    assert given.handovers == {"acceptor": {0: "a0", 1: "a1"}, "processor": {1: "p1"}}.get(role, {})
    assert given.listen_sockets == ({0: "first"} if role == "acceptor" else {})
    assert given.listener_channel == ("channel" if role == "acceptor" else None)
    assert given.processors == ({0: (0, 1), 1: ()} if role == "acceptor" else {})
    assert given.listen_socket == ("admin socket" if role == "admin" else None)


def test_only_the_tracer_looks_for_lanes_that_may_come(made):
    lanes = tuple(f"prefix/data-{0xAB:016x}-lane-{index}" for index in range(4))
    assert context(made, "tracer").lanes == lanes
    assert made.lanes_made == [(lanes[0], 0, 0xAB), (lanes[1], 1, 0xAB)]
    assert context(made, "handler").lanes == (lanes[0], lanes[1], "", "")
    assert made.names == ("page", lanes[0], lanes[1])
    for _ in range(2):
        made.make_lane(ProcessPlan(process_type("processor"), 2, 0))
    assert made.lanes_made[-1] == (lanes[2], 2, 0xAB) and made.names[1:] == lanes[:3]


def test_without_tracing_there_are_no_lanes(made):
    off = config("mpbroker.trace.enabled=false")
    made._lanes = made._create_lanes(off)
    made.make_lane(made.plans[0])
    assert made._lanes == () and made.lanes_made == [] and made.names == ("page",)
    assert made._trace_place(off) == "" and not made._has_dashcam(off)


def test_lanes_that_cannot_be_made_leave_nothing(made, monkeypatch):
    swept = []
    monkeypatch.setattr(shared_state.segment, "sweep", swept.append)
    monkeypatch.setattr(shared_state.lane, "create", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        made._create_lanes(config())
    assert len(swept) == 1


@pytest.mark.parametrize("dashcam", [0, 1 << 24])
def test_traces_go_to_memory_with_a_dashcam(made, monkeypatch, dashcam):
    asked = []
    monkeypatch.setattr(shared_state.segment, "check_room", asked.append)
    settings = config(f"mpbroker.trace.dashcam.bytes={dashcam}")
    made._create_lanes(settings)
    assert asked == [dashcam] * bool(dashcam)
    assert made._trace_place(settings) == ("ram/data-171" if dashcam else settings.trace_dir)
    told = []
    log = SimpleNamespace(info=lambda event, **_: told.append(event), error=lambda event, **_: told.append(event))
    monkeypatch.setattr("mpbroker.trace.mark_spool.put", lambda place, *_, **how: told.append((str(place), how)))
    made.ask_for_dump(settings, log)
    assert told == ([("ram/data-171", {"dump_after_ms": 0})] if dashcam else ["no_dashcam"])


def test_directories_that_could_not_be_used_are_offline_from_the_start(made):
    failed = []
    made._memory.core.fail_log_dir = failed.append
    made._mark_offline()
    assert failed == [1]


@pytest.mark.parametrize(("role", "remembered"), [("handler", [3]), ("coordinator", [9]), ("processor", [])])
def test_the_frame_that_killed_a_handler_or_the_coordinator_is_remembered(made, role, remembered):
    made.remember_killer(ProcessPlan(process_type(role), 0 if role == "coordinator" else 3, None))
    assert made._memory.remembered == remembered


def test_what_the_supervisor_says_of_itself_and_of_the_broker(made):
    rung, row = [], made._rows[SUPERVISOR_SLOT]
    made._memory.set_state = rung.append
    made._memory.core.ring_everybody = lambda: rung.append("all")
    for state in (BrokerState.RUNNING, BrokerState.DRAINING):
        made.set_state(state)
    assert rung == [BrokerState.RUNNING, BrokerState.DRAINING, "all"]
    made.set_trouble(Trouble.LOG_DIRECTORY_OFFLINE, True)
    assert row.trouble == (Trouble.LOG_DIRECTORY_OFFLINE, True)
    for waiting, name in ((True, WaitName.SUPERVISE), (False, WaitName.NONE)):
        made.heartbeat(waiting)
        assert row.wait == name
    made._rows[3].state = ProcessState.DEAD
    assert made.process_state(3) is ProcessState.DEAD


def test_requests_in_the_hands_of_handlers_are_counted(made):
    states = [(0, 0, CLAIMED, 5), (1, 0, CLAIMED + 1, 5), (2, 0, CLAIMED, 6), (3, 0, CLAIMED, 5)]
    made._memory.core.entry_states = lambda: states
    assert made.held_requests() == {5: 2, 6: 1}


# ---- how much memory


@pytest.mark.parametrize(
    ("total", "handlers", "each"),
    [
        (HANDLER_ARENA_BYTES * 2, 2, HANDLER_ARENA_BYTES),
        (HANDLER_ARENA_BYTES * 4, 2, HANDLER_ARENA_BYTES),
        (HANDLER_ARENA_BYTES * 2 - 2 * PAGE_BYTES, 2, HANDLER_ARENA_BYTES - PAGE_BYTES),
        (HANDLER_ARENA_BYTES * 2 - 2, 2, HANDLER_ARENA_BYTES - PAGE_BYTES),
        (1, 2, MIN_HANDLER_ARENA_BYTES),
        (-1, 2, HANDLER_ARENA_BYTES // 2),
    ],
)
def test_the_memory_for_answers_is_shared_out(monkeypatch, total, handlers, each):
    monkeypatch.setattr(shared_state, "available_memory_bytes", lambda: 4 * HANDLER_ARENA_BYTES)
    assert answer_bytes_of_handler(SimpleNamespace(mpbroker_answer_memory_bytes=total), handlers) == each


def plans(processors=2, handlers=3, coordinator=True):
    made = [ProcessPlan(process_type("processor"), index, 0) for index in range(processors)]
    made += [ProcessPlan(process_type("handler"), index, None) for index in range(handlers)]
    return (*made, *([ProcessPlan(process_type("coordinator"), 0, None)] if coordinator else []))


@pytest.mark.parametrize("coordinator", [True, False])
def test_there_is_room_for_as_many_as_there_may_ever_be(coordinator):
    made = memory_plan(config("mpbroker.entries.per.processor=1000"), plans(coordinator=coordinator))
    assert made.processors == MAX_PROCESSORS and made.entries_per_processor == 1000
    assert made.handlers == MAX_HANDLERS - 1 + coordinator and made.coordinator is coordinator
    assert not made.replicated and made.fetch_sessions <= MAX_FETCH_SESSIONS
    settings = config("max.incremental.fetch.session.cache.slots=7", "mpbroker.fetch.session.memory.bytes=1048576")
    small = memory_plan(settings, plans())
    assert (small.fetch_sessions, small.session_units) == (7, 1048576 // SESSION_UNIT_BYTES)


def test_many_entries_leave_room_for_fewer_processors():
    most = SimpleNamespace(**vars_of(config()), mpbroker_entries_per_processor=MOST_ENTRIES // 3)
    made = memory_plan(most, plans())
    assert (made.processors, made.entries_per_processor) == (3, MOST_ENTRIES // 3)
    most.mpbroker_entries_per_processor = MOST_ENTRIES
    made = memory_plan(most, plans())
    assert (made.processors, made.entries_per_processor) == (2, MOST_ENTRIES // 2)


def vars_of(settings):
    names = (
        "reserved_handlers", "queued_max_requests", "mpbroker_max_topics", "mpbroker_max_partitions",
        "mpbroker_max_producers", "mpbroker_max_groups", "mpbroker_max_group_members",
        "max_incremental_fetch_session_cache_slots", "mpbroker_fetch_session_memory_bytes", "cluster_store",
        "mpbroker_arena_bytes_per_processor", "mpbroker_answer_memory_bytes", "socket_request_max_bytes",
    )  # fmt: skip
    return {name: getattr(settings, name) for name in names}


def test_the_pipe_of_notices_holds_many():

    reading, writing = trace_notices_pipe()
    try:
        assert fcntl.fcntl(writing, fcntl.F_GETPIPE_SZ) >= 1 << 16
        for end in (reading, writing):
            assert not os.get_blocking(end) and not os.get_inheritable(end)
    finally:
        os.close(reading)
        os.close(writing)
