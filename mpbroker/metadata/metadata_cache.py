"""What a process knows about topics: a dictionary that follows the metadata snapshot. One per process, any role.

`refresh` compares one number when nothing changed, and otherwise reads the rows that the journal names. Nothing here is
written to shared memory.
"""

from collections.abc import Callable, Iterable

import msgspec

from mpbroker.config.broker_config import BrokerConfig
from mpbroker.config.topic_config import TopicSettings, effective
from mpbroker.errors import MpbrokerError
from mpbroker.metadata.features import FeatureLevels, finalized
from mpbroker.shm.core import Core
from mpbroker.shm.layout import TopicFlags
from mpbroker.shm.topic_table import (
    TopicRow,
    journal_since,
    metadata_generation,
    topic_partitions,
    topic_read,
    topics_changed,
)

MAX_ROUNDS = 10_000
NEVER_SEEN = 0
"""A selector that no written row has."""
MAX_DERIVED = 1000
_overrides_decoder = msgspec.json.Decoder(dict[str, str])
SettingsOf = Callable[[dict[str, str], BrokerConfig], TopicSettings]  # overrides, the broker's settings


class Topic(msgspec.Struct, frozen=True, eq=False):
    """A topic as this process sees it; replaced, never changed.

    id          16 bytes
    partitions  row of each partition in the partition table, by partition number
    settings    TopicSettings in force; `overrides` those given for the topic, by Kafka's name
    row         its row in the topic table; `version` the store revision of its last change
    """

    id: bytes
    name: str
    partitions: list[int]
    settings: TopicSettings
    overrides: dict[str, str]
    internal: bool
    row: int
    version: int


class MetadataCache:
    """Topics by name and by id. Call `refresh` before relying on it for a request."""

    def __init__(self, core: Core, config: BrokerConfig, settings: SettingsOf = effective) -> None:
        self._core = core
        self._config = config
        self._settings = settings
        self._selectors: list[int] = []
        self._derived: dict[bytes, tuple[dict[str, str], TopicSettings]] = {}
        self._by_row: dict[int, Topic] = {}
        self._by_name: dict[str, Topic] = {}
        self._by_id: dict[bytes, Topic] = {}
        self._unread: set[int] = set()
        self.generation = 0
        self.refresh()

    def refresh(self) -> bool:
        """Take over what changed since the last call; False (and about 100 ns) if nothing did."""
        if metadata_generation(self._core) == self.generation:
            return False
        self._catch_up()
        return True

    def topic(self, name: str) -> Topic | None:
        """The topic of this name."""
        return self._by_name.get(name)

    def topic_by_id(self, topic_id: bytes) -> Topic | None:
        """The topic of this id (16 bytes)."""
        return self._by_id.get(topic_id)

    @property
    def has_read_everything(self) -> bool:
        """False: a row was being written when it was looked at; a topic that is there may not be known yet."""
        return not self._unread

    def features(self) -> FeatureLevels:
        """The finalized levels of the cluster's features, as they are now."""
        return finalized(self._core)

    def topics(self) -> Iterable[Topic]:
        """All topics, in no particular order."""
        return self._by_name.values()

    def use_config(self, config: BrokerConfig) -> None:
        """The broker's own settings changed: work out every topic's settings again."""
        self._config = config
        self._derived.clear()
        for row, topic in list(self._by_row.items()):
            settings = self._settings(topic.overrides, config)
            self._forget(row)
            self._remember(msgspec.structs.replace(topic, settings=settings))

    def _catch_up(self) -> None:
        for _ in range(MAX_ROUNDS):
            reached, rows = journal_since(self._core, self.generation)
            if rows is None:
                rows = topics_changed(self._core, self._selectors)
            for row in rows:
                self._load(row)
            self.generation = reached
            if reached == metadata_generation(self._core):
                return
        raise MpbrokerError(f"topics changed faster than they could be read, {MAX_ROUNDS} times")

    def _load(self, row: int) -> None:
        before = self._by_row.get(row)
        self._forget(row)
        self._unread.discard(row)
        found = topic_read(self._core, row)
        if found is None:
            return
        if row >= len(self._selectors):
            self._selectors += [0] * (row + 1 - len(self._selectors))
        self._selectors[row] = found.selector
        if found.flags & (TopicFlags.EXISTS | TopicFlags.DELETING) == TopicFlags.EXISTS:
            ordinals = topic_partitions(self._core, found.id, found.first_ordinal, found.partition_count)
            if ordinals is not None:
                self._remember(self._topic(row, found, ordinals))
                return
            self._selectors[row] = NEVER_SEEN  # a partition's row is being written: the journal will say when it is
            self._unread.add(row)
            if before is not None and before.id == found.id:
                self._remember(before)  # it is not gone: who takes it for that deletes what belongs to it

    def _topic(self, row: int, found: TopicRow, ordinals: list[int]) -> Topic:
        overrides, settings = self._derive(found.overrides)
        return Topic(
            id=found.id,
            name=found.name,
            partitions=ordinals,
            settings=settings,
            overrides=overrides,
            internal=bool(found.flags & TopicFlags.INTERNAL),
            row=row,
            version=found.version,
        )

    def _derive(self, blob: bytes) -> tuple[dict[str, str], TopicSettings]:
        """Overrides and settings in force; most topics share theirs with others, and working them out is slow."""
        known = self._derived.get(blob)
        if known is None:
            if len(self._derived) >= MAX_DERIVED:
                self._derived.clear()
            overrides = _overrides_decoder.decode(blob)
            known = self._derived[blob] = (overrides, self._settings(overrides, self._config))
        return known

    def _remember(self, topic: Topic) -> None:
        self._by_row[topic.row] = self._by_name[topic.name] = self._by_id[topic.id] = topic

    def _forget(self, row: int) -> None:
        old = self._by_row.pop(row, None)
        if old is None:
            return
        if self._by_name.get(old.name) is old:  # a new topic may have taken the name, in another row
            del self._by_name[old.name]
        if self._by_id.get(old.id) is old:
            del self._by_id[old.id]
