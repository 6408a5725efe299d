"""Which listeners the acceptor has, as the supervisor knows it."""

from types import SimpleNamespace

import pytest

from mpbroker.config.load_config import load_broker_config
from mpbroker.network import listener_passing
from mpbroker.supervisor.passed_listeners import PassedListeners
from mpbroker.supervisor.sockets import Listening, open_listeners
from tests.harness.descriptors import open_descriptors


def config(*names: str):
    given = ",".join(f"{name}://127.0.0.1:0" for name in names)
    protocols = ",".join(f"{name}:PLAINTEXT" for name in names)
    overrides = [f"listeners={given}", f"listener.security.protocol.map={protocols}", "inter.broker.listener.name=A"]
    return load_broker_config(overrides=overrides, environ={}, cores=2)


@pytest.fixture
def listening():
    made = Listening(*open_listeners(config("A", "B")))
    yield made
    made.close()


@pytest.fixture
def passed():
    made = PassedListeners()
    yield made
    made.close()


def received(passed) -> list[int]:
    found = []
    while (one := listener_passing.receive(passed.acceptors_end)) is not None:
        one.listening.close()
        found.append(one.index)
    return found


def test_an_acceptor_begins_with_all_and_gets_each_further_one_once(listening, passed):
    assert passed.begin(listening) == {0: listening.sockets[0], 1: listening.sockets[1]}
    listening.follow(config("A", "B", "C"), set())
    for _ in range(2):
        passed.follow(listening)
    assert received(passed) == [2] and passed.held == {0, 1, 2}


def test_a_removed_one_is_held_until_the_acceptor_has_let_go_of_it(listening, passed):
    passed.begin(listening)
    listening.follow(config("A"), passed.held)
    passed.follow(listening)
    assert passed.held == {0, 1}
    listener_passing.let_go(passed.acceptors_end, 1)
    passed.follow(listening)
    assert passed.held == {0} and received(passed) == []


def test_what_the_acceptor_could_not_take_is_passed_again(listening, passed):
    passed.begin(listening)
    listener_passing.let_go(passed.acceptors_end, 1)
    passed.follow(listening)
    assert received(passed) == [1] and passed.held == {0, 1}


def test_a_successor_hears_nothing_of_what_was_for_the_one_before(listening, passed):
    passed.begin(listening)
    listening.follow(config("A", "C"), passed.held)
    passed.follow(listening)
    listener_passing.let_go(passed.acceptors_end, 0)
    before = open_descriptors()
    assert sorted(passed.begin(listening)) == [0, 2] and received(passed) == []
    passed.follow(listening)
    assert passed.held == {0, 2} and received(passed) == []
    assert open_descriptors() <= before, "its descriptor is not ours"


def test_at_the_end_both_ends_are_closed(passed):
    passed.close()
    assert (passed._channel.fileno(), passed.acceptors_end.fileno()) == (-1, -1)


def test_what_was_for_the_one_before_is_closed_also_where_it_had_no_descriptor(listening, passed, monkeypatch):
    """The kernel drops one where the table of descriptors is full."""
    closed = []
    left = [SimpleNamespace(listening=None), SimpleNamespace(listening=SimpleNamespace(close=lambda: closed.append(1)))]
    monkeypatch.setattr(listener_passing, "receive", lambda channel: left.pop(0) if left else None)
    assert sorted(passed.begin(listening)) == [0, 1] and closed == [1] and left == []
