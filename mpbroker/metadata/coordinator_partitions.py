"""Which partition of an internal topic holds a group or a transactional id: its leader coordinates it. Pure."""

import struct


def java_hash(text: str) -> int:
    """Java's String.hashCode: over UTF-16 units, with 32 bits and a sign."""
    found = 0
    for (unit,) in struct.iter_unpack(">H", text.encode("utf-16-be", "surrogatepass")):
        found = (31 * found + unit) & 0xFFFFFFFF
    return found - (1 << 32) if found >= 1 << 31 else found


def partition_of(group: str, partitions: int) -> int:
    """The partition of `__consumer_offsets` that holds a group; not the masked hash that partitions of keys use."""
    found = java_hash(group)
    return 0 if found == -(1 << 31) else abs(found) % partitions
