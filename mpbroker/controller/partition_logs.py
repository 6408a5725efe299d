"""Creating, finding and retiring the logs behind partitions: directory, first segment, partition row. Controller
process only.

The native Log does what needs the partition's lock; this module adds the directory's own files and knows their names.

Of several log directories a new partition goes to the one with the fewest. The store keeps which one that was, so that
a partition whose directory is missing is offline, and not made anew in another one. What is found in another than the
noted one is served from there: somebody moved it. Of two directories of a partition the one that was marked as moved
here counts (moves.py).
"""

import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol

from mpbroker.controller.controller_context import TopicState
from mpbroker.errors import ErrorCode
from mpbroker.log import disk, partition_directory, unfinished_creation
from mpbroker.log.data_dir import FIRST
from mpbroker.log.log_loader import LogLoader, PartitionToLoad
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

    def close_stale(self) -> int:
        """Close descriptors of removed segments."""
        ...

    def ask_move(self, ordinal: int, topic_id: bytes, log_dir: int, /) -> int:
        """Say that a partition shall lie in another log directory."""
        ...

    def publish(
        self,
        ordinal: int,
        topic_id: bytes,
        topic_row: int,
        partition: int,
        log_dir: int,
        dir: str,
        state: dict[str, Any],
        hidden: bool = False,
    ) -> int:
        """Give a row its identity and state."""
        ...


class Home(NamedTuple):
    """A log directory: its index in partition rows, its path, its directory.id. `load` loads what lies there; None: it
    could not be read at the start."""

    log_dir: int
    path: str
    id: str
    load: LogLoader | None


class Place(NamedTuple):
    """Where a partition is. `has_log`: there is something to load, or was when the checkpoints were written; `problem`:
    why it cannot be served."""

    log_dir: int
    has_log: bool = False
    problem: str = ""


class PartitionLogs:
    """The logs in the log directories. `crash_point(name)`: where tests kill the controller. `id`: of the first."""

    def __init__(
        self,
        log: PartitionLog,
        data_dir: str,
        loader: LogLoader,
        now_ms: Callable[[], int],
        crash_point: Callable[[str], object],
        further: Sequence[Home] = (),
        id: str = "",
    ) -> None:
        self._log = log
        self._homes = [Home(FIRST, data_dir, id, loader), *further]
        self._now_ms = now_ms
        self._crash_point = crash_point
        self._home_of: dict[int, int] = {}  # row → log directory
        self._held: Counter[int] = Counter()  # log directory → rows

    @property
    def are_several(self) -> bool:
        """Whether there is a choice."""
        return len(self._homes) > 1

    @property
    def online_homes(self) -> list[Home]:
        """Those that can be read."""
        return [home for home in self._homes if self._is_online(home)]

    def _is_online(self, home: Home) -> bool:
        return home.load is not None and (home.log_dir == FIRST or self._log.log_dir_online(home.log_dir))

    def know(self, home_of: Mapping[int, int]) -> None:
        """The rows in use, with their log directories."""
        self._home_of = dict(home_of)
        self._held = Counter(home_of.values())

    def _settle(self, ordinal: int, log_dir: int | None) -> None:
        """A row's partition lies in that log directory now; None: nowhere."""
        before = self._home_of.pop(ordinal, None)
        if before is not None:
            self._held[before] -= 1
        if log_dir is not None:
            self._home_of[ordinal] = log_dir
            self._held[log_dir] += 1

    def find(self, topic: TopicState, partition: int) -> Place:
        """Where a partition is, by what the store and the directories say."""
        name = partition_directory.directory_name(topic.name, partition)
        noted = topic.directories[partition] if partition < len(topic.directories) else ""
        home = next((each for each in self._homes if noted and each.id == noted), None)
        if home is not None and not self._is_online(home):
            return Place(home.log_dir, problem=f"log directory {home.path} is offline")
        moved = self._moved_to(name, topic.id) if self.are_several else None
        if moved is not None:
            return Place(moved.log_dir, True)
        is_lost = home is None or not self._is_here(home, name, topic.id)
        if is_lost and (self.are_several or noted):
            others = [each for each in self.online_homes if self._is_here(each, name, topic.id)]
            if len(others) == 1:
                return Place(others[0].log_dir, True)
            if others:
                paths = ", ".join(each.path for each in others)
                return Place(others[0].log_dir, problem=f"found in {paths}; move all but the right one away")
        if noted and home is None:
            return Place(FIRST, problem=f"its log directory (directory.id {noted}) is not among log.dirs")
        home = home or self._homes[FIRST]
        left = partition_directory.left_name(name, topic.id)
        if is_lost and self.are_several and partition_directory.log_bytes(home.path, left) is not None:
            return Place(home.log_dir, problem="it was moved to another log directory, which is not here or offline")
        assert home.load is not None
        there = partition_directory.log_bytes(home.path, name) is not None
        return Place(home.log_dir, there or home.load.written_up_to(topic.name, partition) > 0)

    def in_the_way(self, name: str, topic_id: bytes) -> str:
        """Why a log of that name is not made; empty if it can be."""
        foreign = [each.path for each in self.online_homes if self.is_foreign(each, name, topic_id)]
        if not foreign:
            return ""
        return f"{foreign[0]}/{name} holds records of another topic, or nobody knows of which; move it away"

    def _moved_to(self, name: str, topic_id: bytes) -> Home | None:
        """The log directory whose directory of that name is marked as the whole copy of another, if it is the only
        one."""
        marked = [
            home
            for home in self.online_homes
            if partition_directory.was_moved_here(f"{home.path}/{name}") and self._is_here(home, name, topic_id)
        ]
        return marked[0] if len(marked) == 1 else None

    def _is_here(self, home: Home, name: str, topic_id: bytes) -> bool:
        if partition_directory.log_bytes(home.path, name) is None:
            return False
        return partition_directory.read_topic_id(os.path.join(home.path, name)) in (topic_id, None)

    def load(self, partitions: Sequence[PartitionToLoad]) -> int:
        """Recover and publish them, one log directory after the other; returns the highest producer id in them, or
        −1."""
        for home in self._homes:
            mine = [partition for partition in partitions if partition.log_dir == home.log_dir]
            if mine and home.load is not None:
                home.load(mine)
        for partition in partitions:
            self._settle(partition.ordinal, partition.log_dir)
        return max((home.load.highest_producer_id for home in self._homes if home.load is not None), default=-1)

    def show_offline(self, partition: PartitionToLoad) -> int:
        """A row for a partition whose log directory cannot be used; returns a Kafka error code."""
        self._settle(partition.ordinal, partition.log_dir)
        error = self._log.publish(
            ordinal=partition.ordinal,
            topic_id=partition.topic_id,
            topic_row=partition.topic_row,
            partition=partition.partition,
            log_dir=partition.log_dir,
            dir=partition.dir,
            state={},
            hidden=True,
        )
        return error or self._log.set_flags(partition.ordinal, int(PartitionFlags.EXISTS), 0)

    def show_absent(self, ordinal: int, topic_id: bytes, topic_row: int, partition: int) -> int:
        """A row for a partition that has no log here, only an identity; returns a Kafka error code."""
        self._settle(ordinal, None)
        error = self._log.publish(
            ordinal=ordinal,
            topic_id=topic_id,
            topic_row=topic_row,
            partition=partition,
            log_dir=FIRST,
            dir="",
            state={},
            hidden=True,
        )
        return error or self._log.set_flags(ordinal, int(PartitionFlags.EXISTS), int(PartitionFlags.DELETED))

    def is_foreign(self, home: Home, name: str, topic_id: bytes) -> bool:
        """Whether a directory of that name holds records of another topic, or nobody knows whose."""
        if not partition_directory.log_bytes(home.path, name):
            return False
        return partition_directory.read_topic_id(f"{home.path}/{name}") != topic_id

    @property
    def online(self) -> bool:
        """Whether partitions can be made: what is made in an offline directory could never be written or read."""
        return any(self._log.log_dir_online(home.log_dir) for home in self._homes)

    @property
    def some_offline(self) -> bool:
        """Whether a log directory cannot be used."""
        return not all(home.load is not None and self._log.log_dir_online(home.log_dir) for home in self._homes)

    @property
    def has_room(self) -> bool:
        """False after a start on a full disk: what is left there is for what makes room."""
        return any(self._takes_partitions(home) for home in self._homes)

    def _takes_partitions(self, home: Home) -> bool:
        return (
            home.load is not None and self._log.log_dir_online(home.log_dir) and self._log.takes_appends(home.log_dir)
        )

    def _emptiest(self) -> Home | None:
        fitting = [home for home in self._homes if self._takes_partitions(home)]
        return min(fitting, key=lambda home: (self._held[home.log_dir], home.log_dir), default=None)

    def create(self, topic: TopicState, partition: int, ordinal: int, log_dir: int | None = None) -> int:
        """A new, empty partition in a row; returns a Kafka error code: KAFKA_STORAGE_ERROR also if records of somebody
        else lie where it would be. `log_dir`: where, if that is known; it is noted in the topic."""
        name = partition_directory.directory_name(topic.name, partition)
        home = self._emptiest() if log_dir is None else self._homes[log_dir]
        if home is None or self.in_the_way(name, topic.id):
            return ErrorCode.KAFKA_STORAGE_ERROR
        try:
            partition_directory.prepare(home.path, name, topic.id)
        except OSError:
            return ErrorCode.KAFKA_STORAGE_ERROR
        self._note(topic, partition, home)
        self._settle(ordinal, home.log_dir)
        self._crash_point("controller.directory_made")
        error = self._log.create(
            ordinal=ordinal,
            topic_id=topic.id,
            topic_row=topic.row,
            partition=partition,
            log_dir=home.log_dir,
            dir=name,
            leader_epoch=FIRST_EPOCH,
            now_ms=self._now_ms(),
        )
        self._crash_point("controller.partition_created")
        return error

    def _note(self, topic: TopicState, partition: int, home: Home) -> None:
        """Which log directory holds a partition; where there is one, there is nothing to say."""
        if self.are_several:
            missing = partition + 1 - len(topic.directories)
            topic.directories = [*topic.directories, *[""] * missing]
            topic.directories[partition] = home.id

    def hide(self, ordinal: int) -> int:
        """The row's partition is deleted: appends and reads of it fail from here on. Returns a Kafka error code."""
        self._settle(ordinal, None)
        gone = PartitionFlags.EXISTS | PartitionFlags.ONLINE
        return self._log.set_flags(ordinal, int(PartitionFlags.DELETED), int(gone))

    def retire(self, name: str, topic_id: bytes, suffix: str = partition_directory.DELETE_SUFFIX) -> str | None:
        """Rename a directory out of the way if it is that topic's; returns its new name. OSError passes. In a log
        directory that is offline it stays, and is a stray when that comes back."""
        retired = None
        for home in self.online_homes:
            owner = partition_directory.read_topic_id(f"{home.path}/{name}")
            if owner in (topic_id, None) and not (owner is None and self.is_foreign(home, name, topic_id)):
                retired = partition_directory.retire(home.path, name, topic_id, suffix) or retired
            if self.are_several:
                partition_directory.retire_future(home.path, name, topic_id)
        return retired

    # ---- creations that the store does not know yet

    def note_creation(self, topic: TopicState) -> None:
        """Partitions of a topic are going to be made."""
        unfinished_creation.note(self._homes[FIRST].path, topic.name, topic.id)

    def creations_are_over(self) -> None:
        """The store knows all that was made, or it was put away."""
        unfinished_creation.forget(self._homes[FIRST].path)

    def half_made(self) -> dict[str, set[bytes]]:
        """Ids by topic of creations that were noted and are not over."""
        return unfinished_creation.noted(self._homes[FIRST].path)

    # ---- moves between log directories

    def home(self, log_dir: int) -> Home:
        """A log directory by its number."""
        return self._homes[log_dir]

    def ask_move(self, ordinal: int, topic_id: bytes, log_dir: int) -> int:
        """Have a partition moved, after a start that found its copy half made; returns a Kafka error code."""
        return self._log.ask_move(ordinal, topic_id, log_dir)

    def settle(self, topic: TopicState, partition: int, ordinal: int, log_dir: int) -> bool:
        """A partition lies in that log directory; whether the topic noted another one until now."""
        self._settle(ordinal, log_dir)
        home = self._homes[log_dir]
        noted = topic.directories[partition] if partition < len(topic.directories) else ""
        if noted == home.id or (not noted and log_dir == FIRST):
            return False
        self._note(topic, partition, home)
        return True

    def close_stale(self) -> None:
        """Close descriptors of files that were removed meanwhile."""
        self._log.close_stale()

    def sync(self) -> None:
        """Make creations and renames in the log directories durable. OSError passes."""
        for home in self.online_homes:
            disk.patiently(disk.sync_directory, home.path)


def names_of(topic: str, partitions: Iterable[int]) -> list[str]:
    """Directory names of a topic's partitions."""
    return [partition_directory.directory_name(topic, partition) for partition in partitions]
