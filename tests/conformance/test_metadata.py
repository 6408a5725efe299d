"""Metadata and topics, as Kafka does it: addresses by listener, topics that come and go, life without a controller."""

import os
import signal

import pytest

from mpbroker.errors import ErrorCode
from mpbroker.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from mpbroker.protocol.messages.delete_topics import DeleteTopicsRequest
from mpbroker.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.harness.broker import Broker, wait_until
from tests.harness.peer import Peer, batch, create_topic, fetch, list_offset, metadata, produce


@pytest.mark.parametrize("listener", [0, 1, 2])
def test_the_broker_is_named_by_the_listener_that_was_asked(broker, listener):
    with Peer(broker.port(listener)) as peer:
        (named,) = metadata(peer).brokers
    assert (named.node_id, named.host, named.port) == (0, "127.0.0.1", broker.port(listener))


def test_the_advertised_address_is_told_and_not_the_bound_one(tmp_path):
    """As behind a container's port mapping: as far as this broker knows, nobody listens where clients are sent to."""
    listeners = ["PLAINTEXT://127.0.0.1:0", "EXTERNAL://127.0.0.1:0"]
    overrides = {
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,EXTERNAL:PLAINTEXT",
        "inter.broker.listener.name": "PLAINTEXT",
        "advertised.listeners": "PLAINTEXT://inside.example:19092,EXTERNAL://outside.example:29092",
    }
    told = [("inside.example", 19092), ("outside.example", 29092)]
    with Broker(tmp_path, overrides=overrides, listeners=listeners) as broker:
        for listener, address in enumerate(told):
            with Peer(broker.port(listener)) as peer:
                for version in range(9):
                    assert [(b.host, b.port) for b in metadata(peer, version=version).brokers] == [address], version
        assert [(each["host"], each["port"]) for each in broker.ready["listeners"]] == [
            ("127.0.0.1", broker.port(0)),
            ("127.0.0.1", broker.port(1)),
        ]


def test_topics_partitions_leaders_and_replicas_are_listed(peer, topic):
    for version in range(9):
        answer = metadata(peer, topic, version=version)
        (found,) = answer.topics
        assert (found.error_code, found.name) == (0, topic)
        assert not found.is_internal
        partitions = sorted(found.partitions, key=lambda partition: partition.partition_index)
        assert [(p.partition_index, p.error_code, p.leader_id, p.replica_nodes, p.isr_nodes) for p in partitions] == [
            (number, 0, 0, [0], [0]) for number in range(3)
        ]
        if version >= 1:
            assert answer.controller_id == 0
        if version >= 2:
            assert len(answer.cluster_id) == 22
        if version >= 7:
            assert {p.leader_epoch for p in partitions} == {0}


def test_operations_are_told_when_asked_for(peer, topic):
    """KIP-430; without an authorizer they are all that a topic (3576) and a cluster (8096) know."""
    asked = MetadataRequest(
        topics=[MetadataRequestTopic(name=topic), MetadataRequestTopic(name="not-there")],
        allow_auto_topic_creation=False,
        include_cluster_authorized_operations=True,
        include_topic_authorized_operations=True,
    )
    answer = peer.ask(asked, 8)
    assert answer.cluster_authorized_operations == 8096
    assert [each.topic_authorized_operations for each in answer.topics] == [3576, 3576]
    plain = metadata(peer, topic)
    assert {plain.cluster_authorized_operations, plain.topics[0].topic_authorized_operations} == {-(2**31)}


def test_an_empty_list_means_all_topics_in_version_0_only(peer, topic):
    assert topic in {t.name for t in peer.ask(MetadataRequest(topics=[]), 0).topics}
    assert peer.ask(MetadataRequest(topics=[]), 1).topics == []
    assert topic in {t.name for t in peer.ask(MetadataRequest(topics=None), 1).topics}


def test_a_topic_is_there_when_its_creation_is_answered(broker, peer):
    with Peer(broker.port(1)) as elsewhere:
        for number in range(10):
            name = f"fresh-{number}"
            assert create_topic(peer, name, 2).error_code == 0
            assert len(metadata(elsewhere, name).topics[0].partitions) == 2
            assert produce(elsewhere, name, batch(b"a"), partition=1).base_offset == 0


def test_a_deleted_topic_is_gone_when_that_is_answered_and_empty_when_made_again(broker, peer, topic):
    produce(peer, topic, batch(b"a", b"b"))
    first = list_offset(peer, topic, -1)
    assert first.offset == 2
    deleted = peer.ask(DeleteTopicsRequest(topic_names=[topic], timeout_ms=10_000), 3)
    assert [(each.name, each.error_code) for each in deleted.responses] == [(topic, 0)]
    with Peer(broker.port(1)) as elsewhere:
        assert metadata(elsewhere, topic).topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert fetch(elsewhere, topic).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert create_topic(peer, topic, 1).error_code == 0
    assert list_offset(peer, topic, -1).offset == 0 and fetch(peer, topic).records in (b"", None)
    assert produce(peer, topic, batch(b"c")).base_offset == 0


def test_files_of_a_deleted_topic_are_renamed_first(broker, peer, topic):
    produce(peer, topic, batch(b"a"))
    folder = broker.data_dir / f"{topic}-0"
    assert (folder / "00000000000000000000.log").stat().st_size > 0
    peer.ask(DeleteTopicsRequest(topic_names=[topic], timeout_ms=10_000), 3)
    wait_until(lambda: not folder.exists(), "the directory to be renamed")
    assert all(name.endswith("-delete") for name in os.listdir(broker.data_dir) if name.startswith(f"{topic}-"))


def test_errors_of_topics_come_one_by_one(peer, topic):
    topics = [
        CreatableTopic(name=name, num_partitions=count, replication_factor=factor)
        for name, count, factor in (
            (topic, 1, 1),
            ("bad name", 1, 1),
            ("too-few", 0, 1),
            ("copies", 1, 3),
            ("fine-among-others", 1, 1),
        )
    ]
    answer = peer.ask(CreateTopicsRequest(topics=topics, timeout_ms=10_000), 4)
    assert {each.name: each.error_code for each in answer.topics} == {
        topic: ErrorCode.TOPIC_ALREADY_EXISTS,
        "bad name": ErrorCode.INVALID_TOPIC_EXCEPTION,
        "too-few": ErrorCode.INVALID_PARTITIONS,
        "copies": ErrorCode.INVALID_REPLICATION_FACTOR,
        "fine-among-others": 0,
    }


@pytest.mark.parametrize("timeout_ms", [0, -1, -(2**31)])
def test_without_time_nothing_is_begun(peer, topic, timeout_ms):
    name = f"no-time-{timeout_ms}".replace("--", "-")
    created = CreateTopicsRequest(
        topics=[CreatableTopic(name=name, num_partitions=1, replication_factor=1)], timeout_ms=timeout_ms
    )
    deleted = DeleteTopicsRequest(topic_names=[topic], timeout_ms=timeout_ms)
    assert peer.ask(created, 4).topics[0].error_code == ErrorCode.REQUEST_TIMED_OUT
    assert peer.ask(deleted, 3).responses[0].error_code == ErrorCode.REQUEST_TIMED_OUT
    answer = metadata(peer, name, topic)
    assert [each.error_code for each in answer.topics] == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0]


def test_without_its_controller_a_broker_goes_on_but_for_changes(broker, peer, topic):
    produce(peer, topic, batch(b"a"))
    pid = broker.kill("controller", 0, signal.SIGSTOP)
    try:
        with Peer(broker.port()) as another:
            assert metadata(another, topic).topics[0].error_code == 0
            assert produce(another, topic, batch(b"b")).base_offset == 1
            assert len(fetch(another, topic).records) > 0
            topics = [CreatableTopic(name="waits", num_partitions=1, replication_factor=1)]
            answer = another.ask(CreateTopicsRequest(topics=topics, timeout_ms=300), 4)
            assert answer.topics[0].error_code == ErrorCode.REQUEST_TIMED_OUT
    finally:
        os.kill(pid, signal.SIGCONT)
    wait_until(lambda: metadata(peer, "waits").topics[0].error_code == 0, "the late creation")


def test_metadata_may_be_asked_at_any_time(peer, topic):
    for _ in range(200):
        assert metadata(peer, topic).topics[0].error_code == 0
