"""Where a consumer that names its rack is sent to read (KIP-392)."""

from types import SimpleNamespace

import pytest

from mpbroker.config.settings_cluster import LEADER_SELECTOR, RACK_SELECTOR
from mpbroker.server.preferred_replica import NOBODY, preferred_replica, selects_by_rack
from mpbroker.shm.layout import ReplicaRole

RACKS = {1: "a", 2: "b", 3: "b", 4: None}


def world(followers=((2, 10, 5, 1), (3, 10, 7, 1)), isr=(1, 2, 3), role=ReplicaRole.LEADER, **config):
    state = SimpleNamespace(role=role, isr=isr, followers=followers, log_start=2, leo=10)
    brokers = {id: SimpleNamespace(rack=rack) for id, rack in RACKS.items()}
    return SimpleNamespace(
        config=SimpleNamespace(**{"replica_selector_class": RACK_SELECTOR, "broker_rack": "a"} | config),
        cluster=SimpleNamespace(brokers=brokers, refresh=lambda: None),
        log_manager=SimpleNamespace(log=SimpleNamespace(replica_state=lambda ordinal: state)),
    )


@pytest.mark.parametrize(
    ("context", "rack", "offset", "wanted"),
    [
        (world(), "b", 5, 3),  # both hold it, 3 had caught up later
        (world(followers=((2, 10, 5, 1), (3, 9, 7, 1))), "b", 5, 2),  # 2 has more
        (world(followers=((2, 4, 5, 1), (3, 5, 4, 1))), "b", 5, 3),  # the other does not hold it yet
        (world(followers=()), "b", 5, NOBODY),  # none has fetched in this epoch
        (world(isr=(1, 2)), "b", 5, 2),
        (world(), "a", 5, NOBODY),  # the leader is there
        (world(), "c", 5, NOBODY),
        (world(), "b", 2, 3),  # the first record of all
        (world(), "b", 10, 3),  # the next one to come
        (world(), "b", 1, NOBODY),  # the leader says that it is out of range
        (world(), "b", 11, NOBODY),
        (world(role=ReplicaRole.FOLLOWER), "b", 5, NOBODY),
    ],
)
def test_the_nearest(context, rack, offset, wanted):
    assert preferred_replica(context, 0, offset, rack) == wanted


def test_only_where_it_is_asked_for():
    assert selects_by_rack(world(), "b")
    assert not selects_by_rack(world(), "")
    assert not selects_by_rack(world(replica_selector_class=LEADER_SELECTOR), "b")
    assert not selects_by_rack(world(replica_selector_class=None), "b")
    alone = world()
    alone.cluster = None
    assert not selects_by_rack(alone, "b")
