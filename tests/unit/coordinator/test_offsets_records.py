"""Kafka's records of `__consumer_offsets`, byte for byte, and the partition of a group."""

import pytest

from mpbroker.coordinator.offsets_records import (
    GroupValue,
    MemberValue,
    OffsetName,
    OffsetValue,
    group_key,
    group_value,
    is_of_consumer_group,
    offset_key,
    offset_value,
    read_group,
    read_key,
    read_offset,
)
from mpbroker.metadata.coordinator_partitions import java_hash, partition_of

MEMBER = MemberValue("m-1", "inst", "cl", "/127.0.0.1", 300_000, 10_000, b"\0\1", b"\2\3")
STABLE = GroupValue("consumer", 5, "range", "m-1", 1_700_000_000_000, [MEMBER])


@pytest.mark.parametrize(
    ("group", "partition"), [("g", 3), ("my-group", 12), ("polygenelubricants", 0), ("", 0), ("größe-🦆", 30)]
)
def test_partition_of_a_group(group, partition):
    """Computed by Java: Math.abs(id.hashCode()) % 50, the smallest integer as 0."""
    assert partition_of(group, 50) == partition


def test_java_hash():
    assert java_hash("polygenelubricants") == -(2**31)
    assert java_hash("my-group") < 0 and java_hash("") == 0
    assert java_hash("🦆") == 0xD83E * 31 + 0xDD86, "over UTF-16, not over code points"


def test_keys():
    assert offset_key("g", "t", 3).hex() == "000100016700017400000003"
    assert group_key("g").hex() == "0002000167"
    assert read_key(offset_key("g", "t", 3)) == OffsetName("g", "t", 3)
    assert read_key(b"\0\0" + offset_key("g", "t", 3)[2:]) == OffsetName("g", "t", 3), "key 0 is read like 1"
    assert read_key(group_key("g")) == "g"


@pytest.mark.parametrize("key", [b"", b"\0", b"\0\1", b"\0\3\0\1g", b"\x7f\xff\0\1g", b"\xff\xff", b"\0\2\0\5g"])
def test_other_keys_are_skipped(key):
    assert read_key(key) is None


def test_an_offset_is_written_in_version_3():
    value = OffsetValue(42, 7, "words", 1_700_000_000_000)
    assert offset_value(value).hex() == "0003000000000000002a000000070005" + b"words".hex() + "0000018bcfe56800"
    assert read_offset(offset_value(value)) == value


def test_an_offset_with_an_expiry_is_written_in_version_1_as_kafka_does():
    value = OffsetValue(42, -1, "", 1000, 2000)
    assert offset_value(value).hex() == "0001000000000000002a000000000000000003e800000000000007d0"
    assert read_offset(offset_value(value)) == value


@pytest.mark.parametrize(
    ("data", "value"),
    [
        ("0000000000000000002a0001610000000000000001", OffsetValue(42, -1, "a", 1)),
        ("0002000000000000002a0001610000000000000001", OffsetValue(42, -1, "a", 1)),
        ("0004000000000000002a000000070261000000000000000100", OffsetValue(42, 7, "a", 1)),
        (
            "0004000000000000002a0000000702610000000000000001010010" + "11" * 16,
            OffsetValue(42, 7, "a", 1, -1, b"\x11" * 16),
        ),
    ],
)
def test_offsets_of_other_versions(data, value):
    assert read_offset(bytes.fromhex(data)) == value


@pytest.mark.parametrize("value", [b"", b"\0", b"\0\5" + bytes(60), b"\xff\xff" + bytes(60), b"\0\3\0"])
def test_values_that_cannot_be_read(value):
    assert read_offset(value) is None
    assert read_group(value) is None


def test_a_stable_group_is_written_in_version_3():
    expected = (
        "0003" "0008" + b"consumer".hex() + "00000005" "0005" + b"range".hex() + "0003" + b"m-1".hex()
        + "0000018bcfe56800" "00000001" "0003" + b"m-1".hex() + "0004" + b"inst".hex() + "0002" + b"cl".hex()
        + "000a" + b"/127.0.0.1".hex() + "000493e0" "00002710" "00000002" "0001" "00000002" "0203"
    )  # fmt: skip
    assert group_value(STABLE).hex() == expected
    assert read_group(group_value(STABLE)) == STABLE


def test_an_empty_group():
    empty = GroupValue("consumer", 6, None, None, 1000, [])
    assert group_value(empty).hex() == "00030008" + b"consumer".hex() + "00000006ffffffff00000000000003e800000000"
    assert read_group(group_value(empty)) == empty


def test_groups_of_older_versions_have_less():
    head = "0008" + b"consumer".hex() + "000000050005" + b"range".hex() + "0003" + b"m-1".hex()
    member = "0003" + b"m-1".hex() + "0002" + b"cl".hex() + "0002" + b"/h".hex()
    rest = "0000271000000001000000000101"
    first = read_group(bytes.fromhex("0000" + head + "00000001" + member + rest))
    assert first == GroupValue(
        "consumer", 5, "range", "m-1", -1, [MemberValue("m-1", None, "cl", "/h", -1, 10_000, b"\0", b"\1")]
    )
    second = read_group(bytes.fromhex("0002" + head + "000000000000000900000001" + member + "00000064" + rest))
    assert (second.current_state_timestamp, second.members[0].rebalance_timeout) == (9, 100)


@pytest.mark.parametrize(
    ("key", "found"), [(b"", False), (b"\0", False), (b"\0\2", False), (b"\0\3", True), (b"\0\3x", True)]
)
def test_the_kind_alone_says_whose_key_it_is(key, found):
    assert is_of_consumer_group(key) is found
