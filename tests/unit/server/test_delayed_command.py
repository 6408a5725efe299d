"""A request that waits for the controller: until each part that was sent is answered, or its time is over."""

from types import SimpleNamespace

import pytest

from mpbroker.purgatory.delayed_operation import DelayedOperationPurgatory
from mpbroker.server.controller_commands import MAX_PARTS
from mpbroker.server.delayed_command import DelayedCommand, park_for_controller
from mpbroker.shm.clock import ManualClock


class World:
    """`takes`: which parts the controller's ring takes."""

    def __init__(self, *takes):
        self.clock, self.calls, self.sent, self.receivers = ManualClock(), [], [], []
        self.takes = list(takes)
        self.request = SimpleNamespace(fill_number=6, flag_timed_out=lambda: self.calls.append(("late",)))
        self.context = SimpleNamespace(
            clock=self.clock,
            purgatory=DelayedOperationPurgatory(self.clock.monotonic_ms()),
            commands=SimpleNamespace(send=self._send),
            port=SimpleNamespace(park=lambda request, kind: self.calls.append(("park", kind))),
            count=lambda name: self.calls.append(("count", name)),
            resume=lambda request: self.calls.append(("resume",)),
            answer=lambda request, message: self.calls.append(("answer", message)),
        )

    def _send(self, encoded, operation, receiver, local):
        self.sent.append((encoded, operation, local))
        self.receivers.append(receiver)
        return self.takes.pop(0)

    def park(self, *parts, timeout_ms=100, **local):
        return park_for_controller(self.context, self.request, parts, timeout_ms, tuple, **local)

    def did(self):
        calls, self.calls = self.calls, []
        return calls


PARKED = ("park", DelayedCommand.PARKED_KIND)


@pytest.mark.parametrize("local", [{}, {"local": True}])
def test_it_is_answered_with_the_last_of_its_parts(local):
    world = World(True, True)
    assert world.park(b"a", b"b", **local) is True
    first = 6 * MAX_PARTS
    assert world.sent == [(b"a", first, bool(local)), (b"b", first + 1, bool(local))] and world.did() == [PARKED]
    world.receivers[1]("second")
    assert world.did() == []
    world.receivers[0]("first")
    assert world.did() == [("resume",), ("answer", ("first", "second"))]
    assert not world.context.purgatory.has_deadlines


def test_what_could_not_be_sent_is_not_waited_for():
    world = World(True, False, True)
    assert world.park(b"a", b"b", b"c") is True
    world.receivers[0]("first")
    world.receivers[2]("third")
    assert world.did() == [PARKED, ("resume",), ("answer", ("first", None, "third"))]


def test_where_none_could_be_sent_nothing_waits():
    world = World(False, False)
    assert world.park(b"a", b"b") is False
    assert world.did() == [("count", "controller_commands_refused")] and not world.context.purgatory.has_deadlines


@pytest.mark.parametrize(("timeout_ms", "waits_ms"), [(100, 100), (1, 1), (0, 1), (-5, 1)])
def test_at_the_end_of_its_time_it_is_answered_with_what_came(timeout_ms, waits_ms):
    world = World(True, True)
    world.park(b"a", b"b", timeout_ms=timeout_ms)
    world.receivers[0]("first")
    begun_ms = world.clock.monotonic_ms()
    assert world.context.purgatory.advance(begun_ms + waits_ms - 1) == 0
    assert world.did() == [PARKED]
    assert world.context.purgatory.advance(begun_ms + waits_ms) == 1
    assert world.did() == [("late",), ("count", "purgatory_expired"), ("resume",), ("answer", ("first", None))]
    world.receivers[1]("late")
    assert world.did() == []


def test_a_single_part_is_waited_for_too():
    world = World(True)
    assert world.park(b"a") is True and world.did() == [PARKED]
    world.receivers[0]("only")
    assert world.did() == [("resume",), ("answer", ("only",))]


def test_an_answer_that_cannot_be_made_fails_the_request_and_not_the_handler():
    """The controller's answers are delivered one after the other: others wait for theirs."""
    world = World(True)
    world.context.answer = lambda request, message: 1 / 0
    world.context.fail = lambda request, error: world.calls.append(("fail", request, type(error)))
    world.park(b"a")
    world.receivers[0]("only")
    assert world.did() == [PARKED, ("resume",), ("fail", world.request, ZeroDivisionError)]
