"""Metadata, DescribeCluster, DescribeTopicPartitions and FindCoordinator as the controller of a cluster told it."""

import pytest

from mpbroker.errors import ERRORS
from mpbroker.metadata.cluster_cache import ClusterCache
from mpbroker.metadata.coordinator_partitions import partition_of
from mpbroker.metadata.topic_names import OFFSETS_TOPIC
from mpbroker.protocol.messages.describe_cluster import DescribeClusterRequest
from mpbroker.protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest, TopicRequest
from mpbroker.protocol.messages.find_coordinator import FindCoordinatorRequest
from mpbroker.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from mpbroker.server.awaited_leader import HELD_MS, LOOK_EVERY_MS
from mpbroker.shm.cluster_table import (
    GONE,
    Assignment,
    Broker,
    Endpoint,
    assignment_write,
    brokers_write,
    cluster_announce,
)
from tests.harness.in_process_broker import InProcessBroker

ID, OFFSETS = b"i" * 16, b"o" * 16


@pytest.fixture
def broker(tmp_path):
    found = InProcessBroker(tmp_path, replicated=True)
    ends = [Endpoint("PLAINTEXT", 0, "one.example", 19091), Endpoint("OTHER", 0, "hidden.example", 1)]
    brokers_write(
        found.core, [Broker(1, 7, ends, "r1"), Broker(2, 8, [Endpoint("PLAINTEXT", 0, "two.example", 19092)])]
    )
    cluster_announce(found.core, 2, 5, 7)
    return found


def assign(broker, ordinal, partition, leader, isr, topic_id=ID):
    assignment_write(broker.core, ordinal, Assignment(topic_id, partition, leader, 4, 1, 5, [1, 2, 3], isr, [3]))


def test_brokers_of_the_listener_and_the_controller(broker):
    answer = broker.call(MetadataRequest(topics=[]), 9)
    assert [(one.node_id, one.host, one.port, one.rack) for one in answer.brokers] == [
        (1, "one.example", 19091, "r1"),
        (2, "two.example", 19092, None),
    ]
    assert answer.controller_id == 2
    described = broker.call(DescribeClusterRequest(), 1)
    assert ([one.broker_id for one in described.brokers], described.controller_id) == ([1, 2], 2)


def test_a_description_is_of_the_cluster_as_it_is_now(broker):
    """Also if nothing else was asked since it changed."""
    brokers_write(broker.core, [Broker(3, 9, [Endpoint("PLAINTEXT", 0, "three.example", 19093)], "r3")])
    cluster_announce(broker.core, 3, 6, 9)
    described = broker.call(DescribeClusterRequest(), 1)
    rows = [(one.broker_id, one.host, one.port, one.rack) for one in described.brokers]
    assert (rows, described.controller_id) == ([(3, "three.example", 19093, "r3")], 3)


def test_partitions_as_they_were_told(broker):
    ordinals = broker.create_topic("t", 3, topic_id=ID)
    assign(broker, ordinals[0], 0, 2, [2, 1])
    assign(broker, ordinals[1], 1, 3, [3])
    message = MetadataRequest(topics=[MetadataRequestTopic(name="t")])
    [topic] = broker.call(message, 9).topics
    rows = [
        (one.error_code, one.leader_id, one.leader_epoch, one.replica_nodes, one.isr_nodes, one.offline_replicas)
        for one in topic.partitions
    ]
    assert rows == [
        (0, 2, 4, [1, 2, 3], [2, 1], [3]),
        (5, -1, 4, [1, 2, 3], [3], [3]),
        (5, -1, -1, [], [], []),
    ]
    [described] = broker.call(DescribeTopicPartitionsRequest(topics=[TopicRequest("t")]), 0).topics
    assert [(one.leader_id, one.isr_nodes, one.error_code) for one in described.partitions] == [
        (2, [2, 1], 0),
        (-1, [3], 5),
        (-1, [], 5),
    ]


@pytest.mark.parametrize(("version", "code"), [(5, 5), (6, 72), (12, 72)])
def test_a_leader_without_the_clients_listener_is_not_shown(broker, version, code):
    brokers_write(
        broker.core,
        [Broker(1, 7, [Endpoint("PLAINTEXT", 0, "one.example", 1)]), Broker(2, 8, [Endpoint("OTHER", 0, "h", 2)])],
    )
    cluster_announce(broker.core, 2, 5, 7)
    ordinals = broker.create_topic("t", 1, topic_id=ID)
    assign(broker, ordinals[0], 0, 2, [2, 1])
    answer = broker.call(MetadataRequest(topics=[MetadataRequestTopic(name="t")]), version)
    [one] = answer.topics[0].partitions
    assert (one.error_code, one.leader_id, one.offline_replicas) == (code, -1, [2, 3])
    assert [each.node_id for each in answer.brokers] == [1]
    [described] = broker.call(DescribeTopicPartitionsRequest(topics=[TopicRequest("t")]), 0).topics
    assert [(each.error_code, each.leader_id) for each in described.partitions] == [(72, -1)]


def test_the_leader_of_its_partition_coordinates_a_group(broker):
    ordinals = broker.create_topic(OFFSETS_TOPIC, 3, internal=True, topic_id=ID)
    keys = ["a", "b", "c", "d"]
    for number, ordinal in enumerate(ordinals):
        assign(broker, ordinal, number, (1, 2, 3)[number], [1])
    answer = broker.call(FindCoordinatorRequest(coordinator_keys=keys), 4)
    leaders = [(1, 0), (2, 0), (-1, 15)]
    expected = [leaders[partition_of(key, 3)] for key in keys]
    assert [(one.node_id, one.error_code) for one in answer.coordinators] == expected
    assert len(set(expected)) > 1
    for key, (node_id, code) in zip(keys, expected, strict=True):
        one = broker.call(FindCoordinatorRequest(key=key), 3)
        sentence = ERRORS[code].sentence if code else "NONE"
        assert (one.node_id, one.error_code, one.error_message) == (node_id, code, sentence)
    assert (-1, 15) in expected


class Deaths:
    """Who is dead, by listener; what is asked is answered at once, or when the clock has gone on."""

    def __init__(self, broker):
        self.dead, self.broker = set(), broker
        cluster = ClusterCache(broker.core, lambda *asked: asked in self.dead, broker.clock.monotonic_ms)
        broker.handler.context.cluster = cluster

    def ask(self, message, version):
        self.broker.send(message, version)
        return self.answered(message, version, 0)

    def answered(self, message, version, after_ms):
        """None: it is still held."""
        self.broker.clock.advance(after_ms)
        self.broker.step()
        answers = self.broker.collect()
        return self.broker.decode(message, version, answers[0][2]) if answers else None

    def leader(self, after_ms=None):
        """Of the topic's partition: (code, leader, offline replicas)."""
        message = MetadataRequest(topics=[MetadataRequestTopic(name="t")])
        answer = self.ask(message, 9) if after_ms is None else self.answered(message, 9, after_ms)
        if answer is None:
            return None
        [one] = answer.topics[0].partitions
        assert [each.node_id for each in answer.brokers] == [1, 2]
        return one.error_code, one.leader_id, one.offline_replicas

    def coordinator(self, after_ms=None):
        message = FindCoordinatorRequest(coordinator_keys=["a"])
        answer = self.ask(message, 4) if after_ms is None else self.answered(message, 4, after_ms)
        return None if answer is None else (answer.coordinators[0].node_id, answer.coordinators[0].error_code)


@pytest.fixture
def deaths(broker):
    [ordinal] = broker.create_topic("t", 1, topic_id=ID)
    assign(broker, ordinal, 0, 2, [2, 1])
    return Deaths(broker)


def test_a_leader_that_has_just_died_is_no_leader_whatever_was_told(deaths):
    """Who lost the connection to it asks at once. Told of it as a leader, or of none, a client may ask again no sooner
    than a second later: it is told when another one is elected, if that is soon."""
    assert deaths.leader() == (0, 2, [3])
    deaths.dead.add((2, "OTHER"))
    assert deaths.leader() == (0, 2, [3])
    deaths.dead.add((2, "PLAINTEXT"))
    assert deaths.leader() is None and deaths.leader(HELD_MS - LOOK_EVERY_MS) is None
    assert deaths.leader(LOOK_EVERY_MS) == (5, -1, [2, 3])
    assert deaths.leader() == (5, -1, [2, 3]), "it has been waited for"
    deaths.dead.clear()
    assert deaths.leader() == (0, 2, [3])
    deaths.dead.add((2, "PLAINTEXT"))
    assert deaths.leader() is None, "it lived meanwhile"


def test_the_next_leader_is_told_as_soon_as_it_is_elected(broker, deaths):
    deaths.dead.add((2, "PLAINTEXT"))
    assert deaths.leader() is None
    assign(broker, 0, 0, 1, [1])
    assert deaths.leader(LOOK_EVERY_MS) == (0, 1, [2, 3])


def test_only_whoever_asks_for_what_the_dead_one_led_waits(broker, deaths):
    [ordinal] = broker.create_topic("other", 1, topic_id=b"o" * 16)
    assign(broker, ordinal, 0, 1, [1], b"o" * 16)
    deaths.dead.add((2, "PLAINTEXT"))
    [other] = deaths.ask(MetadataRequest(topics=[MetadataRequestTopic(name="other")]), 9).topics
    assert [one.leader_id for one in other.partitions] == [1]
    broker.handler.context.is_ending = lambda: True
    assert deaths.leader() == (5, -1, [2, 3]), "a broker that stops waits for nobody"


def test_a_leader_that_is_gone_is_waited_for_too(broker, deaths):
    ends = [Endpoint("PLAINTEXT", 0, "one.example", 19091)]
    brokers_write(broker.core, [Broker(1, 7, ends), Broker(2, GONE, ends)])
    cluster_announce(broker.core, 1, 5, 7)
    assert deaths.leader() is None
    assign(broker, 0, 0, 1, [1])
    assert deaths.leader(LOOK_EVERY_MS) == (0, 1, [2, 3])


def test_a_coordinator_that_has_just_died_is_none(broker, deaths):
    [ordinal] = broker.create_topic(OFFSETS_TOPIC, 1, internal=True, topic_id=OFFSETS)
    assign(broker, ordinal, 0, 2, [2, 1], OFFSETS)
    assert deaths.coordinator() == (2, 0)
    deaths.dead.add((2, "PLAINTEXT"))
    assert deaths.coordinator() is None and deaths.coordinator(HELD_MS) == (-1, 15)
    deaths.dead.clear()
    assert deaths.coordinator() == (2, 0)
    deaths.dead.add((2, "PLAINTEXT"))
    assert deaths.coordinator() is None
    assign(broker, ordinal, 0, 1, [1], OFFSETS)
    assert deaths.coordinator(LOOK_EVERY_MS) == (1, 0)


def test_a_broker_that_is_gone_is_still_shown_to_clients(broker):
    """In one answer with the new leader, that a broker is no more makes librdkafka 2.16 lose the partitions of both."""
    ends = [Endpoint("PLAINTEXT", 0, "one.example", 19091)]
    brokers_write(broker.core, [Broker(2, 8, ends), Broker(1, GONE, ends)])
    cluster_announce(broker.core, 1, 5, 8)
    [ordinal] = broker.create_topic("t", 1, topic_id=ID)
    assign(broker, ordinal, 0, 2, [2, 1])
    answer = broker.call(MetadataRequest(topics=[MetadataRequestTopic(name="t")]), 9)
    assert [(one.node_id, one.port) for one in answer.brokers] == [(2, 19091), (1, 19091)]
    [one] = answer.topics[0].partitions
    assert (one.error_code, one.leader_id, one.offline_replicas) == (0, 2, [1, 3])
    assert answer.controller_id == -1
    assert [one.broker_id for one in broker.call(DescribeClusterRequest(), 1).brokers] == [2]
