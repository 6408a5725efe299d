"""FindCoordinator: this broker coordinates every group and every transaction."""

import pytest

from mpbroker.errors import ErrorCode
from mpbroker.metadata.commands import CreateTopics, NewTopic, TopicResult, TopicResults
from mpbroker.metadata.topic_names import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from mpbroker.protocol.messages.find_coordinator import FindCoordinatorRequest
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
