"""The cluster's topics as this broker shows them, and the replicas of them that lie here. Controller process of a
broker
of a cluster only.

The store says which topics exist and who holds which partition; a topic has a topic row and one partition row for each
partition, as in a broker that is alone. A row whose partition has no log here has an identity without a directory: its
readers find who leads it in `assignments`. Logs are made when the controller says so (LeaderAndIsr), and loaded at the
start when they are there. What belongs to nobody any more is set aside (`-stray`), never destroyed.
"""

from collections.abc import Callable, Sequence

from mpbroker.config.topic_config import TopicSettings
from mpbroker.controller.controller_context import ControllerContext, TopicState
from mpbroker.controller.moves import Moves
from mpbroker.controller.partition_logs import Home, PartitionLogs
from mpbroker.controller.partition_rows import PartitionRows
from mpbroker.errors import KafkaError
from mpbroker.log import partition_directory
from mpbroker.log.log_loader import PartitionToLoad
from mpbroker.log.partition_directory import DELETE_SUFFIX, STRAY_SUFFIX, FoundDirectory, directory_name
from mpbroker.metadata.metadata_snapshot import MetadataSnapshot
from mpbroker.shm.cluster_table import Assignment, assignment_clear, assignment_read, assignment_write
from mpbroker.shm.core import Core
from mpbroker.shm.events import Events
from mpbroker.shm.topic_table import PartitionWho


class ClusterTopics:
    """Rows and logs. `self_id`: this broker; `settings_of(configs)`: the settings in force of a topic."""

    def __init__(
        self,
        *,
        core: Core,
        self_id: int,
        snapshot: MetadataSnapshot,
        rows: PartitionRows,
        logs: PartitionLogs,
        settings_of: Callable[[dict[str, str]], TopicSettings],
        log: Events,
        crash_point: Callable[[str], object],
        count: Callable[[str], object],
    ) -> None:
        self._core = core
        self._self_id = self_id
        self._snapshot = snapshot
        self._rows = rows
        self._logs = logs
        self._settings_of = settings_of
        self._log = log
        self._crash_point = crash_point
        self._count = count
        self._made = False
        self.context = ControllerContext()

    # ---- at the start

    def recover(self, topics: Sequence[TopicState]) -> None:
        """Show exactly these topics; load the logs of their replicas that are here and have no row yet."""
        self.context = ControllerContext(topics)
        live, shown = self._rows.recover(), self._snapshot.recover()
        held = {
            ordinal: who for rows in live.values() for ordinal in rows.values() if (who := self._rows.who(ordinal)).dir
        }
        self._logs.know({ordinal: who.log_dir for ordinal, who in held.items()})
        for topic_id in live.keys() | shown.keys():
            if topic_id not in self.context.by_id:
                self._forget(topic_id, shown.pop(topic_id, None), live.get(topic_id, {}), STRAY_SUFFIX)
        to_load: list[PartitionToLoad] = []
        for topic in topics:
            if not self._take_topic_row(topic, live.get(topic.id, {}), shown.get(topic.id)):
                self.context.remove(topic)
                continue
            to_load += self._fill_in(topic, live.get(topic.id, {}))
        self._set_strays_aside()
        if to_load:
            self._logs.load(to_load)
        for topic in self.context.by_id.values():
            self._show(topic)
        self._snapshot.announce_all()
        self._moves = Moves(
            context=self.context,
            store=None,
            rows=self._rows,
            logs=self._logs,
            moves=lambda: self._core.moves,
            log=self._log,
            count=self._count,
        )
        self._moves.resume()

    def note_moves(self) -> None:
        """Where partitions lie that moved between log directories."""
        self._moves.note()

    def _take_topic_row(self, topic: TopicState, live: dict[int, int], shown: int | None) -> bool:
        """False: there is no room; the topic is not served here, and a line says so."""
        if shown is None:
            named = {self._rows.who(ordinal).topic_row for ordinal in live.values()}
            try:
                shown = self._snapshot.reserve(min(named, default=None))
            except IndexError:
                return self._no_room(topic)
        topic.row = shown
        if self._rows.free < len(topic.replicas) - len(live):
            self._snapshot.release(shown)
            return self._no_room(topic)
        return True

    def _no_room(self, topic: TopicState) -> bool:
        self._count("controller_table_full")
        remedy = "raise mpbroker.max.topics or mpbroker.max.partitions"
        self._log.error("topic_not_shown", topic=topic.name, partitions=len(topic.replicas), remedy=remedy)
        return False

    def _fill_in(self, topic: TopicState, live: dict[int, int]) -> list[PartitionToLoad]:
        """A row for each partition; returned are those whose logs are to be loaded."""
        settings = self._settings_of(topic.configs)
        to_load, ordinals = [], []
        for partition, replicas in enumerate(topic.replicas):
            ordinal = live.get(partition)
            if ordinal is None:
                ordinal = self._rows.allocate()
                assignment_clear(self._core, ordinal)
                found = self._found(topic, partition, ordinal, settings) if self._self_id in replicas else None
                if found is None:
                    self._show_absent(topic, partition, ordinal)
                else:
                    to_load.append(found)
            ordinals.append(ordinal)
        topic.ordinals = ordinals
        return to_load

    def _found(
        self, topic: TopicState, partition: int, ordinal: int, settings: TopicSettings
    ) -> PartitionToLoad | None:
        """None: it has no log here, or cannot be served."""
        name = directory_name(topic.name, partition)
        place = self._logs.find(topic, partition)
        found = PartitionToLoad(ordinal, topic.id, topic.row, topic.name, partition, place.log_dir, name, settings)
        if place.problem:
            self._count("partitions_offline_at_start")
            remedy = "bring the log directory back and start again"
            self._log.error("partition_offline", partition=name, error=place.problem, remedy=remedy)
            return None
        return found if place.has_log else None

    def _set_strays_aside(self) -> None:
        """Directories of topics that exist no more, or of partitions that are somebody else's now. A store without any
        topic may be the wrong one: then all stays as it is."""
        if not self.context.by_id:
            return
        for home in self._logs.online_homes:
            for found in list(partition_directory.find_all(home.path)):
                if not self._is_wanted(found):
                    self._set_aside(home, found)

    def _is_wanted(self, found: FoundDirectory) -> bool:
        topic = self.context.by_name.get(found.topic)
        if topic is None or found.partition >= len(topic.replicas) or found.topic_id not in (topic.id, None):
            return False
        return self._self_id in topic.replicas[found.partition]

    def _set_aside(self, home: Home, found: FoundDirectory) -> None:
        if found.topic_id is None:  # nothing says that it was ever a partition's
            self._count("stray_directories")
            self._log.warning("stray_directory", directory=found.name, left="as it is", remedy="move it away")
            return
        unused = partition_directory.is_unused(home.path, found.name)
        suffix = DELETE_SUFFIX if unused else STRAY_SUFFIX
        renamed = partition_directory.retire(home.path, found.name, found.topic_id, suffix)
        if not unused:
            self._count("stray_directories")
            self._log.warning("stray_set_aside", directory=found.name, renamed=renamed or "")

    # ---- while it runs

    def put(self, topic: TopicState) -> None:
        """A topic is new, or has other partitions, replicas or settings."""
        known = self.context.by_id.get(topic.id)
        if known is None:
            namesake = self.context.by_name.get(topic.name)
            if namesake is not None:
                self.remove(namesake.id)
            if not self._take_topic_row(topic, {}, None):
                return
            self._fill_in(topic, {})
            self.context.add(topic)
        else:
            live = dict(enumerate(known.ordinals))
            if self._rows.free < len(topic.replicas) - len(live):
                self._count("controller_table_full")
                self._log.error("topic_not_shown", topic=topic.name, partitions=len(topic.replicas))
                return
            known.replicas, known.configs, known.revision = topic.replicas, topic.configs, topic.revision
            self._fill_in(known, live)
            topic = known
        self._show(topic)

    def remove(self, topic_id: bytes) -> None:
        """A topic exists no more: hidden, its logs renamed for removal."""
        topic = self.context.by_id.get(topic_id)
        if topic is None:
            return
        self.context.remove(topic)
        self._forget(topic_id, topic.row, dict(enumerate(topic.ordinals)), DELETE_SUFFIX)
        self._log.info("topic_deleted", topic=topic.name, id=topic.id.hex(), partitions=len(topic.replicas))

    def _forget(self, topic_id: bytes, row: int | None, ordinals: dict[int, int], suffix: str) -> None:
        """`suffix`: who was told that the topic was deleted has its logs removed; a store read anew that does not name
        it may be an older one, so that they are set aside."""
        if row is not None:
            self._snapshot.retire(row)
        self._crash_point("agent.topic_hidden")
        for ordinal in ordinals.values():
            name = self._rows.who(ordinal).dir
            assignment_clear(self._core, ordinal)
            self._logs.hide(ordinal)
            renamed = self._retire(name, topic_id, suffix) if name else None
            if renamed and suffix == STRAY_SUFFIX:
                self._count("stray_directories")
                self._log.warning("stray_set_aside", directory=name, renamed=renamed)
            self._crash_point("agent.partition_forgotten")
        self._rows.release(list(ordinals.values()))
        if row is not None:
            self._snapshot.release(row)

    def _retire(self, name: str, topic_id: bytes, suffix: str) -> str | None:
        """The new name, if it got one. A failure leaves the directory as it is; the next start sets it aside."""
        renamed = None
        try:
            renamed = self._logs.retire(name, topic_id, suffix)
            self._logs.sync()
        except OSError as error:
            self._log.warning("topic_deletion_waits", topic=name, detail=str(error))
        return renamed

    def _show(self, topic: TopicState) -> None:
        self._rows.link(topic.ordinals)
        self._snapshot.publish(topic.row, topic.image())
        self._crash_point("agent.topic_shown")

    def announce(self, topic: TopicState) -> None:
        """Who leads its partitions has changed here: the coordinator looks again."""
        self._snapshot.announce(topic.row)

    def has_log(self, ordinal: int) -> bool:
        """Whether the row's partition lies here."""
        return bool(self._rows.who(ordinal).dir)

    def who(self, ordinal: int) -> PartitionWho:
        """The identity in a row."""
        return self._rows.who(ordinal)

    @property
    def can_create(self) -> bool:
        """Whether a log can be made now."""
        return self._logs.online and self._logs.has_room

    @property
    def may_be_offline(self) -> bool:
        """Whether a log that is not found may lie in a log directory that cannot be used."""
        return self._logs.some_offline

    def create(self, topic: TopicState, partition: int) -> int:
        """Make the log of a partition that has none here; returns a Kafka error code."""
        ordinal = topic.ordinals[partition]
        self._made = True
        error = self._logs.create(topic, partition, ordinal)
        if error and not self.has_log(ordinal):
            self._show_absent(topic, partition, ordinal)
        self._crash_point("agent.replica_created")
        return error

    def announce_made(self) -> None:
        """After logs were made: who looked while a row was written saw its topic not whole, and looks again."""
        if self._made:
            self._made = False
            self._snapshot.announce_all()

    def drop(self, topic: TopicState, partition: int, suffix: str) -> None:
        """The replica is not ours any more: its row stays without a log, its directory is renamed."""
        ordinal = topic.ordinals[partition]
        name = self._rows.who(ordinal).dir
        if name:
            self._logs.hide(ordinal)
            self._crash_point("agent.replica_hidden")
            self._retire(name, topic.id, suffix)
            self._crash_point("agent.replica_dropped")
        self._show_absent(topic, partition, ordinal)
        self._snapshot.announce_all()

    def _show_absent(self, topic: TopicState, partition: int, ordinal: int) -> None:
        error = self._logs.show_absent(ordinal, topic.id, topic.row, partition)
        if error:
            raise KafkaError(error, f"the row of {directory_name(topic.name, partition)} cannot be written")

    def assign(self, topic: TopicState, partition: int, assignment: Assignment) -> None:
        """What UpdateMetadata says of a partition."""
        ordinal = topic.ordinals[partition]
        if assignment_read(self._core, ordinal) != assignment:
            assignment_write(self._core, ordinal, assignment)
            self._crash_point("agent.assigned")
