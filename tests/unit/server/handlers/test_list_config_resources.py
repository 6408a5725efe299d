"""ListConfigResources: there are no subscriptions of client metrics, and who asks learns that."""

from mpbroker.protocol.messages.list_config_resources import ListConfigResourcesRequest
from tests.harness.in_process_broker import InProcessBroker


def test_there_are_none(tmp_path):
    answer = InProcessBroker(tmp_path).call(ListConfigResourcesRequest(), 0)
    assert (answer.error_code, answer.config_resources) == (0, [])
