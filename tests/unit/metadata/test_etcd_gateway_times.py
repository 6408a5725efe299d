"""How long the client of etcd's gateway goes on asking, on a clock that only the test moves."""

import pytest

from mpbroker.metadata import etcd_gateway
from mpbroker.metadata.etcd_gateway import ATTEMPT_S, LEAST_S, PAUSE_S, WRITE_S, EndPoint, EtcdGateway, _Passing
from mpbroker.metadata.meta_store import StoreTimeout

ONE, OTHER = EndPoint("127.0.0.1", 1), EndPoint("::1", 2)


class World:
    """`takes`: how long each attempt takes before it fails, the rest at once. `asked`: (which, who, how long)."""

    def __init__(self, timeout_ms, takes=()):
        self.now, self.takes, self.asked = 1000.0, list(takes), []
        self.gateway = EtcdGateway([ONE, OTHER], timeout_ms)

    def monotonic(self):
        return self.now

    def sleep(self, seconds):
        assert seconds == PAUSE_S
        self.now += seconds

    def attempt(self, kind, error):
        def call(end_point, *words):
            self.asked.append((kind, end_point, round(words[-1], 6)))
            self.now += self.takes.pop(0) if self.takes else 0.0
            raise error

        return call


@pytest.fixture
def begin(monkeypatch):
    def one(timeout_ms, takes=()):
        world = World(timeout_ms, takes)
        monkeypatch.setattr(etcd_gateway, "time", world)
        world.gateway._exchange = world.attempt("exchange", _Passing("no"))
        return world

    return one


def test_an_attempt_takes_no_longer_than_is_left(begin):
    world = begin(1000 * ATTEMPT_S * 1.5, [ATTEMPT_S])
    with pytest.raises(StoreTimeout, match=f"{world.gateway.timeout_ms} ms"):
        world.gateway.read("/p", {})
    left = ATTEMPT_S * 0.5 - PAUSE_S
    assert world.asked[:2] == [("exchange", ONE, ATTEMPT_S), ("exchange", OTHER, round(left, 6))]
    assert world.now <= 1000 + ATTEMPT_S * 1.5 + PAUSE_S
    assert world.asked[-1][2] > LEAST_S or len(world.asked) == 2


def test_one_attempt_is_made_however_little_time_there_is(begin):
    world = begin(0)
    with pytest.raises(StoreTimeout):
        world.gateway.read("/p", {})
    assert world.asked == [("exchange", ONE, LEAST_S)]


def test_a_write_that_may_have_been_heard_is_not_sent_again(begin):
    world = begin(1000 * WRITE_S * 2)
    world.gateway._connect = lambda *_: None
    with pytest.raises(etcd_gateway.OutcomeUnknown):
        world.gateway.write("/p", {})
    assert world.asked == [("exchange", ONE, WRITE_S)] and world.gateway.end_point == OTHER


def test_a_write_looks_for_a_member_that_hears_it(begin):
    world = begin(1000, [0.3])
    world.gateway._connect = world.attempt("connect", OSError("refused"))
    with pytest.raises(StoreTimeout):
        world.gateway.write("/p", {})
    assert {kind for kind, *_ in world.asked} == {"connect"}
    assert world.asked[0][2] == min(1.0, ATTEMPT_S)
    assert world.asked[1] == ("connect", OTHER, round(min(0.7 - PAUSE_S, ATTEMPT_S), 6))
    assert 1001 - LEAST_S <= world.now <= 1001 + PAUSE_S


def test_members_are_asked_in_their_order_and_again_from_the_first():
    third = EndPoint("127.0.0.1", 3)
    gateway = EtcdGateway([ONE, OTHER, third], 1000)
    assert [gateway.next_end_point() for _ in range(4)] == [OTHER, third, ONE, OTHER] and gateway.end_point == OTHER
