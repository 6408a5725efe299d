"""What the supervisor writes into the rows of processes, and which descriptors each may keep."""

import fcntl
import os
from types import SimpleNamespace

import pytest

from mpbroker.config.load_config import load_broker_config
from mpbroker.shm.layout import MAX_SLOTS
from mpbroker.shm.process_context import BoundListener
from mpbroker.shm.process_table import NO_LISTENER, ProcessRow, ProcessState, WaitName
from mpbroker.shm.segment import CRASH_VARIABLE
from mpbroker.supervisor import shared_state
from mpbroker.supervisor.further_directories import LogDirectory
from mpbroker.supervisor.process_types import SUPERVISOR_SLOT, ProcessPlan, plan_processes, process_type
from mpbroker.supervisor.shared_state import SharedState
from tests.harness.small_core import small_core

PLAN = ProcessPlan(process_type("handler"), 1)
NOTICE, CONFIG, SETTINGS, CONTROLLER, EVENT, LOCK, PASSED, LISTENER, CHANNEL, ADMIN, TRACE = range(50, 61)


def descriptor(number):
    return SimpleNamespace(fileno=lambda: number)


@pytest.fixture
def shared(monkeypatch):
    made = object.__new__(SharedState)
    small = small_core()
    made._rows = [ProcessRow(small.core, slot) for slot in range(MAX_SLOTS)]
    made.now_ns = 7_000
    monkeypatch.setattr(shared_state, "time", SimpleNamespace(monotonic_ns=lambda: made.now_ns))
    made.notice_fd, made._config_fd, made._settings_fd, made._controller_fd = NOTICE, CONFIG, SETTINGS, -1
    made._eventfds, made._lock_fds = (EVENT,), (LOCK,)
    return made


def test_a_death_is_counted_and_nothing_of_it_is_shown_as_going_on(shared):
    row = shared._rows[PLAN.slot]
    row.begin(4, PLAN.type.number, 1, 0)
    shared.process_started(PLAN, 4711)
    assert row.pid == 4711
    row.wait, row.connections, restarts = WaitName.SUCCESSOR_DELAY, 12, row.restarts
    for number in (1, 2):
        shared.process_died(PLAN, 9 + number)
        assert (row.last_exit, row.restarts) == (9 + number, restarts + number)
    assert (row.wait, row.connections, row.state) == (WaitName.NONE, 0, ProcessState.DEAD)


def test_the_oldest_beat_is_that_of_those_who_are_asked_for(shared):
    for slot, beat_ns in ((PLAN.slot, 30), (PLAN.slot + 1, 20), (PLAN.slot + 2, 10)):
        shared._rows[slot].heartbeat_ns = beat_ns
    assert shared.oldest_beat_ns([PLAN.slot, PLAN.slot + 1]) == 20
    assert shared.oldest_beat_ns(iter([PLAN.slot + 2, PLAN.slot])) == 10 and shared.oldest_beat_ns([]) == 0


def test_who_left_for_good_is_not_shown(shared):
    row = shared._rows[PLAN.slot]
    row.begin(4711, PLAN.type.number, 1, 0)
    row.unsteady_since_ns, row.connections = 5, 3
    shared.left(PLAN)
    assert (row.pid, row.unsteady_since_ns, row.state) == (0, 0, ProcessState.EMPTY)


def test_who_dies_young_is_unsteady_since_the_first_time(shared):
    row = shared._rows[PLAN.slot]
    row.begin(4711, PLAN.type.number, 1, 0)
    shared.set_unsteady(PLAN, True)
    assert (row.wait, row.unsteady_since_ns) == (WaitName.NONE, 7_000), "it lives"
    shared.now_ns = 8_000
    row.state = ProcessState.DEAD
    shared.set_unsteady(PLAN, True)
    assert (row.wait, row.unsteady_since_ns) == (WaitName.SUCCESSOR_DELAY, 7_000)
    row.wait = WaitName.NONE
    shared.set_unsteady(PLAN, False)
    assert (row.wait, row.unsteady_since_ns) == (WaitName.NONE, 0)


def context(**given):
    usual = {"handovers": {}, "listen_sockets": {}, "listener_channel": None, "listen_socket": None}
    return SimpleNamespace(**usual | {"trace_notices_fd": -1, "trace_bell_fd": -1, "role": "handler"} | given)


@pytest.mark.parametrize(
    "given, more",
    [
        ({}, [LOCK]),
        ({"role": "tracer"}, []),
        ({"role": "tracer", "trace_notices_fd": TRACE}, [TRACE]),
        ({"trace_notices_fd": 0}, [0, LOCK]),
        ({"role": "tracer", "trace_notices_fd": TRACE, "trace_bell_fd": 0}, [TRACE, 0]),
        ({"handovers": {0: descriptor(PASSED)}}, [PASSED, LOCK]),
        ({"listen_sockets": {0: descriptor(LISTENER)}}, [LISTENER, LOCK]),
        ({"listener_channel": descriptor(CHANNEL)}, [CHANNEL, LOCK]),
        ({"listen_socket": descriptor(ADMIN)}, [ADMIN, LOCK]),
    ],
)
@pytest.mark.parametrize("controller_fd", [-1, 0, CONTROLLER])
def test_a_worker_keeps_what_it_needs(shared, given, more, controller_fd):
    """The tracer may outlive the supervisor, and must not hold the directory's lock."""
    shared._controller_fd = controller_fd
    usual = [NOTICE, CONFIG, SETTINGS, EVENT, *([controller_fd] if controller_fd >= 0 else [])]
    assert shared.keep_fds(context(**given)) == usual + more


@pytest.mark.parametrize(("given", "armed"), [(None, []), ("", []), ("append.locked:2", ["append.locked:2"])])
def test_crash_points_are_armed_when_they_are_named(shared, monkeypatch, given, armed):
    """A build without any is not asked."""
    monkeypatch.delenv(CRASH_VARIABLE, raising=False)
    if given is not None:
        monkeypatch.setenv(CRASH_VARIABLE, given)
    seen, closed = [], []
    shared._memory = SimpleNamespace(arm_crash_points=seen.append, close=lambda: closed.append(True))
    shared._arm_crash_points()
    assert (seen, closed) == (armed, [])


def test_memory_is_given_back_when_a_crash_point_is_unknown(shared, monkeypatch):
    def refuse(points):
        raise ValueError(points)

    monkeypatch.setenv(CRASH_VARIABLE, "no.such:1")
    closed = []
    shared._memory = SimpleNamespace(arm_crash_points=refuse, close=lambda: closed.append(True))
    with pytest.raises(ValueError, match="no.such"):
        shared._arm_crash_points()
    assert closed == [True]


LISTENER = BoundListener(0, "PLAINTEXT", "PLAINTEXT", "127.0.0.1", 1, "127.0.0.1", 1, False)


@pytest.fixture
def begin(monkeypatch):
    """Builds one whose memory only writes down what is done to it; nothing is named. Returns it and what was done."""
    made = []

    def build(*overrides, random=b"\xff"):
        done = []

        def row(slot):
            told = lambda *how: done.append((slot, *how))  # noqa: E731
            return SimpleNamespace(begin=told, set_state=told)

        def create(plan, path, boot_id, eventfds):
            done.append(("memory", plan, path, boot_id, len(eventfds)))
            core = SimpleNamespace(fail_log_dir=lambda number: done.append(("offline", number)))
            return SimpleNamespace(core=core, row=row, name="/page", arm_crash_points=lambda it: done.append(it))

        monkeypatch.setattr(shared_state, "Began", SimpleNamespace(now=lambda: "now"))
        monkeypatch.setattr(shared_state.os, "urandom", lambda count: random * count)
        monkeypatch.setattr(shared_state, "_controller_board", lambda: os.memfd_create("board"))
        monkeypatch.setattr(shared_state.segment, "sweep", lambda path: done.append(("swept", path)))
        monkeypatch.setattr(shared_state.segment, "create", create)
        monkeypatch.setattr(shared_state.lane, "create", lambda name, *how: done.append(("lane", *how)))
        monkeypatch.setenv(CRASH_VARIABLE, "append.locked:2")
        given = ["log.dirs=/d", "num.network.threads=2", "num.io.threads=3", "mpbroker.entries.per.processor=9000"]
        config = load_broker_config(overrides=[*given, *overrides], environ={}, cores=2)
        claim = SimpleNamespace(
            cluster_id="c",
            lock_fds=(8, 9),
            directories=(LogDirectory("/d", "a"), LogDirectory("/e", "b", "gone"), LogDirectory("/f", "c", "full")),
        )
        plans = plan_processes(config, (LISTENER,))
        listening = SimpleNamespace(close=lambda: None)
        shared = SharedState(config, plans, listening, "admin's", claim)
        made.append(shared)
        assert (shared.plans, shared.listening, shared._admin_socket) == (plans, listening, "admin's")
        assert (shared._cluster_id, shared._lock_fds, shared._directories) == ("c", (8, 9), claim.directories)
        return shared, done

    yield build
    monkeypatch.undo()
    for shared in made:
        shared.passed.close()
        for pair in shared._handovers:
            pair[0].close(), pair[1].close()
        numbers = {shared.notice_fd, shared._config_fd, shared._settings_fd, shared._controller_fd}
        for number in {*numbers, *shared._eventfds, *shared._trace_notices, shared._trace_bell_fd} - {-1}:
            os.close(number)


@pytest.mark.parametrize("traced", [True, False])
def test_what_workers_inherit_is_there_before_the_first_fork(begin, traced):
    """What a killed broker left is swept first. Room is for more processors than there are, so that they can come."""
    shared, done = begin(f"mpbroker.trace.enabled={str(traced).lower()}")
    boot_id, count = 2**63 - 1, shared.room.processors
    memory = next(one for one in done if one[0] == "memory")
    plan = memory[1]
    assert count == plan.processors > 2 and plan.coordinator
    assert shared.room.handlers == plan.handlers - 1 > 3, "the coordinator does not come and go"
    assert (shared.boot_id, shared._boot_secret, shared._data_dir) == (boot_id, b"\xff" * 32, "/d")
    assert shared._began == "now"
    lanes = [("lane", 0, boot_id), ("lane", 1, boot_id)] if traced else []
    assert done == [
        ("swept", "/d"),
        ("memory", plan, "/d", boot_id, count),
        "append.locked:2",
        ("offline", 1),
        ("offline", 2),
        *lanes,
        (SUPERVISOR_SLOT, os.getpid(), 0, 0, NO_LISTENER),
        (SUPERVISOR_SLOT, ProcessState.RUNNING),
    ]
    assert shared._made_lanes == ({0, 1} if traced else set()) and len(shared._lanes) == (count if traced else 0)
    assert len(shared._handovers) == len(set(shared._eventfds)) == count and len(shared._rows) == MAX_SLOTS
    bells = [*shared._eventfds, shared.notice_fd]
    if traced:
        reading, writing = shared._trace_notices
        os.write(writing, b"x")
        assert os.read(reading, 2) == b"x"
        bells.append(shared._trace_bell_fd)
    else:
        assert (*shared._trace_notices, shared._trace_bell_fd) == (-1, -1, -1)
    for bell in bells:  # nobody is rung yet
        with pytest.raises(BlockingIOError):
            os.eventfd_read(bell)
    assert os.fstat(shared._config_fd).st_size == 0 and shared.stored_settings() is None
    assert shared.passed.held == set() and shared._controller_fd == -1


def test_a_broker_of_a_cluster_has_a_board_of_its_controller(begin, tmp_path):
    shared, _ = begin(f"mpbroker.cluster.store=sqlite:{tmp_path}/shared.db")
    assert os.readlink(f"/proc/self/fd/{shared._controller_fd}") == "/memfd:board (deleted)"


def test_the_number_of_a_start_is_never_zero(begin):
    """Zero says that there is none."""
    shared, _ = begin(random=b"\0")
    assert shared.boot_id == 1


def test_the_pipe_to_the_tracer_never_makes_anybody_wait_and_has_room(monkeypatch):
    asked, control = [], fcntl.fcntl
    monkeypatch.setattr(shared_state.fcntl, "fcntl", lambda *how: asked.append(how[1:]) or control(*how))
    reading, writing = shared_state.trace_notices_pipe()
    with pytest.raises(BlockingIOError):
        os.read(reading, 1)
    assert asked == [(fcntl.F_SETPIPE_SZ, 1 << 20)]
    assert not os.get_inheritable(reading) and not os.get_inheritable(writing) and not os.get_blocking(writing)
    os.close(reading), os.close(writing)


def test_where_a_pipe_may_not_be_as_large_it_is_as_it_is(monkeypatch):
    def refuse(*_how):
        raise PermissionError

    monkeypatch.setattr(shared_state.fcntl, "fcntl", refuse)
    for number in shared_state.trace_notices_pipe():
        os.close(number)
