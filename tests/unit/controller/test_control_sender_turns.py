"""What the elected controller's sender does in a turn with connections that only remember: who is asked, in which
order, over which of them, and what the logic hears."""

import select
from types import SimpleNamespace

import pytest

from mpbroker.cluster.events import Answered
from mpbroker.controller import control_sender as module
from mpbroker.controller.control_sender import IDLE_MS, ControlSender

NOW_MS, WALL_MS = 5000, 1_800_000_000_000


class Channel:
    """`outcome`: of its next turn. `fd` -1: it is not open yet."""

    def __init__(self, host, port, *, client_id):
        self.address, self.client_id = (host, port), client_id
        self.sent, self.turns, self.pushed, self.closed, self.outcome, self.fd, self.wait = [], [], 0, 0, None, 9, None

    def turn(self, now_ms):
        self.turns.append(now_ms)
        outcome, self.outcome = self.outcome, None
        return outcome

    def send(self, request, now_ms):
        self.sent.append((request, now_ms))

    def push(self):
        self.pushed += 1

    def fileno(self):
        return self.fd

    def events(self):
        return select.POLLIN | self.fd

    def wait_ms(self, now_ms):
        return None if self.wait is None else self.wait - now_ms

    def close(self):
        self.closed += 1


class World:
    """A sender and the logic it serves: brokers with their epochs and ports, and how many requests each is to get."""

    def __init__(self):
        self.epochs, self.ports, self.wanted = {2: 5, 3: 6}, {2: 22, 3: 33}, {2: 9, 3: 9}
        self.answered, self.lines, self.asked = [], [], []
        self.sender = ControlSender(
            node_id=1,
            address=lambda record: ("h", self.ports[record]) if record in self.ports else None,
            answered=self.answered.append,
            log=SimpleNamespace(warning=lambda event, about, **fields: self.lines.append((event, about, fields))),
        )

    def targets(self):
        return list(self.wanted)

    def broker(self, broker):
        return SimpleNamespace(epoch=self.epochs[broker], record=broker) if broker in self.epochs else None

    def next_request(self, broker, now_ms):
        assert now_ms == WALL_MS
        self.asked.append(broker)
        if not self.wanted[broker]:
            return None
        self.wanted[broker] -= 1
        return SimpleNamespace(broker_epoch=self.epochs[broker], request=f"for {broker}")

    def turn(self, now_ms=NOW_MS):
        self.sender.turn(self, now_ms, WALL_MS)

    def channel(self, broker):
        return self.sender._channels[broker]


@pytest.fixture
def world(monkeypatch):
    monkeypatch.setattr(module, "BrokerChannel", Channel)
    return World()


def test_each_broker_has_a_connection_and_one_request_in_flight(world):
    world.turn()
    world.turn(NOW_MS + 1)
    for broker, port in ((2, 22), (3, 33)):
        channel = world.channel(broker)
        assert (channel.address, channel.client_id) == (("h", port), "1")
        assert channel.sent == [(f"for {broker}", NOW_MS)] and channel.turns == [NOW_MS + 1]
    assert world.asked == [2, 3], "not again before it has answered"


def test_an_answer_is_the_logics_and_the_next_request_goes_over_the_same_connection(world):
    world.turn()
    channel = world.channel(2)
    channel.outcome = SimpleNamespace(response="fine", problem="")
    world.turn()
    assert world.answered == [Answered(2, 5, "fine")] and world.lines == []
    assert [request for request, _ in channel.sent] == ["for 2"] * 2 and world.channel(2) is channel
    assert world.asked == [2, 3, 2]


def test_a_request_that_failed_is_told_to_the_logic_and_said(world):
    world.turn()
    world.channel(3).outcome = SimpleNamespace(response=None, problem="gone")
    world.turn()
    assert world.answered == [Answered(3, 6, None)]
    assert world.lines == [("control_request_failed", "3", {"broker": 3, "problem": "gone"})]


def test_what_ends_a_connection_that_nothing_was_sent_over_is_nobodys_answer(world):
    world.wanted[2] = 1
    world.turn()
    world.channel(2).outcome = SimpleNamespace(response="fine", problem="")
    world.turn()
    world.channel(2).outcome = SimpleNamespace(response=None, problem="closed by the other side")
    world.turn()
    assert world.answered == [Answered(2, 5, "fine")] and world.lines == []


def test_a_broker_that_came_back_hears_at_once_and_its_last_life_answers_nobody(world):
    world.turn()
    first = world.channel(2)
    world.epochs[2] = 7
    world.turn()
    assert first.closed == 1 and world.channel(2) is not first
    assert [request for request, _ in world.channel(2).sent] == ["for 2"] and world.answered == []
    assert world.channel(3).closed == 0


def test_a_broker_whose_life_is_over_keeps_its_request_until_it_is_no_target(world):
    world.turn()
    del world.epochs[2]
    first = world.channel(2)
    world.turn()
    assert first.closed == 0 and world.channel(2) is first
    del world.wanted[2]
    world.turn()
    assert first.closed == 1 and 2 not in world.sender._channels and 2 not in world.sender._sent
    assert world.channel(3).closed == 0


def test_a_target_that_nobody_knows_or_that_has_no_address_is_asked_nothing(world):
    del world.epochs[2]
    del world.ports[3]
    world.turn()
    assert world.asked == [] and world.sender._channels == {}


def test_a_broker_with_another_address_gets_another_connection(world):
    world.wanted = {2: 1, 3: 1}
    world.turn()
    first, other = world.channel(2), world.channel(3)
    for channel in (first, other):
        channel.outcome = SimpleNamespace(response="fine", problem="")
    world.ports[2], world.wanted[2] = 44, 1
    del world.ports[3]
    world.turn()
    assert first.closed == 1 and world.channel(2).address == ("h", 44) and len(world.channel(2).sent) == 1
    assert other.closed == 1 and 3 not in world.sender._channels


def test_without_anything_to_say_no_connection_is_made(world):
    world.wanted = {2: 0}
    world.turn()
    assert world.sender._channels == {} and world.asked == [2]


@pytest.mark.parametrize(
    ("waits", "wait_ms"),
    [
        ((None, None), IDLE_MS),
        ((NOW_MS + 30, None), 30),
        ((NOW_MS + 40, NOW_MS + 20), 20),
        ((NOW_MS + IDLE_MS + 1, None), IDLE_MS),
        ((NOW_MS, None), 0),
    ],
)
def test_it_waits_as_long_as_its_most_impatient_connection(world, waits, wait_ms):
    world.turn()
    for broker, wait in zip((2, 3), waits, strict=True):
        world.channel(broker).wait = wait
    assert world.sender.wait_ms(NOW_MS) == wait_ms


def test_open_connections_are_polled_and_what_waits_in_any_is_pushed(world):
    world.turn()
    world.channel(2).fd, world.channel(3).fd = -1, 0
    fds = []
    world.sender.register(SimpleNamespace(register=lambda fd, events: fds.append((fd, events))))
    assert fds == [(0, select.POLLIN)]
    world.sender.push()
    assert [world.channel(broker).pushed for broker in (2, 3)] == [1, 1]


def test_at_the_end_of_a_term_all_connections_and_requests_go(world):
    world.turn()
    channels = [world.channel(broker) for broker in (2, 3)]
    world.sender.close()
    assert [channel.closed for channel in channels] == [1, 1] and world.sender._channels == {}
    world.turn()
    assert world.asked == [2, 3, 2, 3], "the next term begins anew"
