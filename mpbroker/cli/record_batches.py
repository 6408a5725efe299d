"""Groups records into batches for partitions, bounded by count and size. Runs in the process of `produce`; no clock."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mpbroker.cli.record_input import Item
from mpbroker.client.partitioner import partition_of
from mpbroker.client.producer import Outgoing
from mpbroker.errors import ConfigError

BATCH_RECORDS, BATCH_BYTES = 500, 256 * 1024
#: Of all partitions together; then every batch goes out.
MAX_HELD_BYTES = 16 * 1024 * 1024

Batch = tuple[int, list[Outgoing]]


class Batches:
    """Batches under way. A record goes to the partition it names, else to `partition`, else by its key, else to the
    partition whose turn it is: a batch each."""

    def __init__(self, partitions: int, partition: int | None = None) -> None:
        self._partitions = partitions
        self._partition = partition
        self._turn = 0
        self._open: dict[int, list[Outgoing]] = {}
        self._bytes: dict[int, int] = {}
        self._held_bytes = 0

    def add(self, item: Item) -> Sequence[Batch]:
        """Takes a record; returns the batches that have to go out before it."""
        key, value, _, _ = item.record
        size = (len(value) if value else 0) + (len(key) if key else 0)
        number = self._place(item)
        batch = self._open.get(number)
        if batch is None or len(batch) >= BATCH_RECORDS or self._bytes[number] + size > BATCH_BYTES:
            return self._begin(item, size, [] if batch is None else [self._take(number)])
        if self._held_bytes + size > MAX_HELD_BYTES:
            return self._begin(item, size, [])
        batch.append(item.record)
        self._bytes[number] += size
        self._held_bytes += size
        return ()

    def _begin(self, item: Item, size: int, full: list[Batch]) -> list[Batch]:
        """Begins a batch with a record, or adds it to that of the next partition; what has to go out, `full` first."""
        if self._held_bytes + size > MAX_HELD_BYTES:
            full.extend(self.rest())
        number = self._place(item)
        self._open.setdefault(number, []).append(item.record)
        self._bytes[number] = self._bytes.get(number, 0) + size
        self._held_bytes += size
        return full

    def rest(self) -> Iterator[Batch]:
        """All that is held."""
        for number in list(self._open):
            yield self._take(number)

    def _place(self, item: Item) -> int:
        named = item.partition if item.partition is not None else self._partition
        if named is not None:
            if not 0 <= named < self._partitions:
                raise ConfigError("partition", named, f"0 to {self._partitions - 1}")
            return named
        if item.record.key is not None:
            return partition_of(item.record.key, self._partitions)
        return self._turn

    def _take(self, number: int) -> Batch:
        if number == self._turn:
            self._turn = (self._turn + 1) % self._partitions
        self._held_bytes -= self._bytes.pop(number)
        return number, self._open.pop(number)
