"""CreateTopics: the command that the controller gets, and the results in Kafka's order."""

import pytest

from mpbroker.errors import ErrorCode
from mpbroker.metadata.commands import CreateTopics, Failed, NewTopic, TopicResult, TopicResults
from mpbroker.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from tests.harness.in_process_broker import InProcessBroker
from tests.harness.in_process_controller import InProcessController


@pytest.fixture
def broker(tmp_path):
    return InProcessBroker(tmp_path)


@pytest.fixture
def controller(broker):
    return InProcessController(broker)


def ask(broker, *topics: CreatableTopic, timeout_ms: int = 1000, validate_only: bool = False) -> CreateTopicsRequest:
    message = CreateTopicsRequest(topics=list(topics), timeout_ms=timeout_ms, validate_only=validate_only)
    broker.send(message, 4)
    broker.step()
    return message


def results(broker, message) -> list[tuple[str, int, str | None]]:
    [(_, _, frame)] = broker.collect()
    return [(one.name, one.error_code, one.error_message) for one in broker.decode(message, 4, frame).topics]


def test_the_command_holds_all_that_was_asked_for(broker, controller):
    assigned = [CreatableReplicaAssignment(partition_index=0, broker_ids=[0])]
    configs = [CreatableTopicConfig(name="retention.ms", value="5"), CreatableTopicConfig(name="x", value=None)]
    message = ask(
        broker,
        CreatableTopic(name="a", num_partitions=3, replication_factor=1),
        CreatableTopic(name="b", num_partitions=-1, replication_factor=-1, assignments=assigned, configs=configs),
        validate_only=True,
    )
    done = TopicResults([TopicResult("a"), TopicResult("b", 40, "Unknown topic config name: x")])
    assert controller.serve(done) == [
        CreateTopics(
            [
                NewTopic("a", 3, 1),
                NewTopic("b", -1, -1, assignments=[(0, [0])], configs={"retention.ms": "5", "x": None}),
            ],
            validate_only=True,
        )
    ]
    assert results(broker, message) == [("a", 0, None), ("b", 40, "Unknown topic config name: x")]


def test_a_name_given_twice_is_refused_once_at_the_end(broker, controller):
    message = ask(broker, *(CreatableTopic(name=name) for name in ("a", "b", "a")))
    [command] = controller.serve(TopicResults([TopicResult("b")]))
    assert [topic.name for topic in command.topics] == ["b"]
    assert results(broker, message) == [("b", 0, None), ("a", ErrorCode.INVALID_REQUEST, "Duplicate topic name.")]


@pytest.mark.parametrize("timeout_ms", [0, -1])
def test_without_time_nothing_is_begun(broker, controller, timeout_ms):
    message = ask(broker, CreatableTopic(name="a"), timeout_ms=timeout_ms)
    assert results(broker, message) == [("a", ErrorCode.REQUEST_TIMED_OUT, None)]
    assert controller.take() is None


def test_a_controller_that_is_late_is_a_timeout_and_its_answer_goes_nowhere(broker, controller):
    message = ask(broker, CreatableTopic(name="a"), timeout_ms=500)
    number, _ = controller.take()
    broker.clock.advance(500)
    broker.step()
    assert results(broker, message) == [("a", ErrorCode.REQUEST_TIMED_OUT, None)]
    controller.answer(number, TopicResults([TopicResult("a")]))
    assert broker.collect() == []


def test_a_command_that_fails_as_a_whole_fails_each_topic(broker, controller):
    message = ask(broker, CreatableTopic(name="a"), CreatableTopic(name="b"))
    controller.serve(Failed(ErrorCode.UNKNOWN_SERVER_ERROR, "broken"))
    assert results(broker, message) == [(name, ErrorCode.UNKNOWN_SERVER_ERROR, "broken") for name in ("a", "b")]


def test_what_does_not_fit_one_command_takes_several(broker, controller):
    names = [f"{number:03d}-" + "x" * 240 for number in range(200)]
    message = ask(broker, *(CreatableTopic(name=name) for name in names))
    commands = []
    while (claimed := controller.take()) is not None:
        commands.append(claimed[1])
        controller.answer(claimed[0], TopicResults([TopicResult(topic.name) for topic in claimed[1].topics]))
    assert len(commands) > 1
    assert [name for name, _, _ in results(broker, message)] == names


def test_newer_versions_tell_what_the_topic_became(broker, controller):
    configs = [CreatableTopicConfig(name="retention.ms", value="5")]
    message = CreateTopicsRequest(topics=[CreatableTopic(name="a", configs=configs)], timeout_ms=1000)
    broker.send(message, 7)
    broker.step()
    broker.create_topic("a", partitions=3, **{"retention.ms": "5"})
    controller.serve(TopicResults([TopicResult("a")]))
    [(_, _, frame)] = broker.collect()
    [one] = broker.decode(message, 7, frame).topics
    assert one.topic_id == broker.handler.context.metadata.topic("a").id
    assert (one.num_partitions, one.replication_factor) == (3, 1)
    shown = {config.name: (config.value, config.config_source) for config in one.configs}
    assert list(shown) == sorted(shown)
    assert shown["retention.ms"] == ("5", 1) and shown["cleanup.policy"] == ("delete", 5)


def test_what_is_only_checked_is_told_as_it_would_have_become(broker, controller):
    assigned = [CreatableReplicaAssignment(partition_index=number, broker_ids=[0]) for number in (0, 1)]
    topics = [
        CreatableTopic(name="a", num_partitions=-1),
        CreatableTopic(name="b", num_partitions=-1, assignments=assigned),
    ]
    message = CreateTopicsRequest(topics=topics, timeout_ms=1000, validate_only=True)
    broker.send(message, 5)
    broker.step()
    controller.serve(TopicResults([TopicResult("a"), TopicResult("b", 17, "no")]))
    [(_, _, frame)] = broker.collect()
    one, refused = broker.decode(message, 5, frame).topics
    assert (one.num_partitions, one.replication_factor, len(one.configs) > 30) == (1, 1, True)
    assert (refused.num_partitions, refused.replication_factor, refused.configs) == (-1, -1, [])


def checked(broker, controller, *topics: CreatableTopic):
    message = CreateTopicsRequest(topics=list(topics), timeout_ms=1000, validate_only=True)
    broker.send(message, 7)
    broker.step()
    controller.serve(TopicResults([TopicResult(topic.name) for topic in topics]))
    [(_, _, frame)] = broker.collect()
    return broker.decode(message, 7, frame).topics


def test_what_is_only_checked_has_an_id_of_its_own_and_the_settings_that_were_asked_for(broker, controller):
    """As Kafka. A setting without a value is the default's."""
    asked = {"retention.ms": "5", "segment.ms": None}
    configs = [CreatableTopicConfig(name=name, value=value) for name, value in asked.items()]
    first, second = checked(
        broker, controller, CreatableTopic(name="a", num_partitions=4, configs=configs), CreatableTopic(name="b")
    )
    assert len({first.topic_id, second.topic_id, bytes(16)}) == 3 and first.num_partitions == 4
    shown = {config.name: (config.value, config.config_source) for config in first.configs}
    assert shown["retention.ms"] == ("5", 1)
    plain = {config.name: (config.value, config.config_source) for config in second.configs}
    assert shown["segment.ms"] == plain["segment.ms"] and plain["retention.ms"][1] == 5


def test_the_brokers_number_of_partitions_is_told_where_none_was_asked_for(tmp_path):
    broker = InProcessBroker(tmp_path, **{"num.partitions": "6"})
    [one] = checked(broker, InProcessController(broker), CreatableTopic(name="a", num_partitions=-1))
    assert one.num_partitions == 6
