"""FindCoordinator: this broker coordinates every group and every transaction."""

from types import SimpleNamespace

import pytest

from mpbroker.config.load_config import load_broker_config
from mpbroker.errors import ErrorCode
from mpbroker.metadata.commands import CreateTopics, Failed, NewTopic, TopicResult, TopicResults
from mpbroker.metadata.coordinator_partitions import partition_of
from mpbroker.metadata.topic_names import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from mpbroker.protocol.messages.find_coordinator import FindCoordinatorRequest
from mpbroker.server.apis import PARKED
from mpbroker.server.handlers import find_coordinator as handler
from tests.harness.in_process_broker import InProcessBroker
from tests.harness.in_process_controller import InProcessController

TRANSACTION_SETTINGS = {
    "cleanup.policy": "compact",
    "compression.type": "uncompressed",
    "min.insync.replicas": "1",
    "segment.bytes": "104857600",
    "unclean.leader.election.enable": "false",
}
SETTINGS = {"cleanup.policy": "compact", "compression.type": "producer", "segment.bytes": "104857600"}


@pytest.fixture
def broker(tmp_path):
    return InProcessBroker(tmp_path, **{"offsets.topic.num.partitions": "3"})


def asked(version: int, key_type: int = 0, *keys: str) -> FindCoordinatorRequest:
    if version >= 4:
        return FindCoordinatorRequest(key_type=key_type, coordinator_keys=list(keys or ("g",)))
    return FindCoordinatorRequest(key="g", key_type=key_type)


@pytest.mark.parametrize("version", range(7))
def test_groups_are_coordinated_here(broker, version):
    broker.create_topic(OFFSETS_TOPIC, internal=True)
    answer = broker.call(asked(version, 0, "g", ""), version)
    if version >= 4:
        found = [(one.key, one.error_code, one.error_message, one.node_id) for one in answer.coordinators]
        assert found == [("g", 0, "", 0), ("", 0, "", 0)]
        assert {(one.host, one.port) for one in answer.coordinators} == {("broker.example", 19092)}
    else:
        text = "NONE" if version else None
        assert (answer.error_code, answer.error_message, answer.node_id) == (0, text, 0)
        assert (answer.host, answer.port) == ("broker.example", 19092)


def test_the_first_question_waits_for_the_topic(broker):
    controller = InProcessController(broker)
    assert not broker.core.coordinator_wanted
    broker.send(asked(0), 0)
    broker.step()
    assert broker.collect() == []
    assert broker.core.coordinator_wanted  # it gets ready meanwhile
    broker.create_topic(OFFSETS_TOPIC, 3, internal=True)
    created = controller.serve(TopicResults([TopicResult(OFFSETS_TOPIC)]))
    assert created == [CreateTopics([NewTopic(OFFSETS_TOPIC, 3, 1, configs=SETTINGS)], forward=True)]
    [(_, _, frame)] = broker.collect()
    assert broker.decode(asked(0), 0, frame).error_code == ErrorCode.NONE


@pytest.mark.parametrize("version", [1, 6])
def test_transactions_are_coordinated_here_once_their_topic_is_made(broker, version):
    controller = InProcessController(broker)
    broker.send(asked(version, 1), version)
    broker.step()
    broker.create_topic(TRANSACTIONS_TOPIC, 3, internal=True)
    [created] = controller.serve(TopicResults([TopicResult(TRANSACTIONS_TOPIC)]))
    assert created == CreateTopics([NewTopic(TRANSACTIONS_TOPIC, 50, 1, configs=TRANSACTION_SETTINGS)], forward=True)
    [(_, _, frame)] = broker.collect()
    answer = broker.decode(asked(version, 1), version, frame)
    [one] = answer.coordinators if version >= 4 else [answer]
    assert (one.error_code, one.node_id) == (ErrorCode.NONE, 0)


def test_whose_topic_cannot_be_made_asks_again(broker):
    controller = InProcessController(broker)
    broker.send(asked(5), 5)
    broker.step()
    controller.serve(TopicResults([TopicResult(OFFSETS_TOPIC, ErrorCode.POLICY_VIOLATION, "no room")]))
    [(_, _, frame)] = broker.collect()
    [one] = broker.decode(asked(5), 5, frame).coordinators
    assert (one.error_code, one.node_id, one.port) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, -1, -1)


@pytest.mark.parametrize(
    ("version", "key_type", "code"),
    [
        (2, 2, ErrorCode.INVALID_REQUEST),
        (3, -1, ErrorCode.INVALID_REQUEST),
        (5, 2, ErrorCode.INVALID_REQUEST),
        (6, 2, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (6, 3, ErrorCode.INVALID_REQUEST),
    ],
)
def test_of_others_the_code_says_whether_to_ask_again(broker, version, key_type, code):
    answer = broker.call(asked(version, key_type), version)
    [one] = answer.coordinators if version >= 4 else [answer]
    assert (one.error_code, one.node_id, one.host, one.port) == (code, -1, "", -1)


class Creation:
    """A question that finds no topic; `park` is called with what the controller is asked."""

    def __init__(self, monkeypatch, takes=True):
        self.did, self.topics, self.told = [], {}, []
        self.context = SimpleNamespace(
            metadata=SimpleNamespace(refresh=lambda: self.did.append("refresh"), topic=self.topics.get),
            port=SimpleNamespace(want_coordinator=lambda: self.did.append("wanted")),
            log=SimpleNamespace(warning=lambda event, about, reason: self.told.append((event, about, reason))),
            config=load_broker_config(environ={}, cores=2),
        )

        def park(context, request, parts, timeout_ms, build):
            self.build = build
            return takes

        monkeypatch.setattr(handler, "park_for_controller", park)
        monkeypatch.setattr(handler, "_here", lambda *_: "here")
        request = SimpleNamespace(api_version=4)
        self.outcome = handler._create_topic(self.context, request, asked(4), OFFSETS_TOPIC)


def test_the_coordinator_is_wanted_as_soon_as_its_topic_is_asked_for(monkeypatch):
    assert Creation(monkeypatch).outcome is PARKED
    made = Creation(monkeypatch)
    assert made.did == ["wanted"]
    made.topics[OFFSETS_TOPIC] = "topic"
    assert made.build([None]) == "here" and made.did == ["wanted", "refresh", "wanted"] and made.told == []
    refused = Creation(monkeypatch, takes=False)
    assert refused.did == [] and refused.outcome.coordinators[0].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (TopicResults([TopicResult(OFFSETS_TOPIC)]), None),
        (None, "the controller did not answer in time"),
        (TopicResults([TopicResult("a"), TopicResult("b", 44, "no room")]), "error 0; no room"),
        (TopicResults([TopicResult("a", 44), TopicResult("b", 3)]), "error 44; error 3"),
        (TopicResults([], error_code=41), "error 41"),
        (Failed(56, "broken"), "error 56"),
    ],
)
def test_why_there_is_no_topic_is_said_unless_it_is_only_not_heard_of_yet(monkeypatch, answer, reason):
    made = Creation(monkeypatch)
    found = made.build([answer]).coordinators[0]
    assert (found.key, found.error_code, found.node_id) == ("g", ErrorCode.COORDINATOR_NOT_AVAILABLE, -1)
    assert made.told == ([] if reason is None else [("offsets_topic_not_created", OFFSETS_TOPIC, reason)])


@pytest.mark.parametrize("version", [3, 4])
def test_the_cluster_is_looked_at_as_it_is_now(version):
    """Also where a topic was just made. Without a leader there is no place."""
    refreshed, topic = [], SimpleNamespace(id=b"T" * 16, partitions=[40])
    cluster = SimpleNamespace(refresh=lambda: refreshed.append(1), assignment=lambda ordinal, topic_id: None)
    context = SimpleNamespace(
        listener=lambda index: SimpleNamespace(name="OUT"), metadata=SimpleNamespace(topic=lambda name: topic)
    )
    request = SimpleNamespace(api_version=version, listener=0)
    answer = handler._in_cluster(context, cluster, request, asked(version))
    [one] = answer.coordinators if version >= 4 else [answer]
    assert refreshed == [1]
    assert (one.error_code, one.node_id, one.host, one.port) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, -1, "", -1)


@pytest.mark.parametrize("version", [3, 4])
def test_only_the_partition_of_ones_key_is_waited_for(monkeypatch, version):
    """Versions before 4 name one key in a field of its own."""
    keys = [f"group {number}" for number in range(40)]
    leaders = {40: (1, 5), 41: (2, 5), 42: None}
    refreshed = []
    cluster = SimpleNamespace(refresh=lambda: refreshed.append(1), leader=leaders.get)
    topic = SimpleNamespace(partitions=[40, 41, 42])
    context = SimpleNamespace(cluster=cluster, metadata=SimpleNamespace(topic=lambda name: topic))
    monkeypatch.setattr(handler, "awaited", lambda context, request: frozenset({2}))
    request, found = SimpleNamespace(api_version=version), []
    for key in keys:
        message = FindCoordinatorRequest(**{"coordinator_keys": [key]} if version >= 4 else {"key": key})
        if handler._is_coordinator_awaited(context, request, message, OFFSETS_TOPIC):
            found.append(key)
    assert found == [key for key in keys if partition_of(key, 3) == 1] and 0 < len(found) < 40
    assert len(refreshed) == len(keys), "of the cluster as it is now"


@pytest.mark.parametrize(
    ("leader", "reached", "place"),
    [
        (2, {2, 3}, (2, "two", 92, 0)),
        (2, {3}, (-1, "", -1, ErrorCode.COORDINATOR_NOT_AVAILABLE)),
        (3, {2, 3}, (-1, "", -1, ErrorCode.COORDINATOR_NOT_AVAILABLE)),
        (4, {2, 3, 4}, (-1, "", -1, ErrorCode.COORDINATOR_NOT_AVAILABLE)),
        (None, {2, 3}, (-1, "", -1, ErrorCode.COORDINATOR_NOT_AVAILABLE)),
    ],
    ids=["there", "not reached", "not on that listener", "not known", "nobody leads"],
)
def test_who_coordinates_a_key_is_where_its_leader_can_be_reached(leader, reached, place):
    """By the listener that was asked at."""
    topic = SimpleNamespace(id=b"T" * 16, partitions=[40])
    two = SimpleNamespace(id=2, on=lambda listener: SimpleNamespace(host="two", port=92) if listener == "OUT" else None)
    three = SimpleNamespace(id=3, on=lambda listener: None)
    cluster = SimpleNamespace(
        assignment=lambda ordinal, topic_id: None if leader is None else SimpleNamespace(leader=leader),
        brokers={2: two, 3: three},
        reached=lambda listener: reached if listener == "OUT" else set(),
    )
    context = SimpleNamespace(metadata=SimpleNamespace(topic=lambda name: topic))
    one = handler._of_key(context, cluster, OFFSETS_TOPIC, "g", "OUT")
    assert (one.key, (one.node_id, one.host, one.port, one.error_code)) == ("g", place)
