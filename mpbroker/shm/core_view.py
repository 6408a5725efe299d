"""The core segment as seen from outside: topics, sizes of their logs, and who holds how many requests; read-only.

Used by `status`; the broker is not asked. The supervisor keeps the segment's descriptor, and this reads it under
/proc/PID/fd with pread: rows that nobody ever wrote are neither mapped nor given memory by being looked at.
"""

import os
import struct
from collections import Counter
from typing import Final, NamedTuple

from mpbroker.errors import MpbrokerError
from mpbroker.shm import layout, memfd
from mpbroker.shm.layout import PARTITION_EXISTS, PARTITION_ONLINE, TOPIC_EXISTS, Region
from mpbroker.shm.segment import CORE_MEMFD

CLAIMED: Final = 3

TOPICS_HIGH_OFFSET, PARTITIONS_HIGH_OFFSET = 1080, 1084
TOPIC_COPY_OFFSET, TOPIC_COPY_BYTES = 64, 3888
PARTITION_COPY_OFFSET, PARTITION_COPY_BYTES, LOG_BYTES_OFFSET, SELECTOR_OFFSET = 256, 192, 104, 192
ENTRIES_HIGH_OFFSET: Final = 43656

_TOPIC: Final = struct.Struct(
    "<16sIIIIIIQ256s"
)  # id, partitions, flags, first ordinal, name length, -, -, version, name
_ENTRIES_HIGH: Final = struct.Struct("<I60x")  # a line for each processor
_SELECTOR: Final = struct.Struct("<Q")
_PARTITION_WHO: Final = struct.Struct("<II")  # flags, topic row
_CHUNK_ROWS: Final = 1024


class TopicSize(NamedTuple):
    """A topic with what its partitions hold. `offline`: partitions whose log directory failed."""

    name: str
    partitions: int
    log_bytes: int
    offline: int


class CoreError(MpbrokerError):
    """There is no core segment to read."""


class CoreView:
    """The core segment of the broker whose supervisor is `pid`. PermissionError when it is another user's."""

    def __init__(self, pid: int) -> None:
        path = memfd.find(pid, CORE_MEMFD)
        if path is None:
            raise CoreError(f"process {pid} holds no shared memory of mpbroker")
        try:
            self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            raise CoreError(f"process {pid} has just ended") from None
        try:
            self._header = memoryview(os.pread(self._fd, layout.PAGE_BYTES, 0))
            self._regions = self._read_regions()
        except BaseException:
            os.close(self._fd)
            raise

    def _read_regions(self) -> dict[str, Region]:
        # Memory has its name before it has its size, and its size before its header: at a start, and at each reset.
        if len(self._header) < layout.PAGE_BYTES or not any(self._header[: layout.MAGIC_BYTES]):
            raise CoreError("the core segment is just being made")
        magic, version, count = layout.HEADER.unpack_from(self._header)[:3]
        if (magic, version) != (layout.MAGIC_CORE, layout.VERSION):
            raise CoreError(f"the core segment has layout {version}; this program reads {layout.VERSION}")
        rows = (
            layout.REGION.unpack_from(self._header, layout.REGIONS_OFFSET + i * layout.REGION.size)
            for i in range(min(count, 24))
        )
        return {name.rstrip(b"\0").decode(): Region(name.rstrip(b"\0").decode(), *where) for name, *where in rows}

    def close(self) -> None:
        """Let the descriptor go."""
        os.close(self._fd)

    def topics(self) -> list[TopicSize]:
        """Every topic with its partitions, in the order of their names."""
        sizes: dict[int, list[int]] = {}  # topic row → log bytes, offline partitions
        for flags, row, log_bytes in self._partitions():
            if flags & PARTITION_EXISTS:
                one = sizes.setdefault(row, [0, 0])
                one[0] += log_bytes
                one[1] += not flags & PARTITION_ONLINE
        found = []
        for row in range(min(self._number(TOPICS_HIGH_OFFSET), self._regions["topics"].count)):
            name, partitions = self._topic(row)
            if name:
                found.append(TopicSize(name, partitions, *sizes.get(row, [0, 0])))
        return sorted(found)

    def held_requests(self) -> Counter[int]:
        """Requests by the slot of the handler that executes or has parked them."""
        region, held = self._regions["entries"], Counter[int]()
        per_processor = layout.HEADER.unpack_from(self._header)[10]
        form = struct.Struct(f"<Q{region.stride - 8}x")
        for processor, used in enumerate(self._entries_high()):
            rows = min(used, per_processor)
            data = os.pread(self._fd, rows * region.stride, region.offset + processor * per_processor * region.stride)
            held.update(word & 0xFFFFFF for (word,) in form.iter_unpack(data) if word >> 24 & 0xFF == CLAIMED)
        return held

    def _entries_high(self) -> list[int]:
        """How many entries each processor ever used."""
        processors = layout.HEADER.unpack_from(self._header)[8]
        marks = self._regions["doorbells"].offset + ENTRIES_HIGH_OFFSET
        high = os.pread(self._fd, _ENTRIES_HIGH.size * processors, marks)
        return [used for (used,) in _ENTRIES_HIGH.iter_unpack(high)]

    def _number(self, offset: int) -> int:
        return int.from_bytes(self._header[offset : offset + 4], "little")

    def _topic(self, row: int) -> tuple[str, int]:
        """Name and number of partitions; an empty name when there is no topic in the row."""
        at = self._regions["topics"].offset + row * self._regions["topics"].stride
        (selector,) = _SELECTOR.unpack(os.pread(self._fd, _SELECTOR.size, at))
        copy = os.pread(self._fd, _TOPIC.size, at + TOPIC_COPY_OFFSET + (selector & 1) * TOPIC_COPY_BYTES)
        _, partitions, flags, _, length, _, _, _, name = _TOPIC.unpack(copy)
        return (name[:length].decode(errors="replace"), partitions) if flags & TOPIC_EXISTS else ("", 0)

    def _partitions(self) -> list[tuple[int, int, int]]:
        """(flags, topic row, log bytes) of every row that was ever used."""
        region = self._regions["partitions"]
        rows = min(self._number(PARTITIONS_HIGH_OFFSET), region.count)
        found = []
        for first in range(0, rows, _CHUNK_ROWS):
            count = min(_CHUNK_ROWS, rows - first)
            data = os.pread(self._fd, count * region.stride, region.offset + first * region.stride)
            for base in range(0, len(data), region.stride):
                flags, topic_row = _PARTITION_WHO.unpack_from(data, base)
                (selector,) = _SELECTOR.unpack_from(data, base + SELECTOR_OFFSET)
                at = base + PARTITION_COPY_OFFSET + (selector & 1) * PARTITION_COPY_BYTES + LOG_BYTES_OFFSET
                found.append((flags, topic_row, int.from_bytes(data[at : at + 8], "little")))
        return found
