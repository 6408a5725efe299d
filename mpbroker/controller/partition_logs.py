"""Creating and retiring the logs behind partitions: directory, first segment, partition row. Controller process only.

The native Log does what needs the partition's lock; this module adds the directory's own files and knows their names.
"""

from collections.abc import Callable, Iterable
from typing import Final, Protocol

from mpbroker.controller.controller_context import TopicState
from mpbroker.errors import ErrorCode
from mpbroker.log import disk, partition_directory
from mpbroker.log.data_dir import LOG_DIR
from mpbroker.log.log_loader import LogLoader
from mpbroker.shm.layout import PartitionFlags

FIRST_EPOCH: Final = 0


class PartitionLog(Protocol):
    """What is needed of `_native.Log`; `create` and `set_flags` return a Kafka error code."""

    def log_dir_online(self, log_dir: int, /) -> bool:
        """Whether no I/O error took that log directory offline since the start."""
        ...

    def takes_appends(self, log_dir: int, /) -> bool:
        """Whether there is room in it, as far as the log keeper knows."""
        ...

    def create(
        self,
        ordinal: int,
        topic_id: bytes,
        topic_row: int,
        partition: int,
        log_dir: int,
        dir: str,
        leader_epoch: int,
        now_ms: int,
    ) -> int:
        """Make the first segment and show the partition in its row."""
        ...

    def set_flags(self, ordinal: int, set: int, clear: int) -> int:
        """Change a row's flags under its lock."""
        ...


class PartitionLogs:
    """The logs in one data directory. `crash_point(name)`: where tests kill the controller."""

    def __init__(
        self,
        log: PartitionLog,
        data_dir: str,
        loader: LogLoader,
        now_ms: Callable[[], int],
        crash_point: Callable[[str], object],
    ) -> None:
        self._log = log
        self.data_dir = data_dir
        self.load = loader
        self._now_ms = now_ms
        self._crash_point = crash_point

    def has_log(self, topic: str, partition: int) -> bool:
        """Whether there are segments to load, or were when the checkpoints were written."""
        name = partition_directory.directory_name(topic, partition)
        there = partition_directory.log_bytes(self.data_dir, name) is not None
        return there or self.load.written_up_to(topic, partition) > 0

    def is_foreign(self, name: str, topic_id: bytes) -> bool:
        """Whether a directory of that name holds records of another topic, or nobody knows whose."""
        if not partition_directory.log_bytes(self.data_dir, name):
            return False
        return partition_directory.read_topic_id(f"{self.data_dir}/{name}") != topic_id

    def prepare_found(self, name: str, topic_id: bytes) -> None:
        """Complete the files of a directory that is there; one that is missing, or a stranger's, is left to the loader,
        which shows the partition offline. OSError passes."""
        path = f"{self.data_dir}/{name}"
        if disk.patiently(disk.is_directory, path) and partition_directory.read_topic_id(path) in (topic_id, None):
            partition_directory.prepare(self.data_dir, name, topic_id)

    @property
    def online(self) -> bool:
        """Whether partitions can be made: what is made in an offline directory could never be written or read."""
        return self._log.log_dir_online(LOG_DIR)

    @property
    def has_room(self) -> bool:
        """False after a start on a full disk: what is left there is for what makes room."""
        return self._log.takes_appends(LOG_DIR)

    def create(self, topic: TopicState, partition: int, ordinal: int) -> int:
        """A new, empty partition in a row; returns a Kafka error code: KAFKA_STORAGE_ERROR also if records of somebody
        else lie where it would be."""
        name = partition_directory.directory_name(topic.name, partition)
        if self.is_foreign(name, topic.id):
            return ErrorCode.KAFKA_STORAGE_ERROR
        try:
            partition_directory.prepare(self.data_dir, name, topic.id)
        except OSError:
            return ErrorCode.KAFKA_STORAGE_ERROR
        self._crash_point("controller.directory_made")
        error = self._log.create(
            ordinal=ordinal,
            topic_id=topic.id,
            topic_row=topic.row,
            partition=partition,
            log_dir=LOG_DIR,
            dir=name,
            leader_epoch=FIRST_EPOCH,
            now_ms=self._now_ms(),
        )
        self._crash_point("controller.partition_created")
        return error

    def hide(self, ordinal: int) -> int:
        """The row's partition is deleted: appends and reads of it fail from here on. Returns a Kafka error code."""
        gone = PartitionFlags.EXISTS | PartitionFlags.ONLINE
        return self._log.set_flags(ordinal, int(PartitionFlags.DELETED), int(gone))

    def retire(self, name: str, topic_id: bytes) -> str | None:
        """Rename a directory out of the way if it is that topic's; returns its new name. OSError passes."""
        owner = partition_directory.read_topic_id(f"{self.data_dir}/{name}")
        if owner not in (topic_id, None) or (owner is None and self.is_foreign(name, topic_id)):
            return None
        return partition_directory.retire(self.data_dir, name, topic_id, partition_directory.DELETE_SUFFIX)

    def sync(self) -> None:
        """Make creations and renames in the data directory durable. OSError passes."""
        disk.patiently(disk.sync_directory, self.data_dir)


def names_of(topic: str, partitions: Iterable[int]) -> list[str]:
    """Directory names of a topic's partitions."""
    return [partition_directory.directory_name(topic, partition) for partition in partitions]
