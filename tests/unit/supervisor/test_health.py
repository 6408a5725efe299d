"""Who hangs, who is only silent, what is degraded: the judgement on a process table, role by role."""

import time

import pytest

from mpbroker.shm import layout
from mpbroker.shm.page_view import RingInfo
from mpbroker.shm.process_table import BrokerState, ProcessInfo, ProcessState
from mpbroker.shm.troubles import SENTENCES, Trouble
from mpbroker.shm.waits import WaitName, wait_name
from mpbroker.supervisor import health
from mpbroker.supervisor.health import SILENT_NS, Facts, judge, state_of
from mpbroker.supervisor.process_types import PROCESS_TYPES

NOW = 100 * SILENT_NS
ROLE = {row.role: (row.number, row.first_slot) for row in PROCESS_TYPES} | {"supervisor": (0, 0)}
IDLE = {
    "supervisor": "supervise",
    "acceptor": "accept",
    "processor": "epoll",
    "handler": "request",
    "controller": "command",
    "log-keeper": "service",
    "coordinator": "handed",
    "tracer": "trace-flush",
    "admin": "accept",
}


def _row(role, index=0, *, age_ns=0, **fields):
    number, first = ROLE[role]
    plain = dict.fromkeys(ProcessInfo._fields, 0) | {
        "slot": first + index,
        "pid": 100 + first + index,
        "role": number,
        "index": index,
        "listener": None,
        "state": ProcessState.RUNNING,
        "wait": IDLE[role],
        "last_exit": None,
        "heartbeat_ns": NOW - age_ns,
        "entry": None,
        "api_key": None,
        "api_version": None,
    }
    return ProcessInfo(**(plain | fields))


def _ring(number, depth):
    return RingInfo("", depth, 500, depth, number)


def _judge(*rows, rings=(), held=None, state=BrokerState.RUNNING, reserved=0):
    return judge(Facts(state, NOW - 7, rows, rings, reserved, lambda: held or {}), NOW)


@pytest.mark.parametrize("role", IDLE)
def test_who_beats_is_well_whatever_waits(role):
    rings = [_ring(number, 9) for number in (layout.RING_DATA, layout.RING_CONTROLLER, layout.RING_RESPONSE)]
    assert _judge(_row(role, age_ns=SILENT_NS - 1, connections=3), rings=rings, held={48: 4}) == []


@pytest.mark.parametrize("role", sorted(set(IDLE) - {"supervisor"}))
def test_who_is_silent_in_its_idle_wait_is_not_hung(role):
    (found,) = _judge(_row(role, age_ns=SILENT_NS))
    assert (found.level, found.process, found.since_ns) == ("silent", f"{role} 0", NOW - SILENT_NS)
    assert state_of([found]) == "degraded"


@pytest.mark.parametrize(
    ("row", "rings", "held", "words"),
    [
        (_row("supervisor", age_ns=SILENT_NS), [], {}, "the others are not watched"),
        (_row("handler", age_ns=SILENT_NS, api_key=0, api_version=7), [], {}, "Produce v7 is in its hand"),
        (_row("handler", age_ns=SILENT_NS), [_ring(layout.RING_DATA, 3)], {}, "3 requests waiting"),
        (_row("handler", age_ns=SILENT_NS), [_ring(layout.RING_CONTROL, 1)], {}, "1 request waiting"),
        (_row("handler", age_ns=SILENT_NS), [_ring(layout.RING_DATA + layout.CLASS_REQUEUED, 1)], {}, "1 request w"),
        (_row("handler", 1, age_ns=SILENT_NS), [], {49: 2}, "2 requests parked"),
        (_row("processor", 1, age_ns=SILENT_NS), [_ring(layout.RING_RESPONSE + 1, 1)], {}, "1 answer waiting"),
        (_row("processor", age_ns=SILENT_NS, connections=2), [], {}, "it has 2 connections"),
        (_row("controller", age_ns=SILENT_NS), [_ring(layout.RING_CONTROLLER, 1)], {}, "1 request waiting"),
        (_row("coordinator", age_ns=SILENT_NS), [_ring(layout.RING_COORDINATOR, 2)], {}, "2 requests waiting"),
        (_row("coordinator", age_ns=SILENT_NS), [_ring(layout.RING_COORDINATOR_REQUEUED, 1)], {}, "1 request waiting"),
        (_row("coordinator", age_ns=SILENT_NS), [], {layout.SLOT_COORDINATOR: 3}, "3 requests parked"),
        (_row("log-keeper", age_ns=SILENT_NS, wait="fsync"), [], {}, "in its wait `fsync`"),
        (_row("tracer", age_ns=SILENT_NS, wait="none"), [], {}, "in the middle of its work"),
    ],
)
def test_who_is_silent_with_work_waiting_hangs(row, rings, held, words):
    (found,) = _judge(row, rings=rings, held=held)
    assert found.level == "hung" and words in found.sentence
    assert state_of([found]) == "hung"


@pytest.mark.parametrize(
    ("row", "rings", "reserved"),
    [
        (_row("handler", age_ns=SILENT_NS), [_ring(layout.RING_DATA, 3)], 1),  # reserved: data is not for it
        (_row("handler", age_ns=SILENT_NS), [_ring(layout.RING_CONTROLLER, 3), _ring(layout.RING_RESPONSE, 1)], 0),
        (_row("processor", age_ns=SILENT_NS), [_ring(layout.RING_RESPONSE + 1, 1), _ring(layout.RING_DATA, 1)], 0),
        (_row("controller", age_ns=SILENT_NS), [_ring(layout.RING_DATA, 1)], 0),
        (_row("coordinator", age_ns=SILENT_NS), [_ring(layout.RING_DATA, 1), _ring(layout.RING_CONTROLLER, 1)], 0),
    ],
)
def test_what_waits_for_others_is_not_its_work(row, rings, reserved):
    assert [one.level for one in _judge(row, rings=rings, reserved=reserved)] == ["silent"]


def test_the_control_ring_is_the_reserved_handlers_work():
    found = _judge(_row("handler", age_ns=SILENT_NS), rings=[_ring(layout.RING_CONTROL, 1)], reserved=1)
    assert [one.level for one in found] == ["hung"]


@pytest.mark.parametrize("state", [ProcessState.STARTING, ProcessState.RECOVERING, ProcessState.STOPPING])
def test_who_reads_logs_or_stops_is_not_judged_by_its_heartbeat(state):
    assert _judge(_row("controller", age_ns=9 * SILENT_NS, state=state, wait="none")) == []


def test_every_idle_wait_is_known():
    waits = {wait_name(wait) for wait in WaitName}
    assert set(IDLE.values()) | {"control-request"} == health._IDLE_WAITS <= waits


def test_troubles_and_young_deaths_degrade():
    since = NOW - 3
    found = _judge(
        _row("log-keeper", troubles=Trouble.LOG_DIRECTORY_OFFLINE | Trouble.LOG_CALLS_FAIL, troubled_since_ns=since),
        _row("handler", state=ProcessState.DEAD, pid=0, last_exit=11, restarts=7, unsteady_since_ns=since),
    )
    assert [one.level for one in found] == ["degraded"] * 3 and {one.since_ns for one in found} == {since}
    sentences = {one.sentence for one in found}
    assert SENTENCES[Trouble.LOG_DIRECTORY_OFFLINE] in sentences
    assert "dies again and again, 7 times: signal 11" in sentences
    assert set(SENTENCES) == set(Trouble)


def test_the_worst_comes_first_and_the_longest_of_those():
    found = _judge(
        _row("tracer", troubles=1, troubled_since_ns=1),
        _row("handler", 1, age_ns=SILENT_NS),
        _row("handler", 2, age_ns=SILENT_NS, api_key=1),
        _row("handler", 3, age_ns=2 * SILENT_NS, api_key=1),
        state=BrokerState.DRAINING,
    )
    assert [one.process for one in found] == ["handler 3", "handler 2", "handler 1", "tracer 0", "broker"]
    assert state_of(found) == "hung"


@pytest.mark.parametrize(
    ("state", "word"),
    [(BrokerState.STARTING, "starting"), (BrokerState.DRAINING, "stopping"), (BrokerState.RESETTING, "resetting")],
)
def test_a_broker_that_does_not_serve_is_not_well(state, word):
    assert state_of(_judge(state=state)) == word
    assert state_of(_judge()) == "ok"


def test_a_held_request_is_asked_for_only_when_somebody_is_silent():
    def held():
        raise AssertionError("looked at for nothing")

    assert judge(Facts(BrokerState.RUNNING, 0, [_row("handler")], [], 0, held), NOW) == []
    assert time.monotonic_ns() > 0


STARTING = ("starting", -1, "broker", 0, NOW - 7, "it reads its logs and does not serve yet")
HANDING_OVER = ("stopping", -1, "broker", 0, NOW, "other brokers take over what it leads, then it ends")


@pytest.mark.parametrize(
    ("state", "finding"), [("STARTING", STARTING), ("HANDING_OVER", HANDING_OVER), ("RUNNING", None)]
)
def test_a_start_counts_from_its_beginning_and_what_comes_after_from_now_on(state, finding):
    assert _judge(state=BrokerState[state]) == ([] if finding is None else [finding])


def test_what_lies_in_a_cluster_controllers_ring_is_its_work():
    row = _row("tracer")
    rings = {ring for ring in range(64) if health.serves(row, "cluster-controller", ring, 0)}
    assert rings == {layout.RING_CLUSTER_CONTROLLER}
    assert not any(health.serves(row, role, ring, 0) for role in ("tracer", "acceptor") for ring in range(64))
