"""Kafka's leader-epoch-checkpoint of each partition, written from the epochs in shared memory. A job of the log keeper.

Only in a broker of a cluster: elsewhere an epoch never begins. Kafka writes the file when an epoch begins; here it
follows within a second, and a start that was not preceded by a clean stop asks the log's own batches (log_loader.py). A
file is written when it would say something new; epochs that shared memory has no room for stand in it alone.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Final, TypeAlias

from mpbroker._native import PartitionState
from mpbroker.log import disk
from mpbroker.log.keeper_context import NEVER_MS, Interval, KeeperContext
from mpbroker.log.kept_partitions import KeptPartition
from mpbroker.log.leader_epochs import EpochStart, merged_epochs, read_epochs
from mpbroker.log.partition_directory import EPOCH_FILE

INTERVAL_MS: Final = 1000
Kept: TypeAlias = tuple[int, bool, list[tuple[int, int]]]
"""What shared memory has: how many ever began, whether the file alone has older ones, (epoch, start offset)."""


class EpochFiles:
    """The files of one data directory."""

    def __init__(self, keeper: KeeperContext) -> None:
        self._keeper = keeper
        self._is_replicated = keeper.log.is_replicated()
        self._interval = Interval(keeper.clock, INTERVAL_MS, INTERVAL_MS)
        self._known: dict[tuple[bytes, int], Kept] = {}

    def do_work(self) -> None:
        """One turn: write the files that are not as they should be."""
        if self._is_replicated and self._interval.due():
            self.write()

    def remaining_ms(self) -> int:
        """Until the next turn that does something."""
        return self._interval.remaining_ms() if self._is_replicated else NEVER_MS

    def write(self) -> bool:
        """False: one of them could not be written."""
        if not self._is_replicated:
            return True
        partitions = self._keeper.partitions.all
        self._known = {each: known for each, known in self._known.items() if each in _identities(partitions)}
        written = [self._write_one(partition) for partition in partitions]  # each, whatever became of the others
        return all(written)

    def _write_one(self, partition: KeptPartition) -> bool:
        state = self._keeper.state(partition)
        if state is None:
            return True
        try:
            return self._write_kept(partition, state, self._keeper.log.epochs(partition.ordinal))
        except TimeoutError:  # somebody holds its lock for long: at the next turn
            return False

    def _write_kept(self, partition: KeptPartition, state: PartitionState, kept: Kept) -> bool:
        identity = (partition.topic_id, partition.partition)
        if self._known.get(identity) == kept:
            return True
        _, has_older, epochs = kept
        directory = os.path.join(self._keeper.data_dir, state.dir)
        shown = [EpochStart(*each) for each in epochs]
        try:
            written = disk.patiently(read_epochs, directory)
            wanted = merged_epochs(written, shown, state.leo) if has_older else shown
            if wanted != written:
                _write(os.path.join(directory, EPOCH_FILE), wanted)
        except OSError as error:
            self._keeper.io_failed("checkpoint_not_written", error, file=EPOCH_FILE)
            return False
        self._keeper.crash_point("keeper.epochs.written")
        self._keeper.log.epochs_written(partition.ordinal, epochs)
        if epochs or not has_older:  # else the file goes by the log's end, which a truncation may have moved meanwhile
            self._known[identity] = kept
        return True


def _identities(partitions: Sequence[KeptPartition]) -> set[tuple[bytes, int]]:
    return {(partition.topic_id, partition.partition) for partition in partitions}


def _write(path: str, epochs: Sequence[EpochStart]) -> None:
    """Whole or not at all for a reader."""
    lines = ["0", str(len(epochs)), *(f"{each.epoch} {each.start_offset}" for each in epochs)]
    disk.write_file(path + ".tmp", ("\n".join(lines) + "\n").encode("ascii"), sync_it=False)
    disk.rename(path + ".tmp", path)
