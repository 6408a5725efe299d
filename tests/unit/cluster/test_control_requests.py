"""Requests to brokers, whole: every field of LeaderAndIsr, StopReplica and UpdateMetadata as Kafka numbers it."""

import pytest

from mpbroker.cluster.cluster_image import LiveBroker
from mpbroker.cluster.control_requests import FULL, INCREMENTAL, RequestBuilder, listener_of
from mpbroker.cluster.wanted_state import Batch, Lead, Named, PartitionView, Stop
from mpbroker.metadata.cluster_records import BrokerRecord, ListenerRecord
from mpbroker.protocol.messages.leader_and_isr import (
    LeaderAndIsrLiveLeader,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from mpbroker.protocol.messages.stop_replica import (
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaTopicState,
)
from mpbroker.protocol.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)

ONE, TWO = b"1" * 16, b"2" * 16
BUILDER = RequestBuilder(7, 3, "IN")


def view(topic="t", topic_id=ONE, number=0, leader=1, recovering=False):
    return PartitionView(
        topic, topic_id, number, 2, leader, 5, (1, 2), 6, (2, 1, 3), (3,), (2,), offline=(3,), recovering=recovering
    )


def broker(number, *listeners, rack=None):
    records = [ListenerRecord(name, protocol, f"h{number}", port) for name, protocol, port in listeners]
    return LiveBroker(number, 10, 10, BrokerRecord(number, "m", "d", "i", records, rack))


BROKERS = {2: broker(2, ("OUT", "SSL", 21), ("IN", "PLAINTEXT", 22), rack="r"), 1: broker(1, ("IN", "SASL_SSL", 12))}


def roles(*items, full=False):
    named = {Named(item.topic if isinstance(item, Stop) else item.view.topic, n): item for n, item in enumerate(items)}
    return Batch(named, {}, brokers=False, full=full)


def test_numbers_are_kafkas():
    assert (INCREMENTAL, FULL) == (1, 2)


@pytest.mark.parametrize("full", [False, True])
def test_roles_of_a_topic_go_together_with_where_their_leaders_are(full):
    items = [
        Lead(view(), True), Lead(view("u", TWO, 4, leader=2), False), Lead(view(number=1, recovering=True), False),
        Lead(view(number=2, leader=-1), False), Lead(view(number=3, leader=9), False),
    ]  # fmt: skip

    def state(number, leader, is_new, recovery=0):
        return LeaderAndIsrPartitionState(
            partition_index=number, controller_epoch=2, leader=leader, leader_epoch=5, isr=[1, 2], partition_epoch=6,
            replicas=[2, 1, 3], adding_replicas=[3], removing_replicas=[2], is_new=is_new,
            leader_recovery_state=recovery,
        )  # fmt: skip

    mine = [state(0, 1, True), state(1, 1, False, 1), state(2, -1, False), state(3, 9, False)]
    assert BUILDER.build(roles(*items, full=full), 44, BROKERS) == LeaderAndIsrRequest(
        controller_id=7,
        controller_epoch=3,
        broker_epoch=44,
        type=2 if full else 1,
        topic_states=[
            LeaderAndIsrTopicState(topic_name="t", topic_id=ONE, partition_states=mine),
            LeaderAndIsrTopicState(topic_name="u", topic_id=TWO, partition_states=[state(4, 2, False)]),
        ],
        live_leaders=[
            LeaderAndIsrLiveLeader(broker_id=1, host_name="h1", port=12),
            LeaderAndIsrLiveLeader(broker_id=2, host_name="h2", port=22),
        ],
    )


def test_replicas_that_are_to_stop():
    stops = [Stop("t", ONE, 0, 5, False), Stop("u", TWO, 1, -2, True), Stop("t", ONE, 2, 6, True)]
    first = [
        StopReplicaPartitionState(partition_index=0, leader_epoch=5, delete_partition=False),
        StopReplicaPartitionState(partition_index=2, leader_epoch=6, delete_partition=True),
    ]
    second = [StopReplicaPartitionState(partition_index=1, leader_epoch=-2, delete_partition=True)]
    assert BUILDER.build(roles(*stops), 44, BROKERS) == StopReplicaRequest(
        controller_id=7,
        controller_epoch=3,
        broker_epoch=44,
        topic_states=[
            StopReplicaTopicState(topic_name="t", partition_states=first),
            StopReplicaTopicState(topic_name="u", partition_states=second),
        ],
    )


@pytest.mark.parametrize("full", [False, True])
def test_what_is_to_be_known_has_all_brokers_with_all_listeners(full):
    metadata = {Named("t", 0): view(), Named("u", 4): view("u", TWO, 4), Named("t", 1): view(number=1)}

    def state(number):
        return UpdateMetadataPartitionState(
            partition_index=number, controller_epoch=2, leader=1, leader_epoch=5, isr=[1, 2], zk_version=6,
            replicas=[2, 1, 3], offline_replicas=[3],
        )  # fmt: skip

    request = BUILDER.build(Batch({}, metadata, brokers=True, full=full), 44, BROKERS)
    assert request == UpdateMetadataRequest(
        controller_id=7,
        controller_epoch=3,
        broker_epoch=44,
        type=2 if full else 1,
        topic_states=[
            UpdateMetadataTopicState("t", ONE, [state(0), state(1)]),
            UpdateMetadataTopicState("u", TWO, [state(4)]),
        ],
        live_brokers=[
            UpdateMetadataBroker(1, endpoints=[UpdateMetadataEndpoint(12, "h1", "IN", 3)], rack=None),
            UpdateMetadataBroker(
                2,
                endpoints=[UpdateMetadataEndpoint(21, "h2", "OUT", 1), UpdateMetadataEndpoint(22, "h2", "IN", 0)],
                rack="r",
            ),
        ],
    )


@pytest.mark.parametrize(
    ("protocol", "number"), [("PLAINTEXT", 0), ("SSL", 1), ("SASL_PLAINTEXT", 2), ("SASL_SSL", 3), ("OTHER", 0)]
)
def test_security_protocols_have_kafkas_numbers(protocol, number):
    request = BUILDER.build(Batch({}, {}, brokers=True), 44, {1: broker(1, ("IN", protocol, 1))})
    assert request.live_brokers[0].endpoints[0].security_protocol == number


def test_a_listener_is_found_by_its_name():
    record = BROKERS[2].record
    assert listener_of(record, "IN").port == 22 and listener_of(record, "CONTROL") is None
