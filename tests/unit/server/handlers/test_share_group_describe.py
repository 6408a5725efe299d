"""ShareGroupDescribe: share groups are off, each of those asked for."""

import pytest

from mpbroker.protocol.messages.share_group_describe import ShareGroupDescribeRequest
from tests.harness.in_process_broker import InProcessBroker

OF_ONE = "00000000 00000000 01 01 80000000 00"


@pytest.mark.parametrize(
    ("message", "version", "expected"),
    [
        (
            ShareGroupDescribeRequest(["g", "h"]),
            1,
            f"00 00000000 03 0023 00 0267 01 {OF_ONE} 0023 00 0268 01 {OF_ONE} 00",
        ),
    ],
)
def test_a_refusal_is_kafkas(tmp_path, message, version, expected):
    """Byte for byte as Apache Kafka 4.3.1 with `share.version` 0 sent it, behind the correlation id."""
    broker = InProcessBroker(tmp_path)
    broker.send(message, version)
    broker.step()
    [(_, _, frame)] = broker.collect()
    assert bytes(frame)[8:] == bytes.fromhex(expected.replace(" ", ""))
