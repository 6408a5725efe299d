"""Metadata: which topics are shown, how they are described, and what auto-creation asks of the controller."""

from types import SimpleNamespace

import pytest

from mpbroker.errors import ErrorCode
from mpbroker.metadata.commands import CreateTopics, NewTopic
from mpbroker.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from mpbroker.server.handlers.metadata import CLUSTER_OPERATIONS, OPERATIONS_UNKNOWN, TOPIC_OPERATIONS, brokers_on
from mpbroker.shm.counters import Counter
from mpbroker.shm.layout import PARTITION_ONLINE
from tests.harness.in_process_broker import CLUSTER_ID, InProcessBroker
from tests.harness.in_process_controller import InProcessController


@pytest.fixture
def broker(tmp_path):
    made = InProcessBroker(tmp_path)
    made.create_topic("orders", partitions=2)
    made.create_topic("__consumer_offsets", internal=True)
    return made


def named(*names: str, **fields) -> MetadataRequest:
    return MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in names], **fields)


def test_a_topic_as_the_listener_that_was_asked_shows_it(broker):
    answer = broker.call(named("orders"), 8)
    [node] = answer.brokers
    assert (node.host, node.port, answer.cluster_id) == ("broker.example", 19092, CLUSTER_ID)
    assert answer.controller_id == node.node_id
    [topic] = answer.topics
    assert (topic.name, topic.error_code, topic.is_internal) == ("orders", 0, False)
    here = [node.node_id]
    assert [
        (one.partition_index, one.leader_id, one.leader_epoch, one.replica_nodes, one.isr_nodes, one.offline_replicas)
        for one in topic.partitions
    ] == [(0, node.node_id, 0, here, here, []), (1, node.node_id, 0, here, here, [])]


@pytest.mark.parametrize(
    ("version", "topics", "shown"),
    [
        (0, [], {"orders", "__consumer_offsets"}),
        (1, [], set()),
        (1, None, {"orders", "__consumer_offsets"}),
        (8, None, {"orders", "__consumer_offsets"}),
    ],
)
def test_version_0_asks_for_all_topics_by_an_empty_list_later_ones_by_null(broker, version, topics, shown):
    answer = broker.call(MetadataRequest(topics=topics), version)
    assert {topic.name for topic in answer.topics} == shown
    assert all(topic.is_internal == (topic.name != "orders") for topic in answer.topics if version > 0)


@pytest.mark.parametrize("wanted", [False, True])
def test_operations_are_shown_to_whoever_asks_for_them(broker, wanted):
    answer = broker.call(
        named("orders", include_cluster_authorized_operations=wanted, include_topic_authorized_operations=wanted), 8
    )
    assert answer.cluster_authorized_operations == (CLUSTER_OPERATIONS if wanted else OPERATIONS_UNKNOWN)
    assert answer.topics[0].topic_authorized_operations == (TOPIC_OPERATIONS if wanted else OPERATIONS_UNKNOWN)


def test_a_missing_topic_is_created_once_and_an_illegal_name_never(broker):
    controller = InProcessController(broker)
    for _ in range(2):
        answer = broker.call(named("new", "orders", "a/b", "new"), 8)
        assert [(topic.name, topic.error_code) for topic in answer.topics] == [
            ("new", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
            ("orders", 0),
            ("a/b", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ]
    assert controller.take()[1] == CreateTopics([NewTopic("new")], forward=True)
    assert controller.take() is None


@pytest.mark.parametrize(("version", "created"), [(3, True), (4, False)])
def test_from_version_4_on_a_client_may_forbid_creation(broker, version, created):
    broker.call(named("new", allow_auto_topic_creation=False), version)
    assert (InProcessController(broker).take() is not None) == created


def test_with_auto_creation_switched_off_nothing_is_created(tmp_path):
    broker = InProcessBroker(tmp_path, **{"auto.create.topics.enable": "false"})
    assert broker.call(named("new"), 8).topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert InProcessController(broker).take() is None


def test_a_partition_whose_log_is_offline_has_offline_replicas(broker):
    assert broker.log.set_flags(1, 0, PARTITION_ONLINE) == 0
    answer = broker.call(named("orders"), 8)
    assert [one.offline_replicas for one in answer.topics[0].partitions] == [[], [answer.brokers[0].node_id]]


def test_topics_may_be_asked_for_by_id_from_version_12_on(broker):
    topic_id = broker.call(named("orders"), 10).topics[0].topic_id
    asked = MetadataRequest(topics=[MetadataRequestTopic(topic_id=topic_id, name=None)])
    for version in (12, 13):
        [found] = broker.call(asked, version).topics
        assert (found.error_code, found.name, found.topic_id, len(found.partitions)) == (0, "orders", topic_id, 2)
    for version in (10, 11):
        answer = broker.call(asked, version)
        assert (answer.brokers, [(one.error_code, one.name, one.topic_id) for one in answer.topics]) == (
            [],
            [(ErrorCode.INVALID_REQUEST, "", topic_id)],
        )


def test_an_id_counts_more_than_a_name_and_neither_is_an_error(broker):
    unknown = MetadataRequestTopic(topic_id=b"x" * 16, name="orders")
    [found] = broker.call(MetadataRequest(topics=[unknown]), 12).topics
    assert (found.error_code, found.name, found.topic_id) == (ErrorCode.UNKNOWN_TOPIC_ID, None, b"x" * 16)
    answer = broker.call(MetadataRequest(topics=[MetadataRequestTopic(name=None)]), 13)
    assert [answer.error_code, answer.topics[0].error_code] == [ErrorCode.UNKNOWN_SERVER_ERROR] * 2


@pytest.mark.parametrize("version", [10, 11])
@pytest.mark.parametrize("topic", [MetadataRequestTopic(name=None), MetadataRequestTopic(b"x" * 16, "orders")])
def test_before_version_12_a_topic_has_a_name_and_no_id(broker, version, topic):
    answer = broker.call(MetadataRequest(topics=[topic]), version)
    assert [one.error_code for one in answer.topics] == [ErrorCode.INVALID_REQUEST] and answer.brokers == []


@pytest.mark.parametrize("takes", [True, False])
def test_a_creation_that_finds_no_room_is_counted(broker, monkeypatch, takes):
    context, asked = broker.handler.context, []
    monkeypatch.setattr(context.auto_creation, "create", lambda names: asked.append(names) or takes)
    [topic] = broker.call(named("new"), 8).topics
    assert (topic.error_code, topic.is_internal, topic.partitions) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, False, [])
    assert asked == [["new"]]
    assert context.row.counter(Counter.CONTROLLER_COMMANDS_REFUSED) == (0 if takes else 1)
    broker.call(named("orders"), 8)
    assert asked == [["new"]], "what is there is not asked for"


def test_a_broker_that_clients_of_a_listener_cannot_see_shows_itself():
    """Where no broker of the cluster is on that listener: the one that was asked."""
    listener = SimpleNamespace(name="OUT", advertised_host="here", advertised_port=9)
    others = {1: SimpleNamespace(id=1, rack="r1", on=lambda name: None)}
    context = SimpleNamespace(
        node_id=7,
        config=SimpleNamespace(broker_rack="r7"),
        listener=lambda index: listener,
        cluster=SimpleNamespace(brokers=others),
    )
    assert brokers_on(context, SimpleNamespace(listener=0)) == [(7, "here", 9, "r7")]
    others[1].on = lambda name: SimpleNamespace(host=f"one on {name}", port=11)
    assert brokers_on(context, SimpleNamespace(listener=0)) == [(1, "one on OUT", 11, "r1")]
    context.cluster = None
    assert brokers_on(context, SimpleNamespace(listener=0)) == [(7, "here", 9, "r7")]
