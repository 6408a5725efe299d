"""What the controller knows: the topics of its store, by name and id, and where each is shown. Controller process only.

The store is the truth; this image is rebuilt from it at every start and after every failure.
"""

from collections.abc import Iterable

import msgspec

from mpbroker.metadata.metadata_snapshot import TopicImage, encode_overrides
from mpbroker.metadata.topic_names import collision_key, is_internal_topic

NO_ROW = -1


class TopicState(msgspec.Struct):
    """A topic. `replicas`: broker ids per partition; `ordinals`: partition rows; `row`: topic row, NO_ROW at first.

    `record_version` counts the writes of its store record, `config_version` those of its settings' (0: it has none),
    `revision` is the store's at the topic's last change. `directories`: the directory.id of the log directory of each
    partition; those made while there was one have none.
    """

    id: bytes
    name: str
    replicas: list[list[int]]
    configs: dict[str, str]
    created_ms: int
    record_version: int = 1
    config_version: int = 0
    revision: int = 0
    row: int = NO_ROW
    ordinals: list[int] = []
    directories: list[str] = []

    def image(self) -> TopicImage:
        """What the snapshot is to show."""
        overrides = encode_overrides(self.configs)
        assert overrides is not None, f"settings of topic {self.name} do not fit its row"
        return TopicImage(
            id=self.id,
            name=self.name,
            partition_count=len(self.ordinals),
            first_ordinal=self.ordinals[0],
            internal=is_internal_topic(self.name),
            overrides=overrides,
            version=self.revision,
        )


class ControllerContext:
    """All topics that exist."""

    def __init__(self, topics: Iterable[TopicState] = ()) -> None:
        self.by_name: dict[str, TopicState] = {}
        self.by_id: dict[bytes, TopicState] = {}
        self._by_collision_key: dict[str, set[str]] = {}
        for topic in topics:
            self.add(topic)

    def add(self, topic: TopicState) -> None:
        """A topic exists now."""
        self.by_name[topic.name] = self.by_id[topic.id] = topic
        self._by_collision_key.setdefault(collision_key(topic.name), set()).add(topic.name)

    def remove(self, topic: TopicState) -> None:
        """It does not any more."""
        del self.by_name[topic.name], self.by_id[topic.id]
        names = self._by_collision_key[collision_key(topic.name)]
        names.discard(topic.name)
        if not names:
            del self._by_collision_key[collision_key(topic.name)]

    def colliding(self, name: str) -> str | None:
        """An existing topic with the same metric name, None if there is none."""
        others = self._by_collision_key.get(collision_key(name), set()) - {name}
        return min(others) if others else None
