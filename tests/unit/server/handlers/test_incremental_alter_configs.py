"""IncrementalAlterConfigs: what is refused at once, the command that the controller gets, the order of
the results. The sentences are those of a real Kafka 3.9.2."""

import pytest

from mpbroker.errors import ErrorCode
from mpbroker.metadata.commands import (
    AlterConfigs,
    ConfigChange,
    ConfigChanges,
    Failed,
    ProducerIds,
    TopicResult,
    TopicResults,
)
from mpbroker.protocol.messages.incremental_alter_configs import (
    IncrementalAlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
)
from mpbroker.server.config_commands import TIMEOUT_MS
from mpbroker.server.controller_commands import ControllerCommands
from tests.harness.in_process_broker import InProcessBroker
from tests.harness.in_process_controller import InProcessController

TOPIC, BROKER, LOGGER, METRICS = 2, 4, 8, 16
SET, DELETE, APPEND = 0, 1, 2
REFUSED = [
    (TOPIC, "t", [("a", SET, None)], 42, "Null value not supported for : a"),
    (TOPIC, "t", [("a", SET, None), ("b", DELETE, None), ("c", 3, None)], 42, "Null value not supported for : a, c"),
    (TOPIC, "t", [("a", SET, "1"), ("a", SET, "1")], 42, "Error due to duplicate config keys"),
    (TOPIC, "t", [("a", 7, "1")], -1, None),
    (3, "t", [], 42, "Unknown resource type 3"),
    (BROKER, "x", [], 42, "Node id must be an integer, but it is: x"),
    (BROKER, "2147483648", [], 42, "Node id must be an integer, but it is: 2147483648"),
    (BROKER, "-2147483649", [], 42, "Node id must be an integer, but it is: -2147483649"),
    (BROKER, "-2147483648", [], 42, "Unexpected broker id, expected 0, but received -2147483648"),
    (BROKER, "2147483647", [], 42, "Unexpected broker id, expected 0, but received 2147483647"),
    (BROKER, "7", [], 42, "Unexpected broker id, expected 0, but received 7"),
    (LOGGER, "", [], 42, "Node id must be an integer, but it is: "),
    (LOGGER, "0", [("root", SET, "INFO")], 40, "Logger root does not exist!"),
    (METRICS, "", [], 42, "Subscription name can't be empty"),
    (METRICS, "a", [("x", SET, "1")], 42, "Unknown client metrics configuration: x"),
]


def changing(*resources: tuple[int, str, list[tuple[str, int, str | None]]], only: bool = False):
    return IncrementalAlterConfigsRequest(
        validate_only=only,
        resources=[
            IncrementalAlterConfigsResource(
                resource_type=kind,
                resource_name=name,
                configs=[
                    IncrementalAlterableConfig(name=key, config_operation=operation, value=value)
                    for key, operation, value in changes
                ],
            )
            for kind, name, changes in resources
        ],
    )


def results(broker: InProcessBroker, message, version: int) -> list[tuple[str, int, str | None]]:
    [(_, _, frame)] = broker.collect()
    responses = broker.decode(message, version, frame).responses
    return [(one.resource_name, one.error_code, one.error_message) for one in responses]


ACCEPTED_WITHOUT_THE_CONTROLLER = [(LOGGER, "0", []), (LOGGER, "+0", []), (METRICS, "a", [])]


@pytest.mark.parametrize(("kind", "name", "changes"), ACCEPTED_WITHOUT_THE_CONTROLLER)
def test_what_changes_nothing_is_no_fault(tmp_path, kind, name, changes):
    broker = InProcessBroker(tmp_path)
    message = changing((kind, name, changes))
    broker.send(message, 1)
    broker.step()
    assert results(broker, message, 1) == [(name, 0, None)]


@pytest.mark.parametrize(("kind", "name", "changes", "code", "sentence"), REFUSED)
def test_refused_before_the_controller_sees_it(tmp_path, kind, name, changes, code, sentence):
    broker = InProcessBroker(tmp_path)
    message = changing((kind, name, changes))
    broker.send(message, 1)
    broker.step()
    assert results(broker, message, 1) == [(name, code, sentence)]


def test_the_rest_goes_to_the_controller_and_results_keep_their_order(tmp_path):
    broker = InProcessBroker(tmp_path)
    controller = InProcessController(broker)
    change = [("cleanup.policy", APPEND, "compact")]
    message = changing((3, "x", []), (TOPIC, "a", change), (BROKER, "y", []), (TOPIC, "b", []), only=True)
    broker.send(message, 1)
    broker.step()
    done = TopicResults([TopicResult("a"), TopicResult("b", ErrorCode.INVALID_CONFIG, "no")])
    wanted = [ConfigChanges(TOPIC, "a", [ConfigChange(*change[0])]), ConfigChanges(TOPIC, "b", [])]
    assert controller.serve(done) == [AlterConfigs(wanted, validate_only=True)]
    assert [(name, code) for name, code, _ in results(broker, message, 1)] == [
        ("x", 42),
        ("a", 0),
        ("y", 42),
        ("b", 40),
    ]


def test_a_resource_twice_is_refused_both_times(tmp_path):
    broker = InProcessBroker(tmp_path)
    message = changing((TOPIC, "a", []), (TOPIC, "a", []))
    broker.send(message, 1)
    broker.step()
    assert results(broker, message, 1) == [("a", 42, "Each resource must appear at most once.")] * 2


def asked(tmp_path, *resources, only: bool = False):
    """A request that the controller has to answer."""
    broker = InProcessBroker(tmp_path)
    message = changing(*resources, only=only)
    broker.send(message, 1)
    broker.step()
    return broker, InProcessController(broker), message


def test_a_topic_and_a_broker_may_have_the_same_name(tmp_path):
    broker, controller, message = asked(tmp_path, (TOPIC, "0", []), (BROKER, "0", []))
    controller.serve(TopicResults([TopicResult("0"), TopicResult("0")]))
    assert results(broker, message, 1) == [("0", 0, None)] * 2


@pytest.mark.parametrize(
    ("answer", "code", "sentence"),
    [
        (Failed(ErrorCode.POLICY_VIOLATION, "no"), ErrorCode.POLICY_VIOLATION, "no"),
        (Failed(ErrorCode.POLICY_VIOLATION, ""), ErrorCode.POLICY_VIOLATION, None),
        (ProducerIds(first_id=1, count=1), ErrorCode.REQUEST_TIMED_OUT, None),
    ],
)
def test_a_command_that_fails_as_a_whole_fails_each_resource(tmp_path, answer, code, sentence):
    broker, controller, message = asked(tmp_path, (TOPIC, "a", []), (TOPIC, "b", []))
    controller.serve(answer)
    assert results(broker, message, 1) == [("a", code, sentence), ("b", code, sentence)]


def test_a_controller_that_does_not_answer_times_out(tmp_path):
    broker, _, message = asked(tmp_path, (TOPIC, "a", []), (3, "x", []))
    broker.clock.advance(TIMEOUT_MS - 1)
    broker.step()
    assert broker.collect() == []
    broker.clock.advance(1)
    broker.step()
    assert [code for _, code, _ in results(broker, message, 1)] == [ErrorCode.REQUEST_TIMED_OUT, 42]


def test_what_no_command_can_hold_is_refused(tmp_path):
    huge = [("a", SET, "x" * 32_000), ("b", SET, "x" * 32_000)]
    broker, controller, message = asked(tmp_path, (TOPIC, "a", huge), (TOPIC, "b", []))
    assert controller.take() is None
    found = results(broker, message, 1)
    assert [(name, code) for name, code, _ in found] == [("a", 42), ("b", 42)] and found[0][2]


def test_what_does_not_fit_one_command_takes_several(tmp_path):
    large = [("a", SET, "x" * 25_000)]
    broker, controller, message = asked(tmp_path, (TOPIC, "a", large), (TOPIC, "b", large))
    controller.serve(TopicResults([TopicResult("a")]), TopicResults([TopicResult("b", 40, "no")]))
    assert results(broker, message, 1) == [("a", 0, None), ("b", 40, "no")]


def test_in_a_cluster_topics_and_brokers_are_changed_by_different_requests(tmp_path):
    broker = InProcessBroker(tmp_path, replicated=True)
    message = changing((TOPIC, "a", []), (BROKER, "0", []), (3, "x", []))
    broker.send(message, 1)
    broker.step()
    found = results(broker, message, 1)
    assert [code for _, code, _ in found] == [42, 42, 42] and found[0][2] == found[1][2] != found[2][2]


def test_a_full_table_of_commands_is_a_timeout_at_once(tmp_path, monkeypatch):
    monkeypatch.setattr(ControllerCommands, "send", lambda *_: False)
    broker, _, message = asked(tmp_path, (TOPIC, "a", []))
    assert results(broker, message, 1) == [("a", ErrorCode.REQUEST_TIMED_OUT, None)]
