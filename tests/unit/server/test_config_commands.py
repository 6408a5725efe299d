"""Changes of settings: what is refused before the controller sees it, in Kafka's words, and who is sent the rest."""

from types import SimpleNamespace

import pytest

from mpbroker.config.topic_changes import Operation
from mpbroker.errors import ErrorCode
from mpbroker.metadata.commands import (
    CommandTooLarge,
    ControlAnswer,
    ProducerIds,
    TopicResult,
    TopicResults,
)
from mpbroker.server import config_commands
from mpbroker.server.apis import PARKED
from mpbroker.server.config_commands import (
    BROKER,
    BROKER_LOGGER,
    CLIENT_METRICS,
    GROUP,
    TIMEOUT_MS,
    TOPIC,
    changes_of,
    run_config_command,
)

INVALID, LATE, UNKNOWN = ErrorCode.INVALID_REQUEST, ErrorCode.REQUEST_TIMED_OUT, ErrorCode.UNKNOWN_SERVER_ERROR
SET, DELETE = Operation.SET, Operation.DELETE


@pytest.fixture
def sent(monkeypatch):
    """What was sent to the controller, two resources in a command; `takes`: whether it could be."""
    found = SimpleNamespace(takes=True, calls=[], build=None)

    def in_parts(items, make):
        if any(one.name == "large" for one in items):
            raise CommandTooLarge("the name is too long")
        return [(items[n : n + 2], make(items[n : n + 2])) for n in range(0, len(items), 2)]

    def park(context, request, parts, timeout_ms, build, local):
        found.calls.append(([[one.name for one in part.resources] for part in parts], timeout_ms, local))
        found.commands, found.build = parts, build
        return found.takes

    monkeypatch.setattr(config_commands, "encode_in_parts", in_parts)
    monkeypatch.setattr(config_commands, "park_for_controller", park)
    return found


def run(*resources, replace=False, validate_only=False, cluster=None):
    context = SimpleNamespace(cluster=cluster, node_id=7)
    return run_config_command(context, "request", resources, tuple, replace, validate_only)


def resource(kind, name, *changes):
    return changes_of(kind, name, changes)


def verdict_of(one, **how):
    """Its error code and the sentence, None if it is the controller's to say."""
    found = run(one, **how)
    return None if found is PARKED else tuple(found[0])


@pytest.mark.parametrize(
    ("one", "verdict"),
    [
        (resource(TOPIC, "t"), None),
        (resource(TOPIC, "", ("a", SET, "1")), None),
        (resource(TOPIC, "t", *((str(operation), operation, "1") for operation in Operation)), None),
        (resource(TOPIC, "t", ("a", max(Operation) + 1, "1")), (UNKNOWN, None)),
        (resource(TOPIC, "t", ("a", SET, "1"), ("b", -1, "1")), (UNKNOWN, None)),
        (resource(TOPIC, "t", ("a", SET, "1"), ("a", DELETE, None)), (INVALID, "Error due to duplicate config keys")),
        (
            resource(TOPIC, "t", ("a", SET, None), ("b", DELETE, None), ("c", SET, None)),
            (INVALID, "Null value not supported for : a, c"),
        ),
        (resource(TOPIC, "t", ("b", DELETE, None)), None),
        (resource(GROUP, "g"), None),
        (resource(GROUP, ""), (INVALID, "Default group resources are not allowed.")),
        (resource(GROUP, "g", ("a", 9, "1")), (UNKNOWN, None)),
        (resource(BROKER, ""), None),
        (resource(BROKER, "7", ("a", SET, "1")), None),
        (resource(BROKER, "+7"), None),
        (resource(BROKER, "8"), (INVALID, "Unexpected broker id, expected 7, but received 8")),
        (resource(BROKER, "-7"), (INVALID, "Unexpected broker id, expected 7, but received -7")),
        (resource(BROKER, "seven"), (INVALID, "Node id must be an integer, but it is: seven")),
        (resource(BROKER, "7x"), (INVALID, "Node id must be an integer, but it is: 7x")),
        (resource(BROKER_LOGGER, "7"), (0, None)),
        (
            resource(BROKER_LOGGER, "7", ("kafka", SET, "INFO")),
            (ErrorCode.INVALID_CONFIG, "Logger kafka does not exist!"),
        ),
        (resource(BROKER_LOGGER, "8"), (INVALID, "Unexpected broker id, expected 7, but received 8")),
        (resource(BROKER_LOGGER, ""), (INVALID, "Node id must be an integer, but it is: ")),
        (resource(CLIENT_METRICS, ""), (INVALID, "Subscription name can't be empty")),
        (resource(CLIENT_METRICS, "m"), (0, None)),
        (
            resource(CLIENT_METRICS, "m", ("metrics", SET, "x")),
            (INVALID, "Unknown client metrics configuration: metrics"),
        ),
        (resource(0, "t"), (INVALID, "Unknown resource type 0")),
        (resource(3, "t"), (INVALID, "Unknown resource type 3")),
    ],
)
def test_what_can_be_said_without_the_controller(sent, one, verdict):
    assert verdict_of(one) == verdict
    assert len(sent.calls) == (verdict is None)


@pytest.mark.parametrize(
    ("name", "is_number"), [(2**31 - 1, True), (2**31, False), (-(2**31), True), (-(2**31) - 1, False)]
)
def test_a_brokers_id_is_a_number_of_32_bits(sent, name, is_number):
    code, sentence = verdict_of(resource(BROKER, str(name)))
    assert code == INVALID and sentence.startswith("Unexpected broker id" if is_number else "Node id must be")


def test_levels_of_loggers_cannot_be_replaced_as_a_whole(sent):
    assert verdict_of(resource(BROKER_LOGGER, "7"), replace=True) == (INVALID, "Unknown resource type 8")


def test_a_resource_that_comes_twice_is_refused_and_others_are_not(sent):
    twice = (INVALID, "Each resource must appear at most once.")
    named = [resource(TOPIC, name) for name in ("a", "b", "a")]
    assert run(*named, resource(GROUP, "a")) is PARKED
    assert sent.calls == [([["b", "a"]], TIMEOUT_MS, False)]
    done = TopicResults([TopicResult("b"), TopicResult("a", 40, "no")])
    assert sent.build([done]) == (twice, (0, None), twice, (40, "no"))
    assert run(resource(3, "a"), resource(3, "a")) == (twice, twice) and len(sent.calls) == 1


@pytest.mark.parametrize(("replace", "validate_only"), [(False, True), (True, False)])
def test_a_command_says_what_is_meant(sent, replace, validate_only):
    assert run(resource(TOPIC, "a"), replace=replace, validate_only=validate_only) is PARKED
    [command] = sent.commands
    assert (command.replace, command.validate_only) == (replace, validate_only)


def test_each_part_has_its_results_whatever_became_of_it(sent):
    assert run(*(resource(TOPIC, name) for name in "abc")) is PARKED
    assert sent.calls == [([["a", "b"], ["c"]], TIMEOUT_MS, False)]
    done = TopicResults([TopicResult("a"), TopicResult("b", 40, "no such setting")])
    refused = SimpleNamespace(error_code=ErrorCode.NOT_CONTROLLER, error_message="not here")
    assert sent.build([done, refused]) == ((0, None), (40, "no such setting"), (41, "not here"))
    assert sent.build([None, ProducerIds()]) == ((LATE, None),) * 3
    failed = ControlAnswer(56, b"")
    assert sent.build([failed, failed]) == ((56, None),) * 3


def test_what_fits_into_no_command_is_refused(sent):
    assert run(resource(TOPIC, "large"), resource(TOPIC, "a")) == ((INVALID, "the name is too long"),) * 2


def test_what_could_not_be_sent_is_late(sent):
    sent.takes = False
    assert run(*(resource(TOPIC, name) for name in "abc")) == ((LATE, None),) * 3


def test_in_a_cluster_topics_are_the_controllers_and_the_rest_is_this_brokers(sent):
    """So they cannot be changed by one request; a broker by itself is both."""
    topic, group, broker = resource(TOPIC, "t"), resource(GROUP, "g"), resource(BROKER, "7")
    assert run(topic, cluster="others") is PARKED and run(group, broker, cluster="others") is PARKED
    assert [local for *_, local in sent.calls] == [False, True]
    refused = run(topic, resource(3, "x"), broker, cluster="others")
    words = "In a cluster, settings of topics and of others are changed by requests of their own."
    assert refused == ((INVALID, words), (INVALID, "Unknown resource type 3"), (INVALID, words))
    assert len(sent.calls) == 2 and run(topic, broker) is PARKED
