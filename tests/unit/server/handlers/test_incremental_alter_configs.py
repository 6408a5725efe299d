"""IncrementalAlterConfigs: what is refused at once, the command that the controller gets, the order of
the results. The sentences are those of a real Kafka 3.9.2."""

import pytest

from mpbroker.errors import ErrorCode
from mpbroker.metadata.commands import AlterConfigs, ConfigChange, ConfigChanges, TopicResult, TopicResults
from mpbroker.protocol.messages.incremental_alter_configs import (
    IncrementalAlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
)
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
