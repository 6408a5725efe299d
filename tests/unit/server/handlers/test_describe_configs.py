"""DescribeConfigs answers, error sentences included, as a real Kafka 3.9.2 gives them."""

from types import SimpleNamespace

import pytest

from mpbroker.config.load_config import load_broker_config
from mpbroker.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from mpbroker.server.handlers.describe_configs import handle

TOPICS = {"t": SimpleNamespace(overrides={"retention.ms": "5"})}


def describe(kind, name, keys=None, synonyms=True, documentation=False):
    metadata = SimpleNamespace(refresh=lambda: None, topic=TOPICS.get)
    config = load_broker_config(overrides=["node.id=1"], environ={}, cores=2)
    context = SimpleNamespace(config=config, metadata=metadata, node_id=1, shown_config=lambda: config)
    resource = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=keys)
    message = DescribeConfigsRequest(
        resources=[resource], include_synonyms=synonyms, include_documentation=documentation
    )
    (result,) = handle(context, None, message).results
    return result


@pytest.mark.parametrize(
    ("kind", "name", "code", "sentence"),
    [
        (2, "nosuchtopic", 3, ""),
        (2, "", 17, "Topic name is invalid: the empty string is not allowed"),
        (
            2,
            "bad name",
            17,
            "Topic name is invalid: 'bad name' contains one or more characters other than ASCII alphanumerics, "
            "'.', '_' and '-'",
        ),
        (4, "9", 42, "Unexpected broker id, expected 1 or empty string, but received 9"),
        (4, "x", 42, "Broker id must be an integer, but it is: x"),
    ],
)
def test_refusals(kind, name, code, sentence):
    result = describe(kind, name)
    assert (result.error_code, result.error_message, result.configs) == (code, sentence, [])
    assert (result.resource_type, result.resource_name) == (kind, name)


def test_a_topics_override():
    result = describe(2, "t", ["retention.ms", "nosuch"])
    (row,) = result.configs
    assert (result.error_code, result.error_message) == (0, "")
    assert (row.name, row.value, row.config_source, row.read_only, row.is_default, row.is_sensitive) == (
        "retention.ms",
        "5",
        1,
        False,
        False,
        False,
    )
    assert [(s.name, s.value, s.source) for s in row.synonyms] == [("retention.ms", "5", 1)]


def test_no_keys_and_an_empty_list_of_keys_both_mean_all():
    assert len(describe(2, "t").configs) == len(describe(2, "t", []).configs) == 36


def test_synonyms_only_when_asked_for():
    assert describe(2, "t", ["segment.bytes"], synonyms=False).configs[0].synonyms == []
    assert describe(2, "t", ["segment.bytes"]).configs[0].synonyms[0].name == "log.segment.bytes"


def test_the_broker_by_its_number_and_the_unnamed_broker():
    (row,) = describe(4, "1", ["num.io.threads"]).configs
    assert (row.value, row.config_source, row.read_only) == ("2", 5, False)
    assert describe(4, "").configs == []


def test_a_setting_is_explained_to_who_asks():
    plain = describe(2, "t", ["retention.ms"]).configs[0]
    explained = describe(2, "t", ["retention.ms"], documentation=True).configs[0]
    assert (plain.config_type, plain.documentation) == (5, None)
    assert explained.documentation.endswith(".") and len(explained.documentation) > 20


@pytest.mark.parametrize(
    ("kind", "name", "code", "sentence"),
    [
        (8, "", 42, "Broker id must not be empty"),
        (8, "9", 42, "Unexpected broker id, expected 1 but received 9"),
        (8, "1", 0, None),
        (16, "", 42, "Client metrics subscription name must not be empty"),
        (16, "9", 0, None),
    ],
)
def test_of_loggers_and_client_metrics_there_are_none_but_names_are_checked(kind, name, code, sentence):
    found = describe(kind, name)
    assert (found.error_code, found.configs) == (code, []) and (found.error_message or None) == sentence


def test_a_groups_settings_are_those_of_its_name():
    """Whether there is such a group does not matter."""
    found = describe(32, "g", ["consumer.session.timeout.ms", "nosuch"])
    assert (found.error_code, [row.name for row in found.configs]) == (0, ["consumer.session.timeout.ms"])
    refused = describe(32, "")
    assert (refused.error_code, refused.error_message, refused.configs) == (42, "Group name must not be empty", [])


@pytest.mark.parametrize("kind", [0, 1, 3, 33])
def test_an_unknown_type_refuses_the_whole_request(kind):
    asked = [DescribeConfigsResource(resource_type=one, resource_name="t") for one in (2, kind)]
    answer = handle(None, SimpleNamespace(api_version=4), DescribeConfigsRequest(resources=asked))
    assert [(one.error_code, one.resource_type, one.configs) for one in answer.results] == [(42, 2, []), (42, kind, [])]
