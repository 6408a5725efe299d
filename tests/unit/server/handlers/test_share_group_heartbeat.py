"""ShareGroupHeartbeat: share groups are off."""

import pytest

from mpbroker.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from tests.harness.in_process_broker import InProcessBroker

MEMBER = "AAAAAAAAAAAAAAAAAAAAAA"


@pytest.mark.parametrize(
    ("message", "version", "expected"),
    [
        (ShareGroupHeartbeatRequest("g", MEMBER, 0, None, ["t"]), 1, "00 00000000 0023 00 00 00000000 00000000 ff 00"),
        (ShareGroupHeartbeatRequest("", MEMBER, 0, None, ["t"]), 1, "00 00000000 0023 00 00 00000000 00000000 ff 00"),
    ],
)
def test_a_refusal_is_kafkas(tmp_path, message, version, expected):
    """Byte for byte as Apache Kafka 4.3.1 with `share.version` 0 sent it, behind the correlation id."""
    broker = InProcessBroker(tmp_path)
    broker.send(message, version)
    broker.step()
    [(_, _, frame)] = broker.collect()
    assert bytes(frame)[8:] == bytes.fromhex(expected.replace(" ", ""))
