"""Making shared memory and directories agree with the store: at every start of the controller, and after a failure.

The store is right. After a start of the broker the tables are empty and every partition is loaded from its directory;
after the mere restart of this process the rows are live, in use by others, and are left alone. Which of the two it is
needs no asking: a live row is kept, a missing one is loaded if it has segments and created if it has none. Everything
here may be done again after any interruption.
"""

import os
from collections.abc import Callable
from typing import Final

from mpbroker.config.topic_config import TopicSettings
from mpbroker.controller.controller_context import ControllerContext, TopicState
from mpbroker.controller.controller_store import ControllerStore
from mpbroker.controller.partition_logs import Home, PartitionLogs, names_of
from mpbroker.controller.partition_rows import PartitionRows
from mpbroker.controller.topic_deletion import TopicDeletions
from mpbroker.errors import KafkaError, MpbrokerError
from mpbroker.log import partition_directory
from mpbroker.log.data_dir import FIRST
from mpbroker.log.log_loader import PartitionToLoad
from mpbroker.log.partition_directory import FoundDirectory
from mpbroker.metadata.metadata_snapshot import MetadataSnapshot
from mpbroker.metadata.topic_names import CLUSTER_METADATA_TOPIC
from mpbroker.shm.events import Events

_KAFKAS: Final = "it is Kafka's own metadata, of no use here; move it away when that Kafka shall not run again"
_ADOPT: Final = "`mpbroker adopt` takes it in as a topic; otherwise move it away"
_NO_LOG: Final = "it holds no log; move it away"
Live = dict[bytes, dict[int, int]]  # topic id → partition → ordinal


class TablesTooSmall(MpbrokerError):
    """The store holds more than the tables in shared memory have room for: a setting was lowered."""


class ControllerRecovery:
    """One pass over everything. `settings_of(configs)`: the settings in force of a topic."""

    def __init__(
        self,
        *,
        store: ControllerStore,
        snapshot: MetadataSnapshot,
        rows: PartitionRows,
        logs: PartitionLogs,
        deletions: TopicDeletions,
        settings_of: Callable[[dict[str, str]], TopicSettings],
        log: Events,
        crash_point: Callable[[str], object],
        count: Callable[[str], object],
    ) -> None:
        self._count = count
        self._store = store
        self._snapshot = snapshot
        self._rows = rows
        self._logs = logs
        self._deletions = deletions
        self._settings_of = settings_of
        self._log = log
        self._crash_point = crash_point

    def run(self) -> ControllerContext:
        """Returns the topics that exist, all of them shown. OSError: the data directory cannot be used."""
        self._store.load_operations()
        context = ControllerContext(self._store.load_topics())
        live, shown = self._rows.recover(), self._snapshot.recover()
        self._logs.know({row: self._rows.who(row).log_dir for rows in live.values() for row in rows.values()})
        self._resume_deletions(live, shown)
        for topic in context.by_id.values():
            self._take_rows(topic, live.get(topic.id, {}), shown.pop(topic.id, None))
        for row in shown.values():
            self._snapshot.retire(row)
            self._snapshot.release(row)
        self._throw_away_unknown(context, live)
        self._look_for_strays(context)
        self._fill_in(context, live)
        for topic in context.by_id.values():
            self._rows.link(topic.ordinals)
            self._snapshot.publish(topic.row, topic.image())
            self._crash_point("controller.topic_recovered")
        self._snapshot.announce_all()
        return context

    def _resume_deletions(self, live: Live, shown: dict[bytes, int]) -> None:
        self._deletions.pending.clear()
        for record in self._store.load_deletions():
            topic_id = bytes.fromhex(record.id)
            self._deletions.add(record, shown.pop(topic_id, -1), list(live.pop(topic_id, {}).values()))
        self._deletions.finish_all()

    def _take_rows(self, topic: TopicState, live: dict[int, int], shown: int | None) -> None:
        """Its topic row: the one that shows it, or else the one its partition rows name (that is never rewritten)."""
        if shown is None:
            named = {self._rows.who(ordinal).topic_row for ordinal in live.values()}
            try:
                shown = self._snapshot.reserve(min(named, default=None))
            except IndexError:
                raise TablesTooSmall("the topic table has no row left; raise mpbroker.max.topics") from None
        topic.row = shown

    def _throw_away_unknown(self, context: ControllerContext, live: Live) -> None:
        """Partitions prepared by a predecessor that died before it could commit them."""
        for topic_id, partitions in live.items():
            topic = context.by_id.get(topic_id)
            known = range(len(topic.replicas)) if topic else range(0)
            for partition in sorted(set(partitions) - set(known)):
                ordinal = partitions.pop(partition)
                name = self._rows.who(ordinal).dir
                error = self._logs.hide(ordinal)
                if error:
                    raise KafkaError(error, f"partition row {ordinal} ({name}) of an uncommitted topic")
                self._crash_point("controller.unknown_hidden")
                self._logs.retire(name, topic_id)
                self._rows.release([ordinal])

    def _look_for_strays(self, context: ControllerContext) -> None:
        """Directories that belong to no partition of the store. They are left as they are, with a line, even empty
        ones, of which a topic has the more partitions. Only what a creation left that was never committed goes."""
        half_made = self._logs.half_made()
        for home in self._logs.online_homes:
            for found in partition_directory.find_all(home.path):
                if self._belongs(context, home, found) or found.topic in self._deletions.pending:
                    continue
                ids = half_made.get(found.topic, ())
                if (
                    ids
                    and found.topic_id in (*ids, None)
                    and partition_directory.is_unused(home.path, found.name, True)
                ):
                    self._throw_away(home, found)
                    continue
                if self._moved_away(context, home, found):
                    continue
                self._count("stray_directories")
                self._log.warning(
                    "stray_directory",
                    directory=found.name if home.log_dir == FIRST else os.path.join(home.path, found.name),
                    left="as it is",
                    remedy=_remedy(home, found),
                )
        self._logs.creations_are_over()

    def _belongs(self, context: ControllerContext, home: Home, found: FoundDirectory) -> bool:
        """Whether a directory is that of a partition. Of several the others are strays."""
        topic = context.by_name.get(found.topic)
        if topic is None or found.partition >= len(topic.replicas) or found.topic_id not in (topic.id, None):
            return False
        return not self._logs.are_several or self._logs.find(topic, found.partition).log_dir == home.log_dir

    def _moved_away(self, context: ControllerContext, home: Home, found: FoundDirectory) -> bool:
        """Whether a directory is what a move left: all died between its two renames. It gets another name and stays."""
        topic = context.by_name.get(found.topic)
        if topic is None or found.topic_id != topic.id or found.partition >= len(topic.replicas):
            return False
        there = self._logs.home(self._logs.find(topic, found.partition).log_dir)
        if not partition_directory.was_moved_here(f"{there.path}/{found.name}"):
            return False
        new_name = partition_directory.retire(home.path, found.name, topic.id, partition_directory.STRAY_SUFFIX)
        self._log.warning(
            "moved_partition_left", directory=f"{home.path}/{found.name}", renamed=new_name, to=there.path
        )
        return True

    def _throw_away(self, home: Home, found: FoundDirectory) -> None:
        suffix = partition_directory.DELETE_SUFFIX
        new_name = partition_directory.retire(home.path, found.name, found.topic_id or bytes(16), suffix)
        self._crash_point("controller.stray_renamed")
        self._log.info("unused_directory", directory=found.name, renamed=new_name)

    def _fill_in(self, context: ControllerContext, live: Live) -> None:
        """Rows for partitions that have none: loaded from their segments, or created where there never were any."""
        to_load: list[PartitionToLoad] = []
        for topic in context.by_id.values():
            mine = live.get(topic.id, {})
            topic.ordinals = []
            names = names_of(topic.name, range(len(topic.replicas)))
            settings = self._settings_of(topic.configs) if len(mine) < len(names) else None
            for partition, name in enumerate(names):
                ordinal = mine.get(partition)
                if ordinal is None:
                    ordinal = self._allocate()
                    assert settings is not None
                    place = self._logs.find(topic, partition)
                    found = PartitionToLoad(
                        ordinal, topic.id, topic.row, topic.name, partition, place.log_dir, name, settings
                    )
                    problem = place.problem or ("" if place.has_log else self._logs.in_the_way(name, topic.id))
                    if problem:
                        self._show_offline(found, problem)
                    elif place.has_log:
                        to_load.append(found)
                    else:
                        self._create(topic, partition, ordinal, name, place.log_dir)
                topic.ordinals.append(ordinal)
        if to_load:
            self._pass_producer_ids(self._logs.load(to_load))
        self._check_shown(to_load)

    def _pass_producer_ids(self, highest: int) -> None:
        """A store that is new (`adopt`) or an older copy would give ids out again: a log takes the first records of a
        second producer with an id for duplicates, which are acknowledged and not written."""
        if self._store.pass_producer_ids(highest):
            self._log.info("producer_ids_passed", highest=highest, why="the logs know ids that the store did not")

    def _allocate(self) -> int:
        try:
            return self._rows.allocate()
        except IndexError:
            raise TablesTooSmall("the partition table has no row left; raise mpbroker.max.partitions") from None

    def _show_offline(self, partition: PartitionToLoad, problem: str) -> None:
        self._count("partitions_offline_at_start")
        remedy = "bring the log directory back and start again, or delete the topic"
        self._log.error("partition_offline", partition=partition.dir, error=problem, remedy=remedy)
        error = self._logs.show_offline(partition)
        if error:
            raise KafkaError(error, f"the row of {partition.dir} cannot be written")

    def _create(self, topic: TopicState, partition: int, ordinal: int, name: str, log_dir: int) -> None:
        self._log.warning("log_directory_missing", directory=name, made="empty")
        error = self._logs.create(topic, partition, ordinal, log_dir)
        if error:
            raise KafkaError(error, f"the log of {name} cannot be created")

    def _check_shown(self, loaded: list[PartitionToLoad]) -> None:
        for partition in loaded:
            if self._rows.who(partition.ordinal).topic_id != partition.topic_id:
                raise MpbrokerError(f"the log of {partition.dir} was not loaded")


def _remedy(home: Home, found: FoundDirectory) -> str:
    """What to do with a directory that belongs to no topic."""
    if found.topic == CLUSTER_METADATA_TOPIC:
        return _KAFKAS
    from mpbroker.controller import adoptable  # only here: where there is one

    return _ADOPT if adoptable.is_partition(home.path, found) else _NO_LOG
