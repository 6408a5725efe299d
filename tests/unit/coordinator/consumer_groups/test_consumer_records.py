"""Records of the next-generation protocol as Kafka 4.3.1 writes them (its own classes wrote these bytes): each value's
fields when nothing is said, and its bytes."""

import msgspec
import pytest

from mpbroker.coordinator.consumer_groups import consumer_records
from mpbroker.coordinator.consumer_groups.consumer_member import ClassicMetadata, ConsumerMember
from mpbroker.coordinator.consumer_groups.consumer_records import (
    ClassicMemberValue,
    ClassicMetadataValue,
    ClassicProtocolValue,
    CurrentPartitions,
    CurrentValue,
    GroupEpochValue,
    NoClassicMetadata,
    PatternValue,
    PlainMemberValue,
    TargetEpochValue,
    TargetPartitions,
    TargetValue,
    member_value,
    read_member,
    with_member,
)
from mpbroker.protocol.codec import decode, encode

ID = bytes(range(16))
NOBODY = {
    "instance_id": None,
    "rack_id": None,
    "client_id": "",
    "client_host": "",
    "subscribed_topic_names": [],
    "subscribed_topic_regex": None,
    "rebalance_timeout_ms": -1,
    "server_assignor": None,
}
NOTHING = {
    GroupEpochValue: ({"epoch": 0, "metadata_hash": 0}, "00000000 00"),
    PlainMemberValue: (NOBODY | {"classic": None}, "00 00 01 01 01 00 ffffffff 00 00"),
    ClassicMemberValue: (NOBODY | {"classic": None}, "00 00 01 01 01 00 ffffffff 00 00"),
    TargetEpochValue: ({"assignment_epoch": 0, "assignment_timestamp": 0}, "00000000 00"),
    TargetValue: ({"topic_partitions": []}, "01 00"),
    CurrentValue: (
        {
            "member_epoch": 0,
            "previous_member_epoch": 0,
            "state": 0,
            "assigned_partitions": [],
            "partitions_pending_revocation": [],
        },
        "00000000 00000000 00 01 01 00",
    ),
    PatternValue: ({"topics": [], "version": 0, "timestamp": 0}, "01 0000000000000000 0000000000000000 00"),
}
SOMETHING = [
    (GroupEpochValue(5, 7), "00000005 01 00 08 0000000000000007"),
    (GroupEpochValue(epoch=5, metadata_hash=0), "00000005 00"),
    (TargetEpochValue(5, 7), "00000005 01 00 08 0000000000000007"),
    (TargetValue([TargetPartitions(ID, [1])]), f"02 {ID.hex()} 02 00000001 00 00"),
    (
        CurrentValue(2, 1, 1, [CurrentPartitions(ID, [1], [9])], [CurrentPartitions(ID, [])]),
        f"00000002 00000001 01 02 {ID.hex()} 02 00000001 01 00 05 02 00000009 02 {ID.hex()} 01 00 00",
    ),
    (PlainMemberValue(classic=NoClassicMetadata()), "00 00 01 01 01 00 ffffffff 00 01 00 01 00"),
    (
        ClassicMemberValue(classic=ClassicMetadataValue(1, 45_000, [ClassicProtocolValue("range", b"m")])),
        "00 00 01 01 01 00 ffffffff 00 01 00 10 01 0000afc8 02 06 72616e6765 02 6d 00 00",
    ),
]


@pytest.mark.parametrize(("kind", "fields", "stored"), [(kind, *rest) for kind, rest in NOTHING.items()])
def test_what_a_value_says_of_nothing(kind, fields, stored):
    assert msgspec.structs.asdict(kind()) == fields
    assert encode(kind(), 0).hex() == stored.replace(" ", "")
    assert msgspec.structs.asdict(decode(kind, 0, bytes.fromhex(stored))) == fields


@pytest.mark.parametrize(("value", "stored"), SOMETHING)
def test_what_a_value_says(value, stored):
    assert encode(value, 0).hex(" ") == bytes.fromhex(stored).hex(" ")
    assert decode(type(value), 0, bytes.fromhex(stored)) == value


def test_every_value_is_in_the_table():
    values = {name for name in vars(consumer_records) if name.endswith("Value")}
    parts = {"ClassicMetadataValue", "ClassicProtocolValue", "MemberValue"}
    assert {kind.__name__ for kind in NOTHING} == values - parts


@pytest.mark.parametrize("classic", [None, ClassicMetadata(45_000, (("range", b"m"), ("sticky", b"")))])
def test_a_member_is_what_it_was_and_kafka_knows_its_protocol(classic):
    member = ConsumerMember("m", topics=("a", "b"), client_id="c", client_host="/h", classic=classic)
    stored = member_value(member)
    assert stored.endswith(bytes((1, 0, 1, 0))) is (classic is None)
    assert with_member(ConsumerMember("m"), read_member(stored)).classic == classic
    assert read_member(stored[:-1]) is None and read_member(b"\0\1" + stored[2:]) is None


def test_partitions_without_epochs_are_owned_since_the_members_own():
    """As Kafka before 4.3 wrote them."""
    topic = bytes(15) + b"t"
    rows = [CurrentPartitions(topic, [3, 1]), CurrentPartitions(bytes(16), [7, 8], [2, 5])]
    value = consumer_records._owned(rows, 9)
    assert value == {topic: {3: 9, 1: 9}, bytes(16): {7: 2, 8: 5}}
    assert consumer_records._owned([CurrentPartitions(topic, [3, 1], [4])], 9) == {topic: {3: 9, 1: 9}}
