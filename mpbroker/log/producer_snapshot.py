"""Producer snapshots: what is known about a partition's idempotent producers at one offset, in Kafka's file format.

Written by the log keeper and at a clean stop, read by recovery, which replays the batches behind it. Only each
producer's last batch is kept, as in Kafka: older duplicates are not recognised over a restart.
"""

from __future__ import annotations

import os
import struct
from typing import NamedTuple

from mpbroker.log import disk
from mpbroker.log.checkpoint_file import replace_durably, replace_whole
from mpbroker.record.checksum import crc32c

VERSION = 1
SUFFIX = ".snapshot"
_HEADER = struct.Struct(">hI")
_COUNT = struct.Struct(">i")
_ENTRY = struct.Struct(">qhiqiqiq")
MAX_BYTES = 256 * 1024 * 1024


class ProducerEntry(NamedTuple):
    """One producer's last batch. Offsets are absolute, times milliseconds since 1970; last sequence and offset are −1
    when a marker raised the epoch since. `coordinator_epoch`: of its last marker; `txn_first`: first offset of its open
    transaction, −1 each: none."""

    producer_id: int
    epoch: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp_ms: int
    coordinator_epoch: int = -1
    txn_first: int = -1

    @property
    def first_sequence(self) -> int:
        """Sequences wrap after 2^31 − 1."""
        return (self.last_sequence - self.offset_delta) % 2**31


def snapshot_path(directory: str, offset: int) -> str:
    return os.path.join(directory, f"{offset:020d}{SUFFIX}")


def write_snapshot(directory: str, offset: int, producers: list[ProducerEntry], *, durable: bool = True) -> None:
    """Everything below `offset` is included. Not `durable`: after a power loss it may be damaged, or not there."""
    body = _COUNT.pack(len(producers)) + b"".join(_ENTRY.pack(*producer) for producer in producers)
    replace = replace_durably if durable else replace_whole
    replace(snapshot_path(directory, offset), _HEADER.pack(VERSION, crc32c(body)) + body)


def read_snapshot(path: str) -> list[ProducerEntry] | None:
    """The entries, or None when the file is damaged: recovery then takes an older one or the log itself."""
    content = disk.read_whole(path, MAX_BYTES)
    if len(content) < _HEADER.size + _COUNT.size:
        return None
    version, checksum = _HEADER.unpack_from(content)
    (count,) = _COUNT.unpack_from(content, _HEADER.size)
    start = _HEADER.size + _COUNT.size
    if version != VERSION or crc32c(content[_HEADER.size :]) != checksum or start + count * _ENTRY.size != len(content):
        return None
    return [ProducerEntry(*_ENTRY.unpack_from(content, start + n * _ENTRY.size)) for n in range(count)]


def snapshot_offsets(directory: str) -> list[int]:
    """Offsets of the snapshots in a partition's directory, ascending."""
    names = (name[: -len(SUFFIX)] for name in disk.files(directory)[0] if name.endswith(SUFFIX))
    return sorted(int(name) for name in names if len(name) == 20 and name.isdecimal())


def newest_snapshot(directory: str, end_offset: int) -> tuple[int, list[ProducerEntry]]:
    """(offset, entries) of the newest sound snapshot at or below `end_offset`; (0, []) when there is none."""
    for offset in reversed(snapshot_offsets(directory)):
        if offset <= end_offset:
            entries = read_snapshot(snapshot_path(directory, offset))
            if entries is not None:
                return offset, entries
    return 0, []


def remove_snapshots(directory: str, keep: set[int]) -> None:
    """Removes all but the given ones."""
    for offset in snapshot_offsets(directory):
        if offset not in keep:
            disk.unlink(snapshot_path(directory, offset))
