"""What partition rows say for metrics: offsets, sizes, and what went in and out since the broker started; read through
a CoreView, by the admin process. The rows belong to whoever holds a partition's lock; a reader may see one change late.
"""

import struct
from typing import Final, NamedTuple

from mpbroker._native import LAYOUT
from mpbroker.shm.layout import PARTITION_EXISTS, PARTITION_ONLINE, STRIDES

_WHO: Final = struct.Struct("<III")  # flags, topic row, partition
_SELECTOR: Final = struct.Struct("<Q")
_ENDS: Final = struct.Struct("<qqqq")  # log start, log end, high watermark, last stable offset
_COPY, _COPY_BYTES = LAYOUT["partition.copy"], LAYOUT["partition_copy"]
_ASSIGNED, _ASSIGNED_BYTES = LAYOUT["assignment.copy"], LAYOUT["assignment_copy"]
_REPLICA_COUNT = LAYOUT["assignment_copy.replica_count"]


class PartitionMetrics(NamedTuple):
    """One partition. Bytes and records in, and bytes read, are counted from the start of the broker on. `role` as in
    layout.ReplicaRole; `in_sync` replicas, of a leader only, of so many `replicas`."""

    topic_row: int
    partition: int
    online: bool
    log_start: int
    log_end: int
    high_watermark: int
    log_bytes: int
    segments: int
    bytes_in: int
    records_in: int
    bytes_read: int
    last_stable: int = 0
    open_transactions: int = 0
    role: int = 0
    in_sync: int = 1
    min_isr: int = 1
    replicas: int = 1


def read_partitions(data: bytes, assignments: bytes = b"") -> list[PartitionMetrics]:
    """Every partition in a piece of the `partitions` region, in the order of its rows. `assignments`: the same rows of
    that region; empty in a broker that is alone."""
    stride = STRIDES["partitions"]
    rows = ((at // stride, _read_row(data, at)) for at in range(0, len(data) - stride + 1, stride))
    found = ((number, row) for number, row in rows if row is not None)
    if not assignments:
        return [row._replace(in_sync=1, min_isr=1) for _, row in found]
    return [row._replace(replicas=_replicas(assignments, number)) for number, row in found]


def _replicas(assignments: bytes, number: int) -> int:
    at = number * STRIDES["assignments"]
    (selector,) = _SELECTOR.unpack_from(assignments, at)
    copy: int = at + _ASSIGNED + (selector & 1) * _ASSIGNED_BYTES
    return assignments[copy + _REPLICA_COUNT]


def _read_row(data: bytes, at: int) -> PartitionMetrics | None:
    flags, topic_row, partition = _WHO.unpack_from(data, at)
    if not flags & PARTITION_EXISTS:
        return None
    (selector,) = _SELECTOR.unpack_from(data, at + LAYOUT["partition.selector"])
    copy = at + _COPY + (selector & 1) * _COPY_BYTES

    def of_copy(field: str, size: int = 8) -> int:
        where = copy + LAYOUT[f"partition_copy.{field}"]
        return int.from_bytes(data[where : where + size], "little")

    bytes_read = at + LAYOUT["partition.bytes_read"]
    log_start, log_end, high_watermark, last_stable = _ENDS.unpack_from(data, copy)
    return PartitionMetrics(
        topic_row,
        partition,
        bool(flags & PARTITION_ONLINE),
        log_start,
        log_end,
        high_watermark,
        of_copy("log_bytes"),
        of_copy("segment_count", 4),
        of_copy("bytes_in"),
        of_copy("records_in"),
        int.from_bytes(data[bytes_read : bytes_read + 8], "little"),
        last_stable,
        of_copy("open_transactions", 4),
        of_copy("role", 1),
        of_copy("isr", 2).bit_count(),
        of_copy("min_isr", 1),
    )
