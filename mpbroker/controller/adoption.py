"""`mpbroker adopt`: topics are taken in by their directories, and directories set aside as strays brought back.

Runs in the command's process, with the log directories locked: no broker runs there. What a store says stays; topics
that it does not name are added to it, with the id of their `partition.metadata` (Apache Kafka's own too). Their
settings stood in the store that is lost: until a user says otherwise nothing of them is deleted or compacted. What is
in doubt is left where it is, with a sentence, and so is what would make a store with which the broker does not start.
"""

import os
import re
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from mpbroker.config.table import SETTINGS
from mpbroker.controller import adoptable
from mpbroker.controller.controller_context import ControllerContext, TopicState
from mpbroker.controller.controller_store import ControllerStore
from mpbroker.errors import ConfigError
from mpbroker.log import data_dir, partition_directory
from mpbroker.log.clean_shutdown import remove_marker
from mpbroker.log.disk import sync_directory
from mpbroker.log.open_transactions import open_transactions
from mpbroker.log.partition_directory import STRAY_SUFFIX, FoundDirectory
from mpbroker.log.unusable import unusable
from mpbroker.metadata.keys import Keys
from mpbroker.metadata.sqlite_store import SqliteStore
from mpbroker.metadata.store_peek import STORE_FILE, UnreadableStore, peek
from mpbroker.metadata.topic_names import (
    CLUSTER_METADATA_TOPIC,
    OFFSETS_TOPIC,
    TRANSACTIONS_TOPIC,
    is_internal_topic,
    is_legal_topic_name,
)

MAX_PARTITIONS: Final = 100_000
MAX_TOLD: Final = 10
DEFAULT_ROOM: Final = (int(SETTINGS["mpbroker.max.topics"].default), int(SETTINGS["mpbroker.max.partitions"].default))
_STRAY = re.compile(r"(.{1,249})-(0|[1-9][0-9]{0,9})\.[0-9a-f-]{32,36}" + re.escape(STRAY_SUFFIX))
KEPT: Final = {"cleanup.policy": "delete", "retention.bytes": "-1", "retention.ms": "-1"}
"""Of a topic that was taken in. All three, because the broker's defaults may say something else."""
INTERNAL: Final = {
    OFFSETS_TOPIC: {"cleanup.policy": "compact", "compression.type": "producer", "segment.bytes": "104857600"},
    TRANSACTIONS_TOPIC: {
        "cleanup.policy": "compact",
        "compression.type": "uncompressed",
        "min.insync.replicas": "1",
        "segment.bytes": "104857600",
        "unclean.leader.election.enable": "false",
    },
}
"""Of the coordinators' topics, whose settings are the same everywhere: a broker makes them so, and Kafka does."""
INTERNAL_PARTITIONS: Final = 50
"""Of an internal topic, unless `*.num.partitions` says otherwise."""
Topics = dict[str, dict[int, FoundDirectory]]


class Adoption(NamedTuple):
    """What was done: sentences for people. `kept`: topics that were given settings which keep all records."""

    taken: list[str]
    left: list[str]
    kept: list[str]


def adopt(
    path: str,
    node_id: int | None = None,
    further: Sequence[str] = (),
    *,
    fill_missing: bool = False,
    room: tuple[int, int] = DEFAULT_ROOM,
) -> Adoption:
    """Take in what can be taken in. ConfigError when the directories' identities contradict each other. Safe to run
    again. `further`: the log directories beside the first, which has the store; `fill_missing`: also topics of which
    most partitions are missing, and missing ones that had records begin empty; `room`: how many topics and partitions
    the broker has room for."""
    of_others = [_identity_of_further(each) for each in further]
    meta = identity(path, node_id, next((each for each in of_others if each is not None), None))
    homes = {path: meta.directory_id}
    if further:
        for each in further:
            data_dir.prepare(each, meta.node_id, meta.cluster_id)
        homes = {each: _directory_id(each) for each in (path, *further)}
        if len(set(homes.values())) < len(homes):
            problem = f"{', '.join(homes)}: two of them have one directory.id: one is a copy of another"
            raise ConfigError("log.dirs", path, problem=problem)
    store = SqliteStore(os.path.join(path, STORE_FILE))
    try:
        controller_store = ControllerStore(store, Keys(meta.cluster_id), boot_id=0)
        return _Adopter(homes, meta.node_id, controller_store, fill_missing, room).run()
    finally:
        store.close()


def check(paths: Sequence[str]) -> None:
    """ConfigError if nothing in them is ours or Kafka's: a store written there would be the only thing in it."""
    for path in paths:
        try:
            if _is_anything_ours(path):
                return
        except OSError as error:
            raise unusable(path, error) from None
    problem = f"{', '.join(paths)}: no topic's directory is there, and no broker's {data_dir.META_FILE} or {STORE_FILE}"
    raise ConfigError("D", paths[0], problem=f"{problem}. Nothing was changed")


def _is_anything_ours(path: str) -> bool:
    return (
        any(os.path.lexists(os.path.join(path, name)) for name in (STORE_FILE, data_dir.META_FILE))
        or any(adoptable.is_partition(path, each) for each in partition_directory.find_all(path))
        or any(_strays_in(path))
    )


def _strays_in(home: str) -> Iterator[FoundDirectory]:
    """Directories that were set aside with records."""
    for name in sorted(os.listdir(home)):
        stray = _STRAY.fullmatch(name)
        if stray and partition_directory.log_bytes(home, name):
            topic_id = partition_directory.read_topic_id(os.path.join(home, name))
            yield FoundDirectory(name, stray[1], int(stray[2]), topic_id)


def _identity_of_further(path: str) -> data_dir.MetaProperties | None:
    problem = ""
    if os.path.exists(os.path.join(path, STORE_FILE)):
        problem = f"has a metadata store of its own: name it first; or, if it is of no use, move {STORE_FILE}* away"
    elif os.path.isdir(os.path.join(path, f"{CLUSTER_METADATA_TOPIC}-0")):
        problem = "holds the metadata of an Apache Kafka: name it first"
    if problem:
        raise ConfigError("log.dirs", path, problem=f"{path} {problem}. Nothing was changed")
    return data_dir.read_meta(path)


def _directory_id(path: str) -> str:
    """Of several directories: partitions are told apart by them. One without gets one, and one that Kafka with
    ZooKeeper wrote is written as ours, by which a start knows it; what the file said is kept beside it."""
    meta = data_dir.read_meta(path)
    assert meta is not None
    if not meta.directory_id or data_dir.is_of_zookeeper(path):
        meta = meta._replace(directory_id=meta.directory_id or data_dir.new_id())
        data_dir.keep_meta(path)
        data_dir.write_meta(path, meta)
    return meta.directory_id


def identity(path: str, node_id: int | None, known: data_dir.MetaProperties | None = None) -> data_dir.MetaProperties:
    """meta.properties, or one written anew for the cluster of the store, or for a new cluster. `known`: what another
    log directory says."""
    try:
        clusters = peek(os.path.join(path, STORE_FILE)).clusters
    except UnreadableStore as error:
        raise ConfigError(
            "log.dirs", path, problem=f"{error}; put a copy back, or move {STORE_FILE}* away to begin a new store"
        ) from None
    meta = data_dir.read_meta(path)
    if meta is None:
        if len(clusters) > 1:
            names = ", ".join(sorted(clusters))
            raise ConfigError("log.dirs", path, problem=f"{path} holds topics of several clusters ({names})")
        node = known.node_id if known else 0
        cluster = min(clusters, default=known.cluster_id if known else None)
        return data_dir.prepare(path, node if node_id is None else node_id, cluster)
    if clusters and meta.cluster_id not in clusters:
        raise ConfigError(
            "cluster.id",
            meta.cluster_id,
            problem=f"{path}: the store belongs to cluster {', '.join(sorted(clusters))}, {data_dir.META_FILE} says "
            f"{meta.cluster_id}; remove {data_dir.META_FILE} to have it written anew for the store",
        )
    if node_id not in (None, meta.node_id):
        raise ConfigError("node.id", node_id, f"{meta.node_id}, the node that {path} belongs to")
    return meta


class _Adopter:
    """`homes`: log directories with their ids. A directory that is not in the first is named by its whole path."""

    def __init__(
        self, homes: dict[str, str], node_id: int, store: ControllerStore, fill_missing: bool, room: tuple[int, int]
    ) -> None:
        self._homes = homes
        self._path = next(iter(homes))
        self._twice: dict[str, str] = {}  # topics of which a partition lies in two log directories: which ones
        self._made_anew: dict[str, FoundDirectory] = {}  # by name: what a stray comes back to the place of
        self._fill_missing = fill_missing
        self._room = room
        self._written = {home: adoptable.Written(home) for home in homes}
        self._node_id = node_id
        self._store = store
        self._context = ControllerContext(store.load_topics())
        self._deleted = {record.name for record in store.load_deletions()}
        self._done = Adoption([], [], [])

    def run(self) -> Adoption:
        """Directories first, then the store: after a kill in between, the next run finds them again."""
        for home in self._homes:
            remove_marker(home)
        new: list[TopicState] = []
        for name, partitions in sorted(self._found().items()):
            topic = self._context.by_name.get(name)
            if topic:
                self._bring_back(topic, partitions)
            elif (why := self._why_not(name, partitions)) is not None:
                self._leave_or_set_aside(name, partitions, why)
            else:
                new.append(self._take_in(name, partitions))
        if new:
            for home in self._homes:
                sync_directory(home)
            self._store.create_topics(new, operation=0, answer=b"")
        return self._done

    def _found(self) -> Topics:
        """Partitions by topic and number: those in their place, unless they were made anew because a stray was away."""
        places: dict[str, FoundDirectory] = {}
        for home in self._homes:
            for each in partition_directory.find_all(home):
                if each.topic != CLUSTER_METADATA_TOPIC:
                    self._note_in_place(places, each.name, each._replace(name=self._shown(home, each.name)))
        for stray in self._strays():
            place = partition_directory.directory_name(stray.topic, stray.partition)
            there = places.get(place)
            is_free = there is None and not os.path.lexists(os.path.join(self._home_of(stray), place))
            if is_free or (there is not None and self._gives_way(there, stray)):
                places[place] = stray
                if there is not None:
                    self._made_anew[place] = there
            else:
                self._leave({stray.partition: stray}, f"{there.name if there else place} is in its place")
        found: Topics = {}
        for each in places.values():
            if is_internal_topic(each.topic) or adoptable.is_partition(self._path, each):
                found.setdefault(each.topic, {})[each.partition] = each
            elif not self._is_known(each):
                self._leave({each.partition: each}, "it holds no log: no partition.metadata, no segment")
        return found

    def _note_in_place(self, places: dict[str, FoundDirectory], name: str, each: FoundDirectory) -> None:
        """Of two directories of one partition the one counts that a move marked as whole; else nobody can say."""
        other = places.setdefault(name, each)
        if other is each:
            return
        is_marked = partition_directory.was_moved_here(self._path_of(each))
        if is_marked == partition_directory.was_moved_here(self._path_of(other)):
            self._twice[each.topic] = f"there are {other.name} and {each.name}"
        elif is_marked:
            places[name] = each

    def _shown(self, home: str, name: str) -> str:
        return name if home == self._path else os.path.join(home, name)

    def _path_of(self, each: FoundDirectory) -> str:
        return os.path.join(self._path, each.name)

    def _home_of(self, each: FoundDirectory) -> str:
        return os.path.dirname(self._path_of(each))

    def _strays(self) -> Iterator[FoundDirectory]:
        """Directories that were set aside with records."""
        for home in self._homes:
            for stray in _strays_in(home):
                yield stray._replace(name=self._shown(home, stray.name))

    def _is_known(self, found: FoundDirectory) -> bool:
        topic = self._context.by_name.get(found.topic)
        return topic is not None and found.partition < len(topic.replicas)

    def _gives_way(self, there: FoundDirectory, stray: FoundDirectory) -> bool:
        """Whether what is in a stray's place was made anew, empty, because the stray was away."""
        is_same = None in (stray.topic_id, there.topic_id) or stray.topic_id == there.topic_id
        is_stray = _STRAY.fullmatch(os.path.basename(there.name))
        return (
            is_same
            and not is_stray
            and there.topic not in self._twice
            and adoptable.was_made_anew(self._path, there.name)
        )

    def _why_not(self, name: str, partitions: dict[int, FoundDirectory]) -> str | None:
        ids = {each.topic_id for each in partitions.values()} - {None}
        other = self._context.colliding(name)
        count = _partition_count(name, partitions)
        held = sum(len(topic.replicas) for topic in self._context.by_id.values())
        most_topics, most_partitions = self._room
        conditions: list[tuple[bool, str]] = [
            (not is_legal_topic_name(name), "no topic may have that name"),
            (name in self._twice, f"{self._twice.get(name)}: move the one that is not right away"),
            (name in self._deleted, "its topic was deleted"),
            (len(ids) > 1, "its partitions have different topic ids"),
            (bool(ids) and min(i for i in ids if i) in self._context.by_id, "its topic id belongs to another topic"),
            (other is not None, f"topic {other} has the same metric name"),
            (count > MAX_PARTITIONS, f"a topic has at most {MAX_PARTITIONS} partitions"),
            (
                count > 2 * len(partitions) and not self._fill_missing and not is_internal_topic(name),
                f"more partitions of its topic are missing than are there ({adoptable.shown(partitions)} of {count}); "
                "with --fill-missing they begin empty",
            ),
            (
                held + count > most_partitions,
                f"there would be more than {most_partitions} partitions; raise mpbroker.max.partitions, adopt with "
                "--max-partitions",
            ),
            (
                len(self._context.by_id) >= most_topics,
                f"there would be more than {most_topics} topics; raise mpbroker.max.topics, adopt with --max-topics",
            ),
        ]
        return next((why for is_so, why in conditions if is_so), None)

    def _take_in(self, name: str, partitions: dict[int, FoundDirectory]) -> TopicState:
        topic_id = next((each.topic_id for each in partitions.values() if each.topic_id), uuid.uuid4().bytes)
        count = _partition_count(name, partitions)
        size = self._bytes(partitions)
        for each in partitions.values():
            self._put_in_place(each)
        told = self._treat_missing(name, topic_id, [number for number in range(count) if number not in partitions])
        told += self._open_transactions(name, partitions)
        self._done.taken.append(f"{name}: {count} partitions, {size} bytes{told}")
        if not is_internal_topic(name):
            self._done.kept.append(name)
        configs = dict(INTERNAL.get(name, KEPT))
        topic = TopicState(topic_id, name, [[self._node_id]] * count, configs, time.time_ns() // 1_000_000)
        if len(self._homes) > 1:
            topic.directories = [self._noted(name, number, partitions.get(number)) for number in range(count)]
        self._context.add(topic)
        return topic

    def _treat_missing(self, name: str, topic_id: bytes, missing: list[int]) -> str:
        """What becomes of a topic's partitions that are not there: one that was written is not begun anew by a start
        (ADR 15), the others are."""
        written = [number for number in missing if self._written_up_to(name, number)[0] > 0]
        fresh = [number for number in missing if number not in written]
        told = f"; missing, made empty at the next start: {adoptable.shown(fresh)}" if fresh else ""
        if written and self._fill_missing:
            for number in written:
                end, home = self._written_up_to(name, number)
                adoptable.begin_empty(home, name, number, topic_id, end)
            return f"{told}; missing though they had records, begun empty: {adoptable.shown(written)}"
        if written:
            return (
                f"{told}; missing though they had records, offline until they are put back or the topic is deleted: "
                f"{adoptable.shown(written)} (--fill-missing would have begun them empty)"
            )
        return told

    def _written_up_to(self, name: str, number: int) -> tuple[int, str]:
        """How far a partition was written, and in which log directory; of those that know nothing the first."""
        return max(((self._written[home].up_to(name, number), home) for home in self._homes), key=lambda one: one[0])

    def _noted(self, name: str, number: int, each: FoundDirectory | None) -> str:
        """The directory.id of where a partition lies, or lay."""
        if each is not None:
            return self._homes[self._home_of(each)]
        end, home = self._written_up_to(name, number)
        return self._homes[home] if end else ""

    def _open_transactions(self, name: str, partitions: dict[int, FoundDirectory]) -> str:
        """Which readers of committed records would wait at for ever, if no coordinator knows their producers."""
        told = []
        for number, found in sorted(partitions.items()):
            directory = partition_directory.directory_name(name, number)
            with suppress(OSError):  # the start says what is the matter with such a log
                told += [
                    f"{directory} from offset {each.txn_first} on, of producer {each.producer_id}"
                    for each in open_transactions(os.path.join(self._home_of(found), directory))
                ]
        if not told:
            return ""
        more = f", and {len(told) - MAX_TOLD} more" if len(told) > MAX_TOLD else ""
        return (
            f"; transactions are open: {', '.join(told[:MAX_TOLD])}{more}. Where neither their producer nor a "
            "coordinator ends one, read_committed readers wait there for ever: `mpbroker txn abort --topic T "
            "--partition N --start-offset OFFSET` ends it"
        )

    def _bring_back(self, topic: TopicState, partitions: dict[int, FoundDirectory]) -> None:
        """A topic that the store names: its strays go back to their places. It grows where it has records beyond its
        last partition: the store is older than they are, or the topic was taken in when they were not there."""
        self._grow(topic, partitions)
        for number, each in partitions.items():
            in_place = os.path.basename(each.name) == partition_directory.directory_name(topic.name, number)
            if each.topic_id not in (topic.id, None):
                self._leave({number: each}, f"topic {topic.name} has another id")
            elif number >= len(topic.replicas):
                self._leave({number: each}, f"topic {topic.name} has {len(topic.replicas)} partitions")
            elif not in_place:
                self._put_in_place(each)
                self._done.taken.append(f"{topic.name}: partition {number}, from {each.name}")

    def _grow(self, topic: TopicState, partitions: dict[int, FoundDirectory]) -> None:
        mine = {number: each for number, each in partitions.items() if each.topic_id == topic.id}
        count, held = len(topic.replicas), sum(len(each.replicas) for each in self._context.by_id.values())
        beyond = {number: each for number, each in mine.items() if number >= count}
        more = max(beyond) + 1 - count if self._bytes(beyond) else 0
        is_doubtful = more > 2 * len(beyond) and not self._fill_missing
        if topic.name in self._twice or is_doubtful or count + more > MAX_PARTITIONS or held + more > self._room[1]:
            return
        noted = topic.directories
        if len(self._homes) > 1:
            noted = noted + [""] * (count + more - len(noted))
            for number, each in mine.items():
                if number < len(noted):
                    noted[number] = noted[number] or self._noted(topic.name, number, each)
        if more or noted != topic.directories:
            topic.replicas, topic.directories = topic.replicas + [[self._node_id]] * more, noted
            self._store.add_partitions([topic], operation=0, answer=b"")
        if more:
            self._done.taken.append(f"{topic.name}: {more} more partitions, {count + more} now")

    def _put_in_place(self, each: FoundDirectory) -> None:
        name = partition_directory.directory_name(each.topic, each.partition)
        place = os.path.join(self._home_of(each), name)
        if self._path_of(each) != place:
            if name in self._made_anew:
                partition_directory.retire(self._home_of(self._made_anew[name]), name, uuid.uuid4().bytes, STRAY_SUFFIX)
            os.rename(self._path_of(each), place)

    def _bytes(self, partitions: dict[int, FoundDirectory]) -> int:
        """Of records."""
        return sum(partition_directory.log_bytes(self._path, each.name) or 0 for each in partitions.values())

    def _leave_or_set_aside(self, topic: str, partitions: dict[int, FoundDirectory], why: str) -> None:
        """Where an internal topic's directories lie, the broker cannot make it: no group and no transaction would work.
        They are kept as strays."""
        in_place = [each for each in partitions.values() if partition_directory.parse_name(os.path.basename(each.name))]
        if not is_internal_topic(topic) or topic in self._deleted or not in_place:
            self._leave(partitions, why)
            return
        for each in in_place:
            unique = each.topic_id or bytes(16)
            home, name = os.path.split(self._path_of(each))
            kept = partition_directory.retire(home, name, unique, STRAY_SUFFIX)
            self._done.left.append(f"{each.name}: {why}; kept as {kept}, the broker makes the topic anew")

    def _leave(self, partitions: dict[int, FoundDirectory], why: str) -> None:
        self._done.left.extend(f"{each.name}: {why}" for each in partitions.values())


def _partition_count(topic: str, partitions: dict[int, FoundDirectory]) -> int:
    """By the last one. An internal topic of which some are missing, a Kafka of several brokers say, had more perhaps,
    and by their number a group finds its partition."""
    count = max(partitions) + 1
    if is_internal_topic(topic) and count != len(partitions):
        return max(count, INTERNAL_PARTITIONS)
    return count


def say(done: Adoption, path: str, write: Callable[[str], object]) -> None:
    """The result for people."""
    for sentence in done.taken:
        write(f"taken in  {sentence}")
    for sentence in done.left:
        write(f"left      {sentence}")
    if done.kept:
        settings = " ".join(f"{key}={value}" for key, value in KEPT.items())
        write(f"settings of topics taken in are not known. Until you give them, every record is kept ({settings}):")
        write(f"          mpbroker config set topic:{done.kept[0]} retention.ms=604800000")
        write(f"          mpbroker config unset topic:{done.kept[0]} retention.ms    # as the broker's log.retention.*")
    if not done.taken and not done.left:
        write(f"{path}: every partition directory belongs to a topic already")
