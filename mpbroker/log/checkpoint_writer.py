"""Writing the checkpoints: recovery points, high watermarks, log starts, at Kafka's intervals. A job of the log keeper.

A file is written only when it would say something new. Of partitions that are offline or not loaded yet it keeps what
it said: forgetting a log start would bring deleted records back, and forgetting that a log was written would have it
made anew, empty, when its directory is missing.
"""

import os
from collections.abc import Iterable
from typing import Final

from mpbroker._native import PartitionState
from mpbroker.log import disk
from mpbroker.log.checkpoint_file import (
    HIGH_WATERMARK,
    LOG_START,
    RECOVERY_POINT,
    Offsets,
    read_checkpoint,
    write_checkpoint,
)
from mpbroker.log.keeper_context import Interval, KeeperContext
from mpbroker.log.kept_partitions import KeptPartition
from mpbroker.log.partition_directory import directory_name

FIELDS: Final = {RECOVERY_POINT: "flushed_offset", HIGH_WATERMARK: "hw", LOG_START: "log_start"}
"""Checkpoint file → the field of PartitionState it holds."""


class CheckpointWriter:
    """The three files of one data directory."""

    def __init__(self, keeper: KeeperContext) -> None:
        self._keeper = keeper
        self._moved: set[tuple[bytes, int]] = set()
        self._expected: dict[tuple[str, int], dict[str, int]] = {}
        self._written: dict[str, Offsets] = {name: disk.patiently(read_checkpoint, self._path(name)) for name in FIELDS}
        self._intervals = {
            name: Interval(keeper.clock, interval_ms, keeper.first_delay_ms)
            for name, interval_ms in self._settings().items()
        }

    def _settings(self) -> dict[str, int]:
        config = self._keeper.config
        return {
            RECOVERY_POINT: config.log_flush_offset_checkpoint_interval_ms,
            HIGH_WATERMARK: config.replica_high_watermark_checkpoint_interval_ms,
            LOG_START: config.log_flush_start_offset_checkpoint_interval_ms,
        }

    def do_work(self) -> None:
        """One turn: write the files that are due."""
        for name, interval_ms in self._settings().items():
            self._intervals[name].interval_ms = interval_ms
        due = [name for name, interval in self._intervals.items() if interval.due()]
        if due:
            self.write(due)

    def topics_changed(self) -> None:
        """A topic came or went: offsets must not stand there for a younger topic of the same name."""
        self._intervals[RECOVERY_POINT].hasten()
        self._intervals[LOG_START].hasten()

    def log_start_moved(self, partition: KeptPartition) -> None:
        """Segments or records were deleted: from now on its log start is written down."""
        self._moved.add((partition.topic_id, partition.partition))

    def expect(self, partition: KeptPartition, offsets: dict[str, int]) -> bool:
        """A partition moves into this log directory: from before the moment that it is here its offsets stand in the
        files. False: one could not be written."""
        self._expected[partition.who] = offsets
        return self.write(offsets)

    def expect_no_more(self, partition: KeptPartition) -> None:
        """It does not come."""
        self._expected.pop(partition.who, None)

    def written(self, name: str, partition: KeptPartition) -> int:
        """What a file on disk says of a partition."""
        return self._written[name].get(partition.who, 0)

    def remaining_ms(self) -> int:
        """Until the next file is due."""
        return min(interval.remaining_ms() for interval in self._intervals.values())

    def write(self, names: Iterable[str] = tuple(FIELDS)) -> bool:
        """Write these files where they would say something new; False if one could not be written."""
        states = [(partition, self._keeper.state(partition)) for partition in self._keeper.partitions.all]
        written = [self._write_one(name, states) for name in names]  # each of them, whatever became of the others
        return all(written)

    def _write_one(self, name: str, states: list[tuple[KeptPartition, PartitionState | None]]) -> bool:
        listed = {partition.who for partition, _ in states}
        self._moved &= {(partition.topic_id, partition.partition) for partition, _ in states}
        known = {partition.who for partition, state in states if state is not None}
        for who in known & set(self._expected):
            del self._expected[who]
        offsets = {
            who: offset
            for who, offset in self._written[name].items()
            if who not in known and (who in listed or disk.is_directory(self._path(directory_name(*who))))
        }
        offsets |= {who: expected[name] for who, expected in self._expected.items()}
        offsets |= {
            partition.who: self._offset(name, partition, state) for partition, state in states if state is not None
        }
        if offsets == self._written[name]:
            return True
        try:
            write_checkpoint(self._path(name), offsets)
        except OSError as error:
            self._keeper.io_failed("checkpoint_not_written", error, file=name)
            return False
        self._written[name] = offsets
        self._keeper.crash_point("keeper.checkpoint.written")
        return True

    def _offset(self, name: str, partition: KeptPartition, state: PartitionState) -> int:
        """What a file says of a partition. A log start that follows from nothing but the first segment that is there
        is not written: segments before it may be missing, and are served again when they are put back."""
        offset: int = getattr(state, FIELDS[name])
        written = self._written[name].get(partition.who, 0)
        if name != LOG_START or offset <= written or (partition.topic_id, partition.partition) in self._moved:
            return offset
        return written if offset in self._keeper.log.segments(partition.ordinal)[:1] else offset

    def _path(self, name: str) -> str:
        return os.path.join(self._keeper.data_dir, name)
