"""Loading the logs at start: every partition's directory is recovered and its row published. Runs in the controller.

Called for partitions whose rows hold nothing: after a start of the broker and after a reset of all workers, not after
the mere restart of the controller. Damage is cut away with a line saying what; a directory that cannot be read makes
its partition offline, and the broker starts without it.
"""

import errno
import os
import time
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from mpbroker._native import Log
from mpbroker.config.topic_config import TopicSettings
from mpbroker.errors import KafkaError
from mpbroker.log import clean_shutdown, disk
from mpbroker.log.checkpoint_file import (
    HIGH_WATERMARK,
    LOG_START,
    RECOVERY_POINT,
    Offsets,
    parse_checkpoint,
)
from mpbroker.log.leader_epochs import read_epochs
from mpbroker.log.log_recovery import LogMissing, LogRecovery, NotAFile, RecoveredLog
from mpbroker.log.partition_directory import EPOCH_FILE, METADATA_FILE, complete, id_text, read_topic_id
from mpbroker.log.recent_producers import ProducerRow, producer_rows, recent_batches, transaction_rows
from mpbroker.shm.clock import Clock
from mpbroker.shm.events import Events
from mpbroker.shm.layout import PARTITION_EXISTS, PARTITION_ONLINE

PROGRESS_S: Final = 5.0
_WITHOUT: Final = {
    RECOVERY_POINT: "every log is taken as not flushed",
    LOG_START: "every log begins at its first segment: records deleted before may be back",
    HIGH_WATERMARK: "a log that is missing is taken for one that never held a record",
}


class PartitionToLoad(NamedTuple):
    """A partition whose files exist and whose row is free for it. `dir` is relative to the data directory."""

    ordinal: int
    topic_id: bytes
    topic_row: int
    topic: str
    partition: int
    log_dir: int
    dir: str
    settings: TopicSettings


class LogLoader:
    """Loads partitions of one data directory. Made once per controller process, before anything is written.

    `last_stop`: whether the broker that last wrote here stopped cleanly; `highest_producer_id`: of those that the
    loaded logs know, −1: none. OSError: the directory cannot be used at all.
    """

    def __init__(
        self,
        log: Log,
        data_dir: str,
        events: Events,
        clock: Clock,
        crash_point: Callable[[str], None] = lambda name: None,
        count: Callable[[str], object] = lambda name: None,
    ) -> None:
        self._count = count
        self._crash_point = crash_point
        self._log = log
        self._data_dir = data_dir
        self._events = events
        self._clock = clock
        self.last_stop = clean_shutdown.take_marker(data_dir)
        self._recovery_points = Checkpointed(data_dir, RECOVERY_POINT, events)
        self._log_starts = Checkpointed(data_dir, LOG_START, events)
        self._high_watermarks = Checkpointed(data_dir, HIGH_WATERMARK, events)
        self._unsound: list[str] = []  # index files
        self.highest_producer_id = -1

    def __call__(self, partitions: Sequence[PartitionToLoad]) -> None:
        """Recover and publish each of them. KafkaError: a row could not be written."""
        offline = 0
        began = said = time.monotonic()
        for number, partition in enumerate(partitions):
            offline += not self._load(partition)
            if time.monotonic() - said >= PROGRESS_S:
                said = time.monotonic()
                self._events.info("loading_logs", done=number + 1, of=len(partitions))
        if self._unsound:
            self._events.warning(
                "indexes_rebuilt",
                files=len(self._unsound),
                first=self._unsound[0],
                why="not as a clean stop leaves them",
                by="reading the logs",
            )
            self._unsound.clear()
        self._events.info(
            "logs_loaded",
            partitions=len(partitions),
            offline=offline,
            clean=self.last_stop.clean,
            ms=int((time.monotonic() - began) * 1000),
        )

    def written_up_to(self, topic: str, partition: int) -> int:
        """The highest offset that a checkpoint names for a partition, whatever is in its directory; 0: none."""
        who = (topic, partition)
        return max(self._high_watermarks.written(who), self._recovery_points.written(who))

    def _load(self, partition: PartitionToLoad) -> bool:
        """False: the partition is there, but offline."""
        directory = os.path.join(self._data_dir, partition.dir)
        try:
            recovered, rows, epoch, flushed = disk.patiently(self._recover, partition, directory)
        except OSError as error:
            self._say_offline(partition, directory, error)
            self._publish(partition, {})
            self._check(partition, self._log.set_flags(partition.ordinal, PARTITION_EXISTS, 0))
            return False
        self.highest_producer_id = max(self.highest_producer_id, max(recovered.producers, default=-1))
        self._unsound += recovered.unsound
        for _ in recovered.unsound:
            self._count("recovery_doubts")
        for sentence in [*recovered.cut, *self._missed(partition, recovered)]:
            self._count("recovery_doubts")
            self._events.warning("log_cut", partition=partition.dir, what=sentence)
        state = self._state(recovered, epoch)
        if self._log.is_replicated():
            self._take_back_high_watermark(partition, directory, recovered, state)
        self._publish(partition, state)
        self._load_epochs(partition, directory, state)
        if self._log.is_replicated():
            self._check(partition, self._log.load_ended(partition.ordinal, recovered.ended))
        self._check(partition, self._log.set_flushed(partition.ordinal, flushed))
        transactions = transaction_rows(recovered.producers.values())
        if self._log.load_transactions(partition.ordinal, transactions) or self._log.load_producers(
            partition.ordinal, rows
        ):
            self._events.warning("producers_forgotten", partition=partition.dir, why="the table of producers is full")
        self._crash_point("loader.hidden")
        self._check(partition, self._log.set_flags(partition.ordinal, PARTITION_EXISTS | PARTITION_ONLINE, 0))
        return True

    def _recover(self, partition: PartitionToLoad, directory: str) -> tuple[RecoveredLog, list[ProducerRow], int, int]:
        """(the log, its producers, the leader epoch, the offset below which all is on disk); may be done twice."""
        check_owner(directory, partition.topic_id)
        recovered = self._recovery(partition, directory).run()
        complete(directory, partition.topic_id)  # not before: where the log is missing nothing is made in its place
        rows = self._producers(partition, recovered, directory)
        epoch = latest_epoch(directory)
        if recovered.cut:
            disk.sync_directory(directory)  # what was set aside must not come back when the log has grown up to it
        return recovered, rows, epoch, self._flushed(partition, directory, recovered)

    def _missed(self, partition: PartitionToLoad, recovered: RecoveredLog) -> list[str]:
        """A sentence if a log begins above where it began when the broker stopped cleanly. (What compaction takes away
        is not missing.)"""
        began = self.last_stop.log_starts.get(partition.dir, recovered.log_start)
        if recovered.log_start <= began or "compact" in partition.settings.cleanup_policy:
            return []
        return [
            f"{partition.dir}: offsets {began} to {recovered.log_start - 1} were there at the last stop and are missing"
            " now; the rest is served: if their files are elsewhere, put them back and start again"
        ]

    def _say_offline(self, partition: PartitionToLoad, directory: str, error: OSError) -> None:
        remedy = "look at the error, then start the broker again"
        if not disk.is_directory(directory):
            remedy = "put the directory back and start again, or delete the topic"
        elif isinstance(error, NotAFile):
            remedy = "move it away and start again"
        elif isinstance(error, LogMissing):
            remedy = "put the files back and start again, or delete the topic"
        self._count("partitions_offline_at_start")
        self._events.error("partition_offline", partition=partition.dir, error=error, remedy=remedy)

    def _recovery(self, partition: PartitionToLoad, directory: str) -> LogRecovery:
        """A clean stop synced whatever was served."""
        who = (partition.topic, partition.partition)
        clean = self.last_stop.of(partition.dir)
        synced, served = self._recovery_points.written(who), self._high_watermarks.written(who)
        return LogRecovery(
            directory,
            index_interval_bytes=partition.settings.index_interval_bytes,
            clean=clean,
            recovery_point=self._recovery_points.offset(who, directory),
            log_start=self._log_starts.offset(who, directory),
            synced_end=max(synced, served) if clean else synced,
            served_end=served,
            gaps_allowed="compact" in partition.settings.cleanup_policy,
        )

    def _flushed(self, partition: PartitionToLoad, directory: str, recovered: RecoveredLog) -> int:
        """Everything below is on disk. The rest was read from the page cache: the log keeper syncs it."""
        end = recovered.active.next_offset
        return (
            end
            if self.last_stop.of(partition.dir)
            else min(end, self._recovery_points.offset((partition.topic, partition.partition), directory))
        )

    def _producers(self, partition: PartitionToLoad, recovered: RecoveredLog, directory: str) -> list[ProducerRow]:
        clean = self.last_stop.of(partition.dir)
        recent = {} if clean or not recovered.producers else recent_batches(directory, recovered.active.base)
        return producer_rows(recovered.producers, recent)

    def _state(self, recovered: RecoveredLog, leader_epoch: int) -> dict[str, int]:
        """With one replica the high watermark is the log end: whatever is in the log was or may be acknowledged."""
        active = recovered.active
        end = active.next_offset
        open_from = [entry.txn_first for entry in recovered.producers.values() if entry.txn_first >= 0]
        return {
            "log_start": recovered.log_start,
            "leo": end,
            "hw": end,
            "lso": max(min(open_from, default=end), recovered.log_start),
            "open_transactions": len(open_from),
            "txn_index_bytes": recovered.txn_index_bytes,
            "aborted_end": recovered.aborted_end,
            "active_base": active.base,
            "position": active.position,
            "index_bytes": active.index_bytes,
            "time_index_bytes": active.time_index_bytes,
            "max_timestamp": active.max_timestamp,
            "max_timestamp_offset": active.max_timestamp_offset,
            "first_timestamp": active.first_timestamp,
            "segment_created_ms": self._clock.wall_ms(),
            "indexed_timestamp": active.indexed_timestamp,
            "log_bytes": recovered.log_bytes,
            "bytes_since_index": active.bytes_since_index,
            "leader_epoch": leader_epoch,
            "segment_count": recovered.segment_count,
        }

    def _take_back_high_watermark(
        self, partition: PartitionToLoad, directory: str, recovered: RecoveredLog, state: dict[str, int]
    ) -> None:
        """Of a broker in a cluster: what the checkpoint says, since what lies above may be nowhere else. A partition
        with one replica gets the log's end when it is led again."""
        written = self._high_watermarks.offset((partition.topic, partition.partition), directory)
        state["hw"] = min(max(written, recovered.log_start), state["leo"])
        undecided = [first for first, end in recovered.ended if end > state["hw"]]
        state["lso"] = max(min(state["lso"], state["hw"], *undecided), recovered.log_start)

    def _load_epochs(self, partition: PartitionToLoad, directory: str, state: dict[str, int]) -> None:
        """The leader epochs into shared memory. What the file says is believed after a clean stop; else the log keeper
        may not have written the last ones down, or that one was cut, and the batches say which they are."""
        if not self._log.is_replicated():
            return
        written = read_epochs(directory)
        epochs = [(each.epoch, each.start_offset) for each in written if each.start_offset < state["leo"]]
        if not self.last_stop.of(partition.dir):
            epochs = self._epochs_of_batches(partition, epochs, state["log_start"])
        self._check(partition, self._log.load_epochs(partition.ordinal, epochs))

    def _epochs_of_batches(
        self, partition: PartitionToLoad, written: list[tuple[int, int]], log_start: int
    ) -> list[tuple[int, int]]:
        """Of those in the file the ones up to the last that the batch there agrees with, then what the batches say.
        Where an epoch began is the same in every replica, so that those before it are right, too."""
        known = list(written)
        while True:
            since = max(known[-1][1] if known else log_start, log_start)
            error, found = self._log.scan_epochs(partition.ordinal, since)
            self._check(partition, error)
            if not known:
                return found
            if found and found[0][0] == known[-1][0] and found[0][1] >= known[-1][1]:
                return known + found[1:]
            known.pop()

    def _publish(self, partition: PartitionToLoad, state: dict[str, int]) -> None:
        """The row stays free in the eyes of a successor until its producers are there: else they would never be."""
        self._check(
            partition,
            self._log.publish(
                ordinal=partition.ordinal,
                topic_id=partition.topic_id,
                topic_row=partition.topic_row,
                partition=partition.partition,
                log_dir=partition.log_dir,
                dir=partition.dir,
                state=state,
                hidden=True,
            ),
        )

    def _check(self, partition: PartitionToLoad, error: int) -> None:
        if error:
            raise KafkaError(error, f"the row of {partition.dir} cannot be written")


class Checkpointed:
    """One checkpoint file, read once. It is not believed about a directory made after it was written: that is a younger
    topic of the same name. (Two files are made with a directory; one of them may have been lost and written anew.) One
    that cannot be understood says nothing, with a line."""

    def __init__(self, data_dir: str, name: str, events: Events) -> None:
        path = os.path.join(data_dir, name)
        self._offsets: Offsets = {}
        self._written_ns = 0
        try:
            self._offsets = disk.patiently(parse_checkpoint, path)
            self._written_ns = disk.patiently(disk.status, path).st_mtime_ns
        except FileNotFoundError:
            pass
        except ValueError as error:
            events.warning("checkpoint_not_understood", file=path, why=error, instead=_WITHOUT[name])

    def offset(self, who: tuple[str, int], directory: str) -> int:
        """The offset written down for (topic, partition), 0 if there is none."""
        offset = self.written(who)
        if offset == 0:
            return 0
        paths = (os.path.join(directory, name) for name in (METADATA_FILE, EPOCH_FILE))
        made = [disk.status(path).st_mtime_ns for path in paths if disk.is_file(path)]
        return offset if made and min(made) < self._written_ns else 0

    def written(self, who: tuple[str, int]) -> int:
        """The offset as it stands in the file, whoever it was written for; 0 if there is none."""
        return max(self._offsets.get(who, 0), 0)


def check_owner(directory: str, topic_id: bytes) -> None:
    """OSError when a directory says that it belongs to another topic."""
    owner = read_topic_id(directory)
    if owner not in (topic_id, None):
        raise OSError(
            errno.EEXIST, f"holds records of a topic with another id ({id_text(owner)}); move it away", directory
        )


def latest_epoch(directory: str) -> int:
    """The last leader epoch in Kafka's leader-epoch-checkpoint; 0 if there is none that can be read."""
    epochs = read_epochs(directory)
    return epochs[-1].epoch if epochs else 0
