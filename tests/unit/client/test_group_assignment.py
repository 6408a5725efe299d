"""Assignments as clients write them, and bytes that are none."""

import struct

import pytest

from mpbroker.client.group_assignment import assigned_partitions


def _assignment(version: int, topics: dict[str, list[int]], user_data: bytes = b"\xff\xff\xff\xff") -> bytes:
    data = struct.pack(">hi", version, len(topics))
    for topic, numbers in topics.items():
        data += (
            struct.pack(">h", len(topic)) + topic.encode() + struct.pack(f">i{len(numbers)}i", len(numbers), *numbers)
        )
    return data + user_data


@pytest.mark.parametrize("version", [0, 1, 3])
def test_every_version_begins_alike(version: int) -> None:
    data = _assignment(version, {"u": [1, 0], "t": [7]}, b"\0\0\0\3abc")
    assert assigned_partitions(data) == [("t", 7), ("u", 0), ("u", 1)]


@pytest.mark.parametrize("data", [b"", b"\0\0", b"\0\0\0\0", b"\0\0\x7f\xff\xff\xff", b"\0\1\0\0\0\1\0\5ab", b"worker"])
def test_bytes_of_other_protocols_assign_nothing(data: bytes) -> None:
    assert assigned_partitions(data) == []


def test_nothing_assigned() -> None:
    assert assigned_partitions(_assignment(0, {})) == []
