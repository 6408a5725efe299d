"""DeleteTopics while deleting is switched off, as Kafka 3.9.2 with delete.topic.enable=false answers it."""

import pytest

from mpbroker.protocol.messages.delete_topics import DeleteTopicsRequest
from tests.harness.in_process_broker import InProcessBroker


@pytest.mark.parametrize(("version", "code"), [(0, 42), (1, 42), (2, 42), (3, 73)])
def test_every_name_is_refused(tmp_path, version, code):
    broker = InProcessBroker(tmp_path, **{"delete.topic.enable": "false"})
    broker.create_topic("orders")
    names = ["orders", "nope", "orders"]
    answer = broker.call(DeleteTopicsRequest(topic_names=names, timeout_ms=1000), version)
    assert [(response.name, response.error_code) for response in answer.responses] == [(name, code) for name in names]
