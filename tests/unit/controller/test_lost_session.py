"""A broker whose session ended is known again only when none of its roles is left; what was busy is tried again."""

from types import SimpleNamespace

import pytest

from mpbroker.controller.agent import AGAIN_MS, Agent
from mpbroker.errors import ErrorCode

BUSY, ENDED = int(ErrorCode.REQUEST_TIMED_OUT), 0
HEARTBEAT_MS = 2000


class World:
    """An agent with two partitions here, whose ends of roles come out as told: a code, or TimeoutError."""

    def __init__(self, *outcomes):
        self.outcomes, self.now_ms, self.stopped, self.registrations = list(outcomes), 10_000, [], 0
        agent = self.agent = object.__new__(Agent)
        topic = SimpleNamespace(name="t", ordinals=[4, 7])
        agent._topics = SimpleNamespace(context=SimpleNamespace(by_id={b"t": topic}), has_log=lambda ordinal: True)
        agent._roles = SimpleNamespace(role_of=lambda ordinal: 0, changed=lambda *words: None)
        agent._log = SimpleNamespace(stop=self.stop)
        agent._epochs = lambda: SimpleNamespace(controller=1)
        self.rung = 0
        agent._ring_fetchers = self.ring
        agent._register = self.register
        agent._clock = SimpleNamespace(monotonic_ms=lambda: self.now_ms)
        agent._config = SimpleNamespace(broker_heartbeat_interval_ms=HEARTBEAT_MS)
        agent._store = SimpleNamespace(session_renew=lambda session: False)
        quiet = SimpleNamespace(warning=lambda *words, **fields: None)
        agent._ctx = SimpleNamespace(process_row=SimpleNamespace(beat=lambda: None), log=quiet)
        agent._registered, agent._renewed_ms = SimpleNamespace(session=1, epoch=3), 0

    def stop(self, ordinal):
        self.stopped.append(ordinal)
        outcome = self.outcomes.pop(0)
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    def ring(self):
        self.rung += 1

    def register(self):
        self.registrations += 1
        self.agent._registered = SimpleNamespace(session=2, epoch=9)


def test_a_broker_is_known_again_when_its_roles_have_ended():
    world = World(ENDED, ENDED)
    world.agent.keep_alive()
    assert world.stopped == [4, 7] and world.registrations == 1
    assert world.rung == 1, "they follow nobody now"


@pytest.mark.parametrize("busy", [BUSY, TimeoutError("its lock is not to be had")])
def test_it_is_not_while_one_of_them_cannot_be_ended(busy):
    """Else the controller would count on a leader that still acts in its life before."""
    world = World(ENDED, busy, ENDED, ENDED)
    world.agent.keep_alive()
    assert world.registrations == 0 and world.agent._registered is None
    world.agent.keep_alive()
    assert world.stopped == [4, 7], "not at once"
    world.now_ms += AGAIN_MS
    world.agent.keep_alive()
    assert world.stopped == [4, 7, 4, 7] and world.registrations == 1
