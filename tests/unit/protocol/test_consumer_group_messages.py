"""ConsumerGroupHeartbeat and ConsumerGroupDescribe as Apache Kafka 4.3.1 writes them: bytes that it sent."""

import pytest

from mpbroker.protocol.codec import decode, encode
from mpbroker.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from mpbroker.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequestTopicPartitions,
    ConsumerGroupHeartbeatResponse,
)

TOPIC_ID = "0654e16294974c76bc354c03aeb525ae"
JOINED = "00000000000000024100000002000001f401020654e16294974c76bc354c03aeb525ae04000000000000000100000002000000"
REFUSED = (
    "0000000000192a4d656d6265722042206973206e6f742061206d656d626572206f662067726f757020676f6c64656e2e0000"
    "00000000000000ff00"
)
DESCRIBED_0 = (
    "000000000200000007676f6c64656e07537461626c65000000020000000208756e69666f726d020241026902720000000206"
    "61646d696e0b2f3132372e302e302e310205676f6c6401020654e16294974c76bc354c03aeb525ae05676f6c640400000000"
    "00000001000000020000020654e16294974c76bc354c03aeb525ae05676f6c64040000000000000001000000020000008000"
    "00000000"
)
DESCRIBED_1 = (
    "000000000200000007676f6c64656e07537461626c65000000020000000208756e69666f726d020241026902720000000206"
    "61646d696e0b2f3132372e302e302e310205676f6c6401020654e16294974c76bc354c03aeb525ae05676f6c640400000000"
    "00000001000000020000020654e16294974c76bc354c03aeb525ae05676f6c64040000000000000001000000020000010080"
    "0000000000"
)


def test_a_heartbeat_is_read_and_written_as_kafka_writes_it():
    data = bytes.fromhex(JOINED)
    found = decode(ConsumerGroupHeartbeatResponse, 1, data)
    assert (found.member_id, found.member_epoch, found.heartbeat_interval_ms) == ("A", 2, 500)
    assert [(row.topic_id.hex(), row.partitions) for row in found.assignment.topic_partitions] == [
        (TOPIC_ID, [0, 1, 2])
    ]
    assert encode(found, 1) == data


def test_no_assignment_is_another_thing_than_an_empty_one():
    data = bytes.fromhex(REFUSED)
    found = decode(ConsumerGroupHeartbeatResponse, 0, data)
    assert (found.error_code, found.error_message) == (25, "Member B is not a member of group golden.")
    assert found.assignment is None and found.member_id is None
    assert encode(found, 0) == data


@pytest.mark.parametrize(("version", "recorded"), [(0, DESCRIBED_0), (1, DESCRIBED_1)])
def test_a_described_group_is_read_and_written_as_kafka_writes_it(version, recorded):
    data = bytes.fromhex(recorded)
    found = decode(ConsumerGroupDescribeResponse, version, data)
    [group] = found.groups
    [member] = group.members
    assert (group.group_state, group.group_epoch, group.assignment_epoch, group.assignor_name) == (
        "Stable",
        2,
        2,
        "uniform",
    )
    assert (member.instance_id, member.rack_id, member.subscribed_topic_names) == ("i", "r", ["gold"])
    assert member.assignment == member.target_assignment
    assert member.member_type == (1 if version else -1)
    assert encode(found, version) == data


def test_requests_say_what_they_say_in_the_versions_that_have_it():
    asked = ConsumerGroupHeartbeatRequest(
        "g", "m", 0, "i", "r", 5, ["t"], "p.*", "range", [ConsumerGroupHeartbeatRequestTopicPartitions(b"i" * 16, [1])]
    )
    assert decode(ConsumerGroupHeartbeatRequest, 1, encode(asked, 1)) == asked
    asked.subscribed_topic_regex = None
    assert decode(ConsumerGroupHeartbeatRequest, 0, encode(asked, 0)) == asked
    wish = ConsumerGroupDescribeRequest(["g"], True)
    assert encode(wish, 0) == encode(wish, 1) == b"\x02\x02g\x01\x00"
