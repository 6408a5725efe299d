"""The core segment as the admin process reads it for metrics: topics, partitions and requests by API.

Read-only, through the supervisor's descriptor like core_view.py, so that looking at a row gives it no memory.
"""

import os
from collections.abc import Iterator

from mpbroker.shm import layout
from mpbroker.shm.core_view import PARTITIONS_HIGH_OFFSET, TOPICS_HIGH_OFFSET, CoreView
from mpbroker.shm.partition_metrics import PartitionMetrics, read_partitions
from mpbroker.shm.request_metrics import ApiMetrics, read_apis

_CHUNK_ROWS = 1024


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
            yield from read_partitions(os.pread(self._fd, count * region.stride, region.offset + first * region.stride))

    def apis(self) -> list[ApiMetrics]:
        """Requests by API, of all processors."""
        region = self._regions["apis"]
        return read_apis(os.pread(self._fd, region.count * region.stride, region.offset))
