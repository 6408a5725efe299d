"""ShareAcknowledge: share groups are off."""

import pytest

from mpbroker.protocol.messages.share_acknowledge import ShareAcknowledgeRequest
from mpbroker.protocol.messages.share_fetch import (
    ShareAcknowledgementBatch,
    ShareFetchPartition,
    ShareFetchTopic,
)
from tests.harness.in_process_broker import InProcessBroker

MEMBER = "AAAAAAAAAAAAAAAAAAAAAA"
TOPIC_ID = bytes(range(16))
ACKNOWLEDGED = ShareFetchTopic(TOPIC_ID, [ShareFetchPartition(1, [ShareAcknowledgementBatch(3, 5, [1])])])


@pytest.mark.parametrize(
    ("message", "version", "expected"),
    [
        (ShareAcknowledgeRequest("g", MEMBER, 1, topics=[ACKNOWLEDGED]), 1, "00 00000000 0023 00 01 01 00"),
        (ShareAcknowledgeRequest("g", MEMBER, 1, True, [ACKNOWLEDGED]), 2, "00 00000000 0023 00 00000000 01 01 00"),
    ],
)
def test_a_refusal_is_kafkas(tmp_path, message, version, expected):
    """Byte for byte as Apache Kafka 4.3.1 with `share.version` 0 sent it, behind the correlation id."""
    broker = InProcessBroker(tmp_path)
    broker.send(message, version)
    broker.step()
    [(_, _, frame)] = broker.collect()
    assert bytes(frame)[8:] == bytes.fromhex(expected.replace(" ", ""))
