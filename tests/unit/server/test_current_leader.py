"""Where clients find the leaders that an answer names: on the listener that they asked."""

from types import SimpleNamespace

import pytest

from mpbroker.server.current_leader import Leader, Place, current_leader, places_of
from mpbroker.shm.cluster_table import NOBODY, Broker, Endpoint
from mpbroker.shm.layout import ReplicaRole

REQUEST = SimpleNamespace(listener=0)


def context(brokers=None, state=None, found=None):
    def replica_state(_):
        if state is None:
            raise TimeoutError
        return state

    cluster = SimpleNamespace(brokers=brokers or {}, refresh=lambda: None, leader=lambda ordinal: found)
    return SimpleNamespace(
        node_id=7,
        cluster=cluster,
        config=SimpleNamespace(broker_rack="r7"),
        listener=lambda _: SimpleNamespace(name="OUT", advertised_host="here", advertised_port=9),
        log_manager=SimpleNamespace(
            leader_epoch=lambda ordinal: 40 + ordinal, log=SimpleNamespace(replica_state=replica_state)
        ),
    )


def test_each_is_named_once_if_it_lives_and_has_this_listener():
    brokers = {
        1: Broker(1, 5, [Endpoint("IN", 0, "inside", 1), Endpoint("OUT", 0, "one", 11)]),
        2: Broker(2, 5, [Endpoint("IN", 0, "inside", 2)]),
        4: Broker(4, 5, [Endpoint("OUT", 0, "four", 14)]),
    }
    leaders = [Leader(4, 1), Leader(1, 3), Leader(2, 1), Leader(3, 1), Leader(1, 5), Leader(NOBODY, NOBODY)]
    assert [place[:3] for place in places_of(context(brokers), REQUEST, leaders)] == [(1, "one", 11), (4, "four", 14)]


def test_brokers_are_those_of_now():
    known = context()
    known.cluster.refresh = lambda: known.cluster.brokers.update({5: Broker(5, 1, [Endpoint("OUT", 0, "five", 15)])})
    assert [place.node_id for place in places_of(known, REQUEST, [Leader(5, 1)])] == [5]


def test_a_broker_by_itself_names_itself():
    alone = context()
    alone.cluster = None
    assert places_of(alone, REQUEST, [Leader(7, 1)]) == [Place(7, "here", 9, "r7")]
    assert current_leader(alone, 2) == (7, 42)


@pytest.mark.parametrize(
    ("state", "found", "leader"),
    [
        (SimpleNamespace(role=ReplicaRole.LEADER, leader=-1, leader_epoch=5), (1, 1), (7, 5)),
        (SimpleNamespace(role=ReplicaRole.FOLLOWER, leader=3, leader_epoch=5), (1, 1), (3, 5)),
        (SimpleNamespace(role=ReplicaRole.NONE, leader=3, leader_epoch=5), (1, 2), (1, 2)),
        (None, (1, 2), (1, 2)),
        (None, None, (NOBODY, NOBODY)),
    ],
    ids=["led here", "followed here", "no role here", "its lock is held", "nobody knows"],
)
def test_what_the_replica_here_was_told_counts_first(state, found, leader):
    assert current_leader(context(state=state, found=found), 0) == leader
