"""Retention: old segments are taken out of the log by age, size and log start. A job of the log keeper.

The native part moves the log start under the partition's lock and renames the files to `.deleted`; they are unlinked
`file.delete.delay.ms` later (segment_deletion), so that readers with open descriptors can finish.
"""

from collections.abc import Callable
from typing import Final

from mpbroker.errors import ErrorCode
from mpbroker.log.keeper_context import KeeperContext, PartitionRound
from mpbroker.log.kept_partitions import KeptPartition

NO_LIMIT: Final = -1
MAX_A_CALL: Final = 1024  # MPB_RETAIN_MAX_REMOVED
DELETE: Final = "delete"


class LogRetention:
    """`removed(partition, bases)` is called with what was renamed."""

    def __init__(self, keeper: KeeperContext, removed: Callable[[KeptPartition, list[int]], None]) -> None:
        self._keeper = keeper
        self._removed = removed
        self._round = PartitionRound(keeper.clock, keeper.partitions, self._interval_ms(), keeper.first_delay_ms)

    def _interval_ms(self) -> int:
        return int(self._keeper.config.log_retention_check_interval_ms)

    def do_work(self) -> None:
        """One turn: the next partitions of the round."""
        for partition in self._round.take():
            self.retain(partition)

    def remaining_ms(self) -> int:
        """Until the next round, 0 within one."""
        return self._round.remaining_ms()

    def retain(self, partition: KeptPartition) -> int:
        """Apply a partition's limits now; returns the number of segments taken away."""
        by_limits = DELETE in partition.settings.cleanup_policy  # else only what lies below the log start goes
        retention_ms = partition.settings.retention_ms if by_limits else NO_LIMIT
        retention_bytes = partition.settings.retention_bytes if by_limits else NO_LIMIT
        total = 0
        while True:
            error, bases = self._keeper.log.retain(
                partition.ordinal,
                retention_ms=retention_ms,
                retention_bytes=retention_bytes,
                now_ms=self._keeper.clock.wall_ms(),
                topic_id=partition.topic_id,
            )
            self._keeper.crash_point("keeper.retain.renamed")
            self._told(partition, error, bases)
            total += len(bases)
            if error or len(bases) < MAX_A_CALL:
                return total

    def _told(self, partition: KeptPartition, error: int, bases: list[int]) -> None:
        if bases:
            self._keeper.events.info(
                "segments_deleted", partition=partition.dir, count=len(bases), first=bases[0], last=bases[-1]
            )
            self._keeper.count("segments_deleted", len(bases))
            self._removed(partition, bases)
        if error == ErrorCode.REQUEST_TIMED_OUT:
            self._round.again(partition)
        if error == ErrorCode.KAFKA_STORAGE_ERROR and self._keeper.state(partition) is not None:  # not just being made
            self._keeper.events.error("retention_failed", partition=partition.dir)
