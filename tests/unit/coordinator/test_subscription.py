"""Which topics the metadata of classic members names: bounded reading of what clients sent."""

import struct

import pytest

from mpbroker.coordinator.subscription import subscribed_topics


def metadata(*names: bytes, version: int = 0, count: int | None = None, rest: bytes = b"\0\0\0\0") -> bytes:
    listed = b"".join(struct.pack(">h", len(name)) + name for name in names)
    return struct.pack(">hi", version, len(names) if count is None else count) + listed + rest


def test_topics_of_all_members_together():
    assert subscribed_topics([]) == frozenset()
    found = subscribed_topics([metadata(b"a", b"b"), metadata(), metadata(b"b", b"", version=3, rest=b"")])
    assert found == {"a", "b", ""}


def test_topics_may_be_as_many_as_there_is_room_for_their_lengths():
    assert subscribed_topics([metadata(*[b""] * 100, rest=b"")]) == {""}


@pytest.mark.parametrize(
    "unreadable",
    [
        b"",
        metadata()[:5],
        metadata(b"a", version=-1),
        metadata(count=-1),
        metadata(b"a", count=9, rest=b""),
        metadata(b"a", count=2, rest=b""),
        metadata(b"abc", rest=b"")[:-1],
        metadata(count=1, rest=b"\xff\xff"),
    ],
    ids=["nothing", "short", "version", "count", "too many", "one too many", "cut", "length"],
)
def test_what_cannot_be_read_makes_the_subscription_unknown(unreadable):
    assert subscribed_topics([metadata(b"a"), unreadable]) is None
