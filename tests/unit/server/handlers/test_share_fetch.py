"""ShareFetch: share groups are off."""

import pytest

from mpbroker.protocol.codec import decode, encode
from mpbroker.protocol.messages.share_fetch import (
    ShareAcknowledgementBatch,
    ShareFetchPartition,
    ShareFetchRequest,
    ShareFetchTopic,
)
from tests.harness.in_process_broker import InProcessBroker

MEMBER = "AAAAAAAAAAAAAAAAAAAAAA"
TOPIC_ID = bytes(range(16))
ACKNOWLEDGED = ShareFetchTopic(TOPIC_ID, [ShareFetchPartition(1, [ShareAcknowledgementBatch(3, 5, [1])])])
NO_RECORDS = "00 00000000 0023 00 00000000 01 01 00"


@pytest.mark.parametrize(
    ("message", "version", "expected"),
    [
        (ShareFetchRequest("g", MEMBER, 0, 100, 1, 1000, 10, 10, topics=[ACKNOWLEDGED]), 1, NO_RECORDS),
        (ShareFetchRequest("g", MEMBER, 0, 100, 1, 1000, 10, 10, 1, True), 2, NO_RECORDS),
    ],
)
def test_a_refusal_is_kafkas(tmp_path, message, version, expected):
    """Byte for byte as Apache Kafka 4.3.1 with `share.version` 0 sent it, behind the correlation id."""
    broker = InProcessBroker(tmp_path)
    broker.send(message, version)
    broker.step()
    [(_, _, frame)] = broker.collect()
    assert bytes(frame)[8:] == bytes.fromhex(expected.replace(" ", ""))


def test_acknowledgements_are_read_as_they_are_written():
    written = encode(ShareFetchRequest("g", MEMBER, topics=[ACKNOWLEDGED]), 2)
    topics = "02" + TOPIC_ID.hex() + "02 00000001 02 0000000000000003 0000000000000005 02 01 00 00 00"
    assert bytes.fromhex(topics.replace(" ", "")) in bytes(written)
    assert decode(ShareFetchRequest, 2, written).topics == [ACKNOWLEDGED]
