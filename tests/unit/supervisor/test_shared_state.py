"""What the supervisor writes into the rows of processes, and which descriptors each may keep."""

from types import SimpleNamespace

import pytest

from mpbroker.shm.layout import MAX_SLOTS
from mpbroker.shm.process_table import ProcessRow, ProcessState, WaitName
from mpbroker.shm.segment import CRASH_VARIABLE
from mpbroker.supervisor import shared_state
from mpbroker.supervisor.process_types import ProcessPlan, process_type
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
