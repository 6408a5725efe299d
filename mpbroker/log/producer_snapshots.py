"""Snapshots of producer state on disk. A job of the log keeper.

A snapshot is taken when a log has rolled, and now and then when records came in; the two newest stay. It is not synced:
one that a power loss damaged fails its checksum, and recovery takes the older one or reads the log.
"""

from typing import Final

from mpbroker._native import PartitionState
from mpbroker.log.keeper_context import KeeperContext, PartitionRound
from mpbroker.log.kept_partitions import KeptPartition
from mpbroker.log.producer_snapshot import ProducerEntry, remove_snapshots, snapshot_offsets, write_snapshot

SNAPSHOT_INTERVAL_MS: Final = 120_000
KEPT: Final = 2
Key = tuple[bytes, int]


class ProducerSnapshots:
    """`look`: call it when a log moved. `do_work` makes the rounds."""

    def __init__(self, keeper: KeeperContext) -> None:
        self._keeper = keeper
        self._round = PartitionRound(keeper.clock, keeper.partitions, SNAPSHOT_INTERVAL_MS, keeper.first_delay_ms)
        self._offsets: dict[Key, int] = {}  # of the newest snapshot
        self._truncations: dict[Key, int] = {}

    def do_work(self) -> None:
        """One turn: snapshots of the next partitions that have producers and new records."""
        for partition in self._round.take():
            if not self.take(partition, even_empty=False) and self._keeper.is_busy(partition):
                self._round.again(partition)

    def remaining_ms(self) -> int:
        """Until the next round, 0 within one."""
        return self._round.remaining_ms()

    def look(self, partition: KeptPartition) -> None:
        """Take a snapshot if the log rolled since the newest one."""
        state = self._keeper.state(partition)
        if state is not None and state.active_base > max(self._newest(partition, state), 0):
            self.take(partition, even_empty=True)

    def take(self, partition: KeptPartition, *, even_empty: bool) -> bool:
        """Write a snapshot unless nothing came since the newest; False if one could not be written."""
        keeper = self._keeper
        state = keeper.state(partition)
        if state is None or state.leo <= max(self._newest(partition, state), 0):
            return state is not None
        try:
            offset, rows = keeper.log.producer_entries(partition.ordinal)
        except RuntimeError:
            return False
        entries = [ProducerEntry(*row) for row in rows]
        if not (entries or even_empty) or keeper.state(partition) is None:
            return True
        return self._write(partition, offset, entries)

    def forget(self, living: set[Key]) -> None:
        """Drop what is remembered of partitions that are gone."""
        for table in (self._offsets, self._truncations):
            for key in [key for key in table if key not in living]:
                del table[key]

    def _write(self, partition: KeptPartition, offset: int, entries: list[ProducerEntry]) -> bool:
        directory = self._keeper.directory(partition)
        try:
            write_snapshot(directory, offset, entries, durable=False)
            self._keeper.crash_point("keeper.snapshot.written")
            remove_snapshots(directory, set(snapshot_offsets(directory)[-KEPT:]))
        except OSError as error:
            self._keeper.io_failed("snapshot_not_written", error, partition=partition.dir)
            return False
        self._offsets[partition.topic_id, partition.partition] = offset
        self._keeper.count("producer_snapshots")
        return True

    def _newest(self, partition: KeptPartition, state: PartitionState) -> int:
        """Offset of the newest snapshot, -1 for none. Those of a time before a truncation are taken away."""
        key = partition.topic_id, partition.partition
        if self._truncations.get(key, state.truncations) != state.truncations:
            self._remove_all(partition)
            self._offsets[key] = -1
        self._truncations[key] = state.truncations
        if key not in self._offsets:
            self._offsets[key] = self._find(partition)
        return self._offsets[key]

    def _find(self, partition: KeptPartition) -> int:
        try:
            return max(snapshot_offsets(self._keeper.directory(partition)), default=-1)
        except OSError:
            return -1

    def _remove_all(self, partition: KeptPartition) -> None:
        """A truncated log may have grown again over what was cut: only a new snapshot speaks for it."""
        try:
            remove_snapshots(self._keeper.directory(partition), set())
        except OSError as error:
            self._keeper.io_failed("snapshot_not_removed", error, partition=partition.dir)
