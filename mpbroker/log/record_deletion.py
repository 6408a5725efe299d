"""Writing down the log starts that DeleteRecords moved. A job of the log keeper.

A client may be told of a new log start when no crash can take it back. In this order: everything below it is synced,
because a start does not believe a log start beyond the end of what it finds; the checkpoint of log starts is written
and synced; the partition's row says so, and the handlers that wait are rung. A successor finds in the rows what is
still to be done. Segments below the new start go with the next retention.
"""

from typing import Final

from mpbroker.errors import ErrorCode
from mpbroker.log.checkpoint_file import LOG_START
from mpbroker.log.checkpoint_writer import CheckpointWriter
from mpbroker.log.keeper_context import Interval, KeeperContext
from mpbroker.log.kept_partitions import KeptPartition

RETRY_MS: Final = 1000
IDLE_MS: Final = 1000


class RecordDeletion:
    """One round a turn, of all partitions that were asked about: the bell says when."""

    def __init__(self, keeper: KeeperContext, checkpoints: CheckpointWriter) -> None:
        self._keeper = keeper
        self._checkpoints = checkpoints
        self._again = Interval(keeper.clock, RETRY_MS)  # behind a failure: not at every turn
        self._failed = False

    def do_work(self) -> None:
        """One turn."""
        asked = set(self._keeper.log.starts_asked())
        if not asked or (self._failed and not self._again.due()):
            return
        durable = [partition for partition in self._keeper.partitions.all if partition.ordinal in asked]
        durable = [partition for partition in durable if self._is_synced(partition)]
        if durable:
            self._write(durable)

    def remaining_ms(self) -> int:
        """Until it looks by itself."""
        return IDLE_MS

    def _is_synced(self, partition: KeptPartition) -> bool:
        """Whether all below its log start is on disk; if not, that is begun."""
        state = self._keeper.state(partition)
        if state is None:
            return False
        if state.flushed_offset < state.log_start:
            self._keeper.syncs.start(partition.ordinal)
            return False
        return True

    def _write(self, partitions: list[KeptPartition]) -> None:
        for partition in partitions:
            self._checkpoints.log_start_moved(partition)
        self._keeper.crash_point("keeper.start.begin")
        self._failed = not self._checkpoints.write([LOG_START])
        if self._failed:
            self._again.postpone()
            return
        self._keeper.crash_point("keeper.start.checkpointed")
        for partition in partitions:
            written = self._checkpoints.written(LOG_START, partition)
            error = self._keeper.log.start_written(partition.ordinal, written, partition.topic_id)
            self._failed |= error == ErrorCode.REQUEST_TIMED_OUT  # its lock is not to be had: tried again
        if self._failed:
            self._again.postpone()
