"""The partitions the log keeper looks after, with their settings: its own small view of the metadata snapshot.

Log keeper only; nothing here is shared. A topic's partitions appear when the controller shows it, which is after their
logs were loaded, and go when it is being deleted.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

import msgspec

from mpbroker.config.broker_config import BrokerConfig
from mpbroker.config.topic_config import TopicSettings, effective
from mpbroker.log.partition_directory import directory_name
from mpbroker.shm.core import Core
from mpbroker.shm.layout import TopicFlags
from mpbroker.shm.topic_table import (
    metadata_generation,
    partition_who,
    topic_count,
    topic_partitions,
    topic_read,
    topics_changed,
)

_overrides_decoder = msgspec.json.Decoder(dict[str, str])


class KeptPartition(NamedTuple):
    """A partition that exists. The same row belongs to another one later: `topic_id` says which is meant."""

    ordinal: int
    topic_id: bytes
    topic: str
    partition: int
    settings: TopicSettings

    @property
    def dir(self) -> str:
        """Its directory within the data directory."""
        return directory_name(self.topic, self.partition)

    @property
    def who(self) -> tuple[str, int]:
        """As checkpoint files name it."""
        return self.topic, self.partition


class Partitions(Protocol):
    """What the jobs need to know; tests hand in a plain one."""

    all: Sequence[KeptPartition]

    @property
    def loaded(self) -> bool:
        """Whether the controller has shown what there is, since memory was made."""
        ...

    def refresh(self) -> bool:
        """Take over what changed; True if anything did. `all` is replaced then, never changed."""
        ...

    def use_config(self, config: BrokerConfig) -> None:
        """The broker's own settings changed: work out every topic's again."""
        ...


class KeptPartitions:
    """Partitions of every topic in the snapshot; of one log directory, if it is given."""

    def __init__(
        self,
        core: Core,
        config: BrokerConfig,
        settings: Callable[[dict[str, str], BrokerConfig], TopicSettings] = effective,
        log_dir: int | None = None,
    ) -> None:
        self._log_dir = log_dir
        self._core = core
        self._config = config
        self._settings = settings
        self._selectors = [0] * topic_count(core)
        self._overrides: dict[int, dict[str, str]] = {}
        self._by_row: dict[int, list[KeptPartition]] = {}
        self._generation = -1
        self._moves = core.moves
        self.all: Sequence[KeptPartition] = ()

    @property
    def loaded(self) -> bool:
        """See Partitions."""
        return self._generation > 0

    def refresh(self) -> bool:
        """Take over what changed since the last call; reads only rows that did."""
        generation, moves = metadata_generation(self._core), self._core.moves
        has_moved = self._log_dir is not None and moves != self._moves
        if generation == self._generation and not has_moved:
            return False
        rows = set(topics_changed(self._core, self._selectors))
        if has_moved:  # between log directories
            rows |= {row for row, selector in enumerate(self._selectors) if selector}
        for row in rows:
            self._load(row)
        self._generation, self._moves = generation, moves
        self._join()
        return True

    def use_config(self, config: BrokerConfig) -> None:
        """The broker's own settings changed: work out every topic's again."""
        self._config = config
        for row, partitions in self._by_row.items():
            settings = self._settings(self._overrides[row], config)
            self._by_row[row] = [partition._replace(settings=settings) for partition in partitions]
        self._join()

    def _join(self) -> None:
        self.all = [partition for partitions in self._by_row.values() for partition in partitions]

    def _load(self, row: int) -> None:
        self._by_row.pop(row, None)
        found = topic_read(self._core, row)
        if found is None:
            return
        self._selectors[row] = found.selector
        if found.flags & (TopicFlags.EXISTS | TopicFlags.DELETING) != TopicFlags.EXISTS:
            return
        ordinals = topic_partitions(self._core, found.id, found.first_ordinal, found.partition_count)
        if ordinals is None:
            return  # it is being deleted at this moment: its row will change again
        overrides = _overrides_decoder.decode(found.overrides)
        settings = self._settings(overrides, self._config)
        self._overrides[row] = overrides
        self._by_row[row] = [
            KeptPartition(ordinal, found.id, found.name, number, settings)
            for number, ordinal in enumerate(ordinals)
            if self._log_dir in (None, partition_who(self._core, ordinal).log_dir)
        ]
