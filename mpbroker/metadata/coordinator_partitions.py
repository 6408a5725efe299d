"""Which partition of an internal topic holds a group or a transactional id: its leader coordinates it. Pure."""

import struct
from functools import lru_cache
from typing import Final

#: Ids that are not longer are remembered, so many of them: each request of a member asks some times for the same one.
CACHED_LENGTH: Final = 128
CACHED_IDS: Final = 4096


def java_hash(text: str) -> int:
    """Java's String.hashCode: over UTF-16 units, with 32 bits and a sign."""
    found = 0
    for (unit,) in struct.iter_unpack(">H", text.encode("utf-16-be", "surrogatepass")):
        found = (31 * found + unit) & 0xFFFFFFFF
    return found - (1 << 32) if found >= 1 << 31 else found


def partition_of(group: str, partitions: int) -> int:
    """The partition of `__consumer_offsets` that holds a group; not the masked hash that partitions of keys use."""
    return (_remembered if len(group) <= CACHED_LENGTH else _partition_of)(group, partitions)


def _partition_of(group: str, partitions: int) -> int:
    found = java_hash(group)
    return 0 if found == -(1 << 31) else abs(found) % partitions


_remembered = lru_cache(CACHED_IDS)(_partition_of)
