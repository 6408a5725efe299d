"""Creating and retiring the logs behind partitions: directory, first segment, partition row. Controller process only.

The native Log does what needs the partition's lock; this module adds the directory's own files and knows their names.
"""

from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple, Protocol

from mpbroker.config.topic_config import TopicSettings
from mpbroker.controller.controller_context import TopicState
from mpbroker.errors import ErrorCode
from mpbroker.log import partition_directory
from mpbroker.log.checkpoint_file import sync_directory
from mpbroker.shm.topic_table import PartitionFlags

LOG_DIR: Final = 0  # one data directory so far
FIRST_EPOCH: Final = 0


class PartitionLog(Protocol):
    """What is needed of `_native.Log`; both return a Kafka error code."""

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


class PartitionToLoad(NamedTuple):
    """A partition whose files exist and whose row is free for it: recovery reads the log and publishes the row."""

    ordinal: int
    topic_id: bytes
    topic_row: int
    topic: str
    partition: int
    log_dir: int
    dir: str
    settings: TopicSettings


LogLoader = Callable[[list[PartitionToLoad]], None]
"""Recovers and publishes every partition given; raises OSError if the data directory cannot be used."""


class PartitionLogs:
    """The logs in one data directory. `crash_point(name)`: where tests kill the controller."""

    def __init__(
        self,
        log: PartitionLog,
        data_dir: str,
        loader: LogLoader,
        now_ms: Callable[[], int],
        crash_point: Callable[[str], Any],
    ) -> None:
        self._log = log
        self.data_dir = data_dir
        self.load = loader
        self._now_ms = now_ms
        self._crash_point = crash_point

    def has_log(self, topic: str, partition: int) -> bool:
        """Whether there are segments to load."""
        name = partition_directory.directory_name(topic, partition)
        return partition_directory.log_bytes(self.data_dir, name) is not None

    def create(self, topic: TopicState, partition: int, ordinal: int) -> int:
        """A new, empty partition in a row; returns a Kafka error code."""
        name = partition_directory.directory_name(topic.name, partition)
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

    def retire(self, name: str, topic_id: bytes, suffix: str = partition_directory.DELETE_SUFFIX) -> str | None:
        """Rename a directory out of the way if it is that topic's; returns its new name. OSError passes."""
        if partition_directory.read_topic_id(f"{self.data_dir}/{name}") not in (topic_id, None):
            return None
        return partition_directory.retire(self.data_dir, name, topic_id, suffix)

    def sync(self) -> None:
        """Make creations and renames in the data directory durable. OSError passes."""
        sync_directory(self.data_dir)


def names_of(topic: str, partitions: Iterable[int]) -> list[str]:
    """Directory names of a topic's partitions."""
    return [partition_directory.directory_name(topic, partition) for partition in partitions]
