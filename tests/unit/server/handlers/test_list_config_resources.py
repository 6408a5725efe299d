"""ListConfigResources: what has settings of its own. There are no subscriptions of client metrics."""

import pytest

from mpbroker.config.dynamic import DynamicSettings
from mpbroker.protocol.messages.list_config_resources import ListConfigResourcesRequest
from tests.harness.in_process_broker import InProcessBroker


def test_version_0_asks_for_client_metrics(tmp_path):
    answer = InProcessBroker(tmp_path).call(ListConfigResourcesRequest(), 0)
    assert (answer.error_code, answer.config_resources) == (0, [])


@pytest.mark.parametrize(
    ("types", "found"),
    [
        ([], [("g", 32), ("0", 8), ("0", 4), ("t", 2)]),
        ([32], [("g", 32)]),
        ([2, 32], [("g", 32), ("t", 2)]),
        ([16], []),
        ([4], [("0", 4)]),
    ],
)
def test_of_each_type(tmp_path, types, found):
    broker = InProcessBroker(tmp_path)
    broker.create_topic("t", 1)
    broker.handler.context.stored_settings = lambda: DynamicSettings(
        {}, {}, {"g": {"consumer.session.timeout.ms": "50000"}}
    )
    answer = broker.call(ListConfigResourcesRequest(types), 1)
    assert [(one.resource_name, one.resource_type) for one in answer.config_resources] == found


def test_an_unknown_type(tmp_path):
    answer = InProcessBroker(tmp_path).call(ListConfigResourcesRequest([32, 99]), 1)
    assert (answer.error_code, answer.config_resources) == (35, [])
