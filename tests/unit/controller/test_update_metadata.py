"""UpdateMetadata of the cluster's controller: which partitions and brokers are shown, as it says and no further."""

from types import SimpleNamespace

import pytest

from mpbroker.controller import agent_requests as module
from mpbroker.controller.agent_decisions import Epochs
from mpbroker.controller.agent_requests import DURING_DELETE, MAX_ASSIGNED, ControlRequests
from mpbroker.errors import ErrorCode
from mpbroker.protocol.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from mpbroker.shm.cluster_table import NOBODY, Broker, Endpoint

TOPIC = b"t" * 16
PLACE = UpdateMetadataEndpoint(11, "one", "IN", 0)


class World:
    """A topic of two partitions; `assigned`: what was shown of them."""

    def __init__(self):
        self.assigned, self.brokers, self.told, self.order, self.seen = [], [], [], [], []
        topic = SimpleNamespace(id=TOPIC, name="t", ordinals=[5, 6])
        topics = SimpleNamespace(
            context=SimpleNamespace(by_id={TOPIC: topic}, by_name={"t": topic}),
            assign=lambda topic, partition, shown: self.assigned.append((topic.name, partition, shown)),
        )
        told = lambda event, **_: self.told.append(event)  # noqa: E731
        nothing = lambda *_, **__: None  # noqa: E731
        self.agent = ControlRequests(
            self_id=1, topics=topics, log=None, known=lambda: Epochs(3, 4), seen=lambda *who: self.seen.append(who),
            brokers=self.brokers.append, missing=nothing, settings_of=nothing,
            roles_changed=lambda: self.order.append(len(self.assigned)), alive=nothing, now_ms=lambda: 0,
            events=SimpleNamespace(info=told, warning=told, error=told), roles=None,
        )  # fmt: skip

    def send(self, *states, topic_id=TOPIC, epoch=3, brokers=()):
        topics = [UpdateMetadataTopicState("t", topic_id, list(states))]
        return self.agent.update_metadata(UpdateMetadataRequest(9, False, 0, epoch, 4, [], topics, list(brokers)))


def state(partition=0, **fields):
    usual = {"leader": 2, "leader_epoch": 7, "zk_version": 8, "controller_epoch": 3}
    return UpdateMetadataPartitionState(
        partition_index=partition, **usual | {"isr": [2, 1], "replicas": [1, 2, 3], "offline_replicas": [3]} | fields
    )


@pytest.fixture
def world():
    return World()


def test_what_the_controller_says_of_partitions_is_shown_before_anybody_is_rung(world):
    assert world.send(state(1), state(0, isr=[2, 9], offline_replicas=[9, 1])) == ErrorCode.NONE
    shown = [(name, partition, one.isr, one.offline) for name, partition, one in world.assigned]
    assert shown == [("t", 1, [2, 1], [3]), ("t", 0, [2], [1])], "only of its replicas"
    one = world.assigned[0][2]
    assert (one.topic_id, one.partition, one.leader, one.leader_epoch) == (TOPIC, 1, 2, 7)
    assert (one.partition_epoch, one.controller_epoch, one.replicas) == (8, 3, [1, 2, 3])
    assert world.order == [2] and world.seen == [(9, 3)]


@pytest.mark.parametrize(
    "wrong",
    [
        {"leader": DURING_DELETE},
        {"partition": -1},
        {"partition": 2},
        {"replicas": list(range(MAX_ASSIGNED + 1))},
    ],
    ids=["being deleted", "below", "beyond", "too many replicas"],
)
def test_what_cannot_be_shown_is_left_out(world, wrong):
    assert world.send(state(**wrong), state(1)) == ErrorCode.NONE
    assert [partition for _, partition, _ in world.assigned] == [1]
    most = {"replicas": list(range(MAX_ASSIGNED))}
    assert world.send(state(**most)) == ErrorCode.NONE and len(world.assigned) == 2


def test_a_topic_that_nobody_knows_is_left_out(world):
    assert world.send(state(), topic_id=b"u" * 16) == ErrorCode.NONE and world.assigned == []
    assert world.send(state(), topic_id=bytes(16)) == ErrorCode.NONE and len(world.assigned) == 1, "by its name"


def test_of_an_older_controller_nothing_is_taken(world):
    assert world.send(state(), epoch=2) == ErrorCode.STALE_CONTROLLER_EPOCH
    assert world.assigned == world.brokers == world.order == world.seen == []
    assert world.told == ["control_request_fenced"]


def test_all_that_live_are_shown_if_their_addresses_fit(world, monkeypatch):
    monkeypatch.setattr(module, "fits", lambda broker: broker.id != 2)
    world.send(brokers=[UpdateMetadataBroker(number, endpoints=[PLACE], rack="r") for number in (1, 2, 3)])
    assert world.brokers == [[Broker(number, NOBODY, [Endpoint("IN", 0, "one", 11)], "r") for number in (1, 3)]]
    assert world.told == ["broker_not_shown"]
