"""`mpbroker adopt`: topics are taken in by their directories, and directories set aside as strays brought back.

Runs in the command's process, with the data directory locked: no broker runs there. What a store says stays; topics
that it does not name are added to it, with the id of their `partition.metadata` (Apache Kafka's own too). Their
settings stood in the store that is lost: until a user says otherwise nothing of them is deleted or compacted. What is
in doubt is left where it is, with a sentence, and so is what would make a store with which the broker does not start.
"""

import os
import re
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from mpbroker.config.table import SETTINGS
from mpbroker.controller import adoptable
from mpbroker.controller.controller_context import ControllerContext, TopicState
from mpbroker.controller.controller_store import ControllerStore
from mpbroker.errors import ConfigError
from mpbroker.log import data_dir, partition_directory
from mpbroker.log.clean_shutdown import remove_marker
from mpbroker.log.disk import sync_directory
from mpbroker.log.partition_directory import STRAY_SUFFIX, FoundDirectory
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
    path: str, node_id: int | None = None, *, fill_missing: bool = False, room: tuple[int, int] = DEFAULT_ROOM
) -> Adoption:
    """Take in what can be taken in. ConfigError when the directory's identity contradicts itself. Safe to run again.
    `fill_missing`: also topics of which most partitions are missing, and missing ones that had records begin empty;
    `room`: how many topics and partitions the broker has room for."""
    meta = identity(path, node_id)
    store = SqliteStore(os.path.join(path, STORE_FILE))
    try:
        controller_store = ControllerStore(store, Keys(meta.cluster_id), boot_id=0)
        return _Adopter(path, meta.node_id, controller_store, fill_missing, room).run()
    finally:
        store.close()


def identity(path: str, node_id: int | None) -> data_dir.MetaProperties:
    """meta.properties, or one written anew for the cluster of the store, or for a new cluster."""
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
        return data_dir.prepare(path, 0 if node_id is None else node_id, min(clusters, default=None))
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
    def __init__(
        self, path: str, node_id: int, store: ControllerStore, fill_missing: bool, room: tuple[int, int]
    ) -> None:
        self._fill_missing = fill_missing
        self._room = room
        self._written = adoptable.Written(path)
        self._path = path
        self._node_id = node_id
        self._store = store
        self._context = ControllerContext(store.load_topics())
        self._deleted = {record.name for record in store.load_deletions()}
        self._done = Adoption([], [], [])

    def run(self) -> Adoption:
        """Directories first, then the store: after a kill in between, the next run finds them again."""
        remove_marker(self._path)
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
            sync_directory(self._path)
            self._store.create_topics(new, operation=0, answer=b"")
        return self._done

    def _found(self) -> Topics:
        """Partitions by topic and number: those in their place, unless they were made anew because a stray was away."""
        places = {
            each.name: each for each in partition_directory.find_all(self._path) if each.topic != CLUSTER_METADATA_TOPIC
        }
        for stray in self._strays():
            place = partition_directory.directory_name(stray.topic, stray.partition)
            there = places.get(place)
            is_free = there is None and not os.path.lexists(os.path.join(self._path, place))
            if is_free or (there is not None and self._gives_way(there, stray)):
                places[place] = stray
            else:
                self._leave({stray.partition: stray}, f"{there.name if there else place} is in its place")
        found: Topics = {}
        for each in places.values():
            if is_internal_topic(each.topic) or adoptable.is_partition(self._path, each):
                found.setdefault(each.topic, {})[each.partition] = each
            elif not self._is_known(each):
                self._leave({each.partition: each}, "it holds no log: no partition.metadata, no segment")
        return found

    def _strays(self) -> Iterator[FoundDirectory]:
        """Directories that were set aside with records."""
        for name in sorted(os.listdir(self._path)):
            stray = _STRAY.fullmatch(name)
            if stray and partition_directory.log_bytes(self._path, name):
                topic_id = partition_directory.read_topic_id(os.path.join(self._path, name))
                yield FoundDirectory(name, stray[1], int(stray[2]), topic_id)

    def _is_known(self, found: FoundDirectory) -> bool:
        topic = self._context.by_name.get(found.topic)
        return topic is not None and found.partition < len(topic.replicas)

    def _gives_way(self, there: FoundDirectory, stray: FoundDirectory) -> bool:
        """Whether what is in a stray's place was made anew, empty, because the stray was away."""
        is_same = None in (stray.topic_id, there.topic_id) or stray.topic_id == there.topic_id
        return is_same and not _STRAY.fullmatch(there.name) and adoptable.was_made_anew(self._path, there.name)

    def _why_not(self, name: str, partitions: dict[int, FoundDirectory]) -> str | None:
        ids = {each.topic_id for each in partitions.values()} - {None}
        other = self._context.colliding(name)
        count = _partition_count(name, partitions)
        held = sum(len(topic.replicas) for topic in self._context.by_id.values())
        most_topics, most_partitions = self._room
        conditions: list[tuple[bool, str]] = [
            (not is_legal_topic_name(name), "no topic may have that name"),
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
        for each in partitions.values():
            self._put_in_place(each)
        told = self._treat_missing(name, topic_id, [number for number in range(count) if number not in partitions])
        self._done.taken.append(f"{name}: {count} partitions, {self._bytes(name, partitions)} bytes{told}")
        if not is_internal_topic(name):
            self._done.kept.append(name)
        configs = dict(INTERNAL.get(name, KEPT))
        topic = TopicState(topic_id, name, [[self._node_id]] * count, configs, time.time_ns() // 1_000_000)
        self._context.add(topic)
        return topic

    def _treat_missing(self, name: str, topic_id: bytes, missing: list[int]) -> str:
        """What becomes of a topic's partitions that are not there: one that was written is not begun anew by a start
        (ADR 15), the others are."""
        written = [number for number in missing if self._written.up_to(name, number) > 0]
        fresh = [number for number in missing if number not in written]
        told = f"; missing, made empty at the next start: {adoptable.shown(fresh)}" if fresh else ""
        if written and self._fill_missing:
            for number in written:
                adoptable.begin_empty(self._path, name, number, topic_id, self._written.up_to(name, number))
            return f"{told}; missing though they had records, begun empty: {adoptable.shown(written)}"
        if written:
            return (
                f"{told}; missing though they had records, offline until they are put back or the topic is deleted: "
                f"{adoptable.shown(written)} (--fill-missing would have begun them empty)"
            )
        return told

    def _bring_back(self, topic: TopicState, partitions: dict[int, FoundDirectory]) -> None:
        """A topic that the store names: its strays go back to their places."""
        for number, each in partitions.items():
            in_place = each.name == partition_directory.directory_name(topic.name, number)
            if each.topic_id not in (topic.id, None):
                self._leave({number: each}, f"topic {topic.name} has another id")
            elif number >= len(topic.replicas):
                self._leave({number: each}, f"topic {topic.name} has {len(topic.replicas)} partitions")
            elif not in_place:
                self._put_in_place(each)
                self._done.taken.append(f"{topic.name}: partition {number}, from {each.name}")

    def _put_in_place(self, each: FoundDirectory) -> None:
        place = partition_directory.directory_name(each.topic, each.partition)
        if each.name != place:
            if os.path.lexists(os.path.join(self._path, place)):  # made anew, empty
                partition_directory.retire(self._path, place, uuid.uuid4().bytes, STRAY_SUFFIX)
            os.rename(os.path.join(self._path, each.name), os.path.join(self._path, place))

    def _bytes(self, topic: str, partitions: dict[int, FoundDirectory]) -> int:
        names = (partition_directory.directory_name(topic, number) for number in partitions)
        return sum(partition_directory.log_bytes(self._path, name) or 0 for name in names)

    def _leave_or_set_aside(self, topic: str, partitions: dict[int, FoundDirectory], why: str) -> None:
        """Where an internal topic's directories lie, the broker cannot make it: no group and no transaction would work.
        They are kept as strays."""
        in_place = [each for each in partitions.values() if partition_directory.parse_name(each.name)]
        if not is_internal_topic(topic) or topic in self._deleted or not in_place:
            self._leave(partitions, why)
            return
        for each in in_place:
            unique = each.topic_id or bytes(16)
            kept = partition_directory.retire(self._path, each.name, unique, STRAY_SUFFIX)
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
