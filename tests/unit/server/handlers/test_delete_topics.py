"""DeleteTopics: the command that the controller gets; refusals while deleting is switched off, as of Kafka 3.9.2 with
delete.topic.enable=false."""

import pytest

from mpbroker.errors import ERRORS, ErrorCode
from mpbroker.metadata.commands import DeleteTopics, TopicResult, TopicResults
from mpbroker.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from mpbroker.server.handlers import delete_topics as handler
from tests.harness.in_process_broker import InProcessBroker
from tests.harness.in_process_controller import InProcessController


@pytest.mark.parametrize(("version", "code"), [(0, 42), (1, 42), (2, 42), (3, 73)])
def test_every_name_is_refused(tmp_path, version, code):
    broker = InProcessBroker(tmp_path, **{"delete.topic.enable": "false"})
    broker.create_topic("orders")
    names = ["orders", "nope", "orders"]
    answer = broker.call(DeleteTopicsRequest(topic_names=names, timeout_ms=1000), version)
    assert [(response.name, response.error_code) for response in answer.responses] == [(name, code) for name in names]


def test_the_controller_deletes_and_a_name_given_twice_is_refused(tmp_path):
    broker = InProcessBroker(tmp_path)
    controller = InProcessController(broker)
    message = DeleteTopicsRequest(topic_names=["a", "b", "nope", "b"], timeout_ms=1000)
    broker.send(message, 3)
    broker.step()
    done = TopicResults([TopicResult("a"), TopicResult("nope", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)])
    assert controller.serve(done) == [DeleteTopics(["a", "nope"])]
    [(_, _, frame)] = broker.collect()
    assert [(one.name, one.error_code) for one in broker.decode(message, 3, frame).responses] == [
        ("a", 0),
        ("nope", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("b", ErrorCode.INVALID_REQUEST),
    ]


def test_version_6_names_topics_by_id_and_the_controller_gets_both(tmp_path):
    broker = InProcessBroker(tmp_path)
    broker.create_topic("a")
    broker.create_topic("b")
    controller = InProcessController(broker)
    context = broker.handler.context
    context.metadata.refresh()
    ids = {name: context.metadata.topic(name).id for name in ("a", "b")}
    twice = [(None, b"y" * 16)] * 2
    asked = [(None, ids["a"]), ("b", bytes(16)), (None, b"x" * 16), ("a", ids["a"]), (None, bytes(16)), *twice]
    message = DeleteTopicsRequest(
        topics=[DeleteTopicState(name=name, topic_id=topic_id) for name, topic_id in asked], timeout_ms=1000
    )
    broker.send(message, 6)
    broker.step()
    done = TopicResults([TopicResult("a", ErrorCode.UNKNOWN_TOPIC_ID), TopicResult("b")])
    assert controller.serve(done) == [DeleteTopics(["a", "b"], {"a": ids["a"]})]
    [(_, _, frame)] = broker.collect()
    assert [(one.name, one.topic_id, one.error_code) for one in broker.decode(message, 6, frame).responses] == [
        ("a", ids["a"], ErrorCode.UNKNOWN_TOPIC_ID),
        ("b", ids["b"], 0),
        (None, b"x" * 16, ErrorCode.UNKNOWN_TOPIC_ID),
        ("a", ids["a"], ErrorCode.INVALID_REQUEST),
        (None, bytes(16), ErrorCode.INVALID_REQUEST),
        (None, b"y" * 16, ErrorCode.INVALID_REQUEST),
    ]


def test_a_topic_named_by_name_and_by_id_is_named_twice(tmp_path):
    broker = InProcessBroker(tmp_path)
    broker.create_topic("a")
    broker.handler.context.metadata.refresh()
    topic_id = broker.handler.context.metadata.topic("a").id
    both = [DeleteTopicState(name="a"), DeleteTopicState(topic_id=topic_id)]
    [one] = broker.call(DeleteTopicsRequest(topics=both, timeout_ms=1000), 6).responses
    assert (one.name, one.topic_id, one.error_code) == ("a", topic_id, ErrorCode.INVALID_REQUEST)


def test_a_topic_that_was_made_a_moment_ago_is_known_by_its_id(tmp_path):
    broker, topic_id = InProcessBroker(tmp_path), b"i" * 16
    controller = InProcessController(broker)
    broker.create_topic("a", topic_id=topic_id)
    broker.send(DeleteTopicsRequest(topics=[DeleteTopicState(topic_id=topic_id)], timeout_ms=1000), 6)
    broker.step()
    assert controller.serve(TopicResults([TopicResult("a")])) == [DeleteTopics(["a"], {"a": topic_id})]


@pytest.mark.parametrize(
    ("code", "sentence", "told"),
    [
        (0, "words", None),
        (ErrorCode.REQUEST_TIMED_OUT, "words", None),
        (3, "words", "words"),
        (3, None, ERRORS[3].sentence),
        (3, "", ERRORS[3].sentence),
    ],
)
def test_what_is_said_beside_a_code(code, sentence, told):
    """The controller's words, else Kafka's of the code; it gives up without a word."""
    found = handler._result("a", bytes(16), code, sentence)
    assert (found.error_code, found.error_message) == (code, told)
