"""How long a turn of the processor waits for sockets and bells, and whether further turns may follow natively."""

from types import SimpleNamespace

import pytest

from mpbroker.network import processor as module
from mpbroker.network.processor import MAX_ANSWERS_PER_TURN, NO_ROOM_POLL_MS, POLL_MS, Processor

LONG_MS, TURNS = 10 * NO_ROOM_POLL_MS, 7


def waits(answered=False, new=False, work=False, may_read=True, no_room=False, rings=False):
    """(milliseconds, native turns) of the poll; whether the native turn was told that it ends idle."""
    told = []
    made = Processor.__new__(Processor)
    made._new_connections = [1] if new else []
    made._housekeeping_ns = 99
    made._reader = SimpleNamespace(may_read=lambda: may_read, waits_for_room=lambda: no_room)
    made._port = SimpleNamespace(ring=lambda: rings)
    made._native_turn = SimpleNamespace(
        has_work=lambda reads: work and reads is may_read,
        end=lambda idle: told.append(idle),
        poll=lambda *how: told.append(how) or False,
    )
    made._wait(answered, LONG_MS, TURNS)
    [idle, (wait_ms, turns, most, until_ns, again_ms)] = told
    assert (most, until_ns, again_ms) == (MAX_ANSWERS_PER_TURN, 99, POLL_MS)
    return wait_ms, turns, idle


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ({}, (LONG_MS, TURNS, True)),
        ({"answered": True}, (0, TURNS, False)),
        ({"work": True}, (0, TURNS, False)),
        ({"new": True}, (0, 0, False)),
        ({"may_read": False}, (LONG_MS, 0, True)),
        ({"no_room": True}, (NO_ROOM_POLL_MS, 0, True)),
        ({"no_room": True, "answered": True}, (0, 0, False)),
        ({"rings": True}, (1, TURNS, True)),
        ({"rings": True, "no_room": True}, (1, 0, True)),
        ({"rings": True, "work": True}, (0, TURNS, False)),
    ],
)
def test_a_turn_waits_only_when_nothing_is_left(how, expected):
    assert waits(**how) == expected


def test_what_the_poll_found_is_heard_at_once(monkeypatch):
    heard = []
    made = Processor.__new__(Processor)
    made._new_connections, made._housekeeping_ns = [], 0
    made._reader = SimpleNamespace(may_read=lambda: True, waits_for_room=lambda: False)
    made._port = SimpleNamespace(ring=lambda: False)
    for finds in (False, True):
        made._native_turn = SimpleNamespace(has_work=lambda _: False, end=lambda _: None, poll=lambda *_, f=finds: f)
        monkeypatch.setattr(module.Processor, "_take_events", lambda _, f=finds: heard.append(f))
        made._wait(False, 5, 0)
    assert heard == [True]


@pytest.mark.parametrize("owes", [False, True])
@pytest.mark.parametrize(("draining", "gone", "removed"), [(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1)])
def test_it_stays_until_the_acceptor_has_heard_what_is_its_own(owes, draining, gone, removed):
    made = Processor.__new__(Processor)
    made._handover = SimpleNamespace(owes_answers=lambda: owes)
    state = module.BrokerState.DRAINING if draining else module.BrokerState.RUNNING
    made._ctx = SimpleNamespace(core=SimpleNamespace(state=state), supervisor_gone=lambda: bool(gone))
    made._is_removed = lambda: bool(removed)
    assert made.must_go_on() is (owes and not (draining or gone or removed))


@pytest.mark.parametrize(
    ("entries", "has"), [([], False), ([0, 3, 8], False), ([4], True), ([7], True), ([0, 5], True)]
)
def test_requests_of_another_processor_are_not_waited_for(entries, has):
    made = Processor.__new__(Processor)
    core = SimpleNamespace(entry_count=12, processor_count=3, entry_states=lambda: [(one, 0, 0, 0) for one in entries])
    made._ctx = SimpleNamespace(core=core, index=1)
    assert made._has_entries() == has
