"""DescribeConfigs: which resources are refused, and how widely."""

import pytest

from mpbroker.errors import ErrorCode
from mpbroker.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource

TOPIC, BROKER, LOGGERS, METRICS = 2, 4, 8, 16


def _describe(peer, *resources: tuple[int, str], keys=("num.io.threads",)):
    asked = [
        DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=list(keys))
        for kind, name in resources
    ]
    return peer.ask(DescribeConfigsRequest(resources=asked), 2).results


@pytest.mark.parametrize("kind", [-1, 0, 1, 3, 5, 64])
def test_a_type_that_does_not_exist_fails_every_resource(peer, kind):
    assert [each.error_code for each in _describe(peer, (kind, "x"), (BROKER, "0"))] == [ErrorCode.INVALID_REQUEST] * 2


@pytest.mark.parametrize("name", ["0", "+0", "-0", "00"])
def test_a_broker_is_named_by_its_number(peer, name):
    broker, loggers = _describe(peer, (BROKER, name), (LOGGERS, name))
    assert (broker.error_code, [each.name for each in broker.configs]) == (0, ["num.io.threads"])
    assert (loggers.error_code, loggers.configs) == (0, [])


@pytest.mark.parametrize(
    ("kind", "name", "sentence"),
    [
        (BROKER, "1", "expected 0 or empty string, but received 1"),
        (BROKER, "x", "must be an integer, but it is: x"),
        (LOGGERS, "1", "expected 0 but received 1"),
        (LOGGERS, "", "must not be empty"),
        (METRICS, "", "must not be empty"),
    ],
)
def test_other_names_are_refused_alone(peer, kind, name, sentence):
    refused, fine = _describe(peer, (kind, name), (BROKER, "0"))
    assert refused.error_code == ErrorCode.INVALID_REQUEST and sentence in refused.error_message
    assert fine.error_code == 0
