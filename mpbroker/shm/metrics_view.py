"""The core segment as the admin process reads it for metrics: topics, partitions, requests by API, fetch sessions.

Read-only, through the supervisor's descriptor like core_view.py, so that looking at a row gives it no memory.
"""

import os
from collections.abc import Iterator

from mpbroker._native import LAYOUT
from mpbroker.shm import layout
from mpbroker.shm.core_view import PARTITIONS_HIGH_OFFSET, TOPICS_HIGH_OFFSET, CoreView
from mpbroker.shm.partition_metrics import PartitionMetrics, read_partitions
from mpbroker.shm.request_metrics import ApiMetrics, read_apis

_CHUNK_ROWS = 1024
_PRODUCERS_HIGH = LAYOUT["header.producers_high"]
_TXN_FIRST, _TXN_STARTED = LAYOUT["producer.txn_first"], LAYOUT["producer.txn_started_ms"]
_SESSION_PARTITIONS = LAYOUT["fetch_session.partitions"]


class MetricsView(CoreView):
    """The core segment of the broker whose supervisor is `pid`; `refresh` before each look."""

    def refresh(self) -> None:
        """Read the header again: how many rows are in use changes."""
        self._header = memoryview(os.pread(self._fd, layout.PAGE_BYTES, 0))

    def topic_names(self) -> dict[int, str]:
        """Topics by the number of their row."""
        rows = range(min(self._number(TOPICS_HIGH_OFFSET), self._regions["topics"].count))
        return {row: name for row in rows if (name := self._topic(row)[0])}

    def partitions(self) -> Iterator[PartitionMetrics]:
        """Every partition, some thousand rows at a time."""
        region = self._regions["partitions"]
        rows = min(self._number(PARTITIONS_HIGH_OFFSET), region.count)
        for first in range(0, rows, _CHUNK_ROWS):
            count = min(_CHUNK_ROWS, rows - first)
            data = os.pread(self._fd, count * region.stride, region.offset + first * region.stride)
            yield from read_partitions(data, self._assignments(first, count))

    def _assignments(self, first: int, count: int) -> bytes:
        """The rows beside those of partitions; none in a broker that is alone."""
        region = self._regions["assignments"]
        if region.count == 0:
            return b""
        return os.pread(self._fd, count * region.stride, region.offset + first * region.stride)

    def oldest_transaction_ms(self) -> int | None:
        """When the oldest of the transactions that are open in any partition was opened, by the wall clock; None:
        there is none. Reads the rows of all producers: to be asked only if a partition says that it has one."""
        region = self._regions["producers"]
        rows, oldest = min(self._number(_PRODUCERS_HIGH), region.count), None
        for first in range(0, rows, _CHUNK_ROWS):
            count = min(_CHUNK_ROWS, rows - first)
            data = os.pread(self._fd, count * region.stride, region.offset + first * region.stride)
            for at in range(0, len(data), region.stride):
                if any(data[at + _TXN_FIRST : at + _TXN_FIRST + 8]):
                    started_ms = int.from_bytes(data[at + _TXN_STARTED : at + _TXN_STARTED + 8], "little")
                    oldest = started_ms if oldest is None else min(oldest, started_ms)
        return oldest

    def apis(self) -> list[ApiMetrics]:
        """Requests by API, of all processors."""
        region, size = self._regions["apis"], layout.API_ROWS * layout.STRIDES["apis"]
        used = [processor for processor, entries in enumerate(self._entries_high()) if entries]
        return read_apis(b"".join(os.pread(self._fd, size, region.offset + processor * size) for processor in used))

    def fetch_sessions(self) -> tuple[int, int]:
        """Sessions, and partitions of all of them."""
        region = self._regions["fetch_sessions"]
        data = os.pread(self._fd, region.count * region.stride, region.offset)
        sizes = [
            int.from_bytes(data[at + _SESSION_PARTITIONS : at + _SESSION_PARTITIONS + 4], "little")
            for at in range(0, len(data), region.stride)
            if any(data[at + 4 : at + 8])  # the id's half of the row's word
        ]
        return len(sizes), sum(sizes)
