"""What groups of both protocols have: an id and committed offsets. Data only; runs in the coordinator process.

`group.Group` is a classic group, `ModernGroup` what others need to know of one of the next-generation protocol
(KIP-848), whose modules are imported with the first of them. A group that goes from one protocol to the other keeps its
offsets.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import ClassVar, NamedTuple, Protocol

from mpbroker.coordinator.effects import GroupRequest

MAX_NAME_BYTES = 32_000  # a record has 16 bits for a length, and a member id is an instance id with an ending
CLASSIC_TYPE, CONSUMER_TYPE = "classic", "consumer"


class Committed(NamedTuple):
    """A committed offset; times are since 1970, -1: none. `number`: of its append, which orders the records of a key;
    one that was loaded has a negative number."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_ms: int
    expire_ms: int
    number: int


class TopicFacts(Protocol):
    """What the logic needs to know of a topic. `partitions` has an element for each."""

    @property
    def id(self) -> bytes: ...

    @property
    def name(self) -> str: ...

    @property
    def partitions(self) -> list[int]: ...


class Topics(Protocol):
    """The topics there are now; the metadata cache is one. `generation` rises with every change."""

    generation: int

    def topic(self, name: str) -> TopicFacts | None:
        """The topic of this name."""
        ...

    def topic_by_id(self, topic_id: bytes) -> TopicFacts | None:
        """The topic of this id."""
        ...

    def topics(self) -> Iterable[TopicFacts]:
        """All of them."""
        ...


class _NoTopics:
    """Where nobody asks for topics."""

    generation = 0

    def topic(self, name: str) -> TopicFacts | None:
        return None

    def topic_by_id(self, topic_id: bytes) -> TopicFacts | None:
        return None

    def topics(self) -> Iterable[TopicFacts]:
        return ()


NO_TOPICS: Topics = _NoTopics()


class AnyGroup:
    """`pending_offsets`: appends on their way. `transactional`: producer id → offsets that wait for the end of its
    transaction."""

    type: ClassVar[str]
    protocol_type: str | None = None

    def __init__(self, group_id: str) -> None:
        self.id = group_id
        self.offsets: dict[str, dict[int, Committed]] = {}
        self.pending_offsets: dict[tuple[str, int], int] = {}
        self.transactional: dict[int, dict[tuple[str, int], Committed]] = {}

    def take_offsets_of(self, other: AnyGroup) -> None:
        """This group takes the place of another one; commits on their way reach it, too."""
        self.offsets, self.pending_offsets = other.offsets, other.pending_offsets
        self.transactional = other.transactional

    def committed(self, topic: str, partition: int) -> Committed | None:
        """The committed offset of a partition."""
        return self.offsets.get(topic, {}).get(partition)

    def has_offsets(self) -> bool:
        """Whether anything is committed, or about to be."""
        return bool(self.offsets or self.pending_offsets or self.transactional)

    def is_unstable(self, name: tuple[str, int]) -> bool:
        """Whether a commit of this partition is on its way, or waits for the end of a transaction."""
        return name in self.pending_offsets or any(name in offsets for offsets in self.transactional.values())

    def settle(self, name: tuple[str, int], committed: Committed) -> bool:
        """An offset is committed, unless a later record says otherwise; whether it is the first one there."""
        topic, partition = name
        present = self.committed(topic, partition)
        if present is not None and present.number >= committed.number:
            return False
        self.offsets.setdefault(topic, {})[partition] = committed
        return present is None

    # what each protocol answers in its own way

    @property
    def is_empty(self) -> bool:
        """Whether it has no members, and is not being deleted."""
        raise NotImplementedError

    @property
    def is_dead(self) -> bool:
        """Whether it is being deleted."""
        raise NotImplementedError

    @property
    def is_awaited(self) -> bool:
        """Whether somebody is about to become a member."""
        raise NotImplementedError

    @property
    def state_name(self) -> str:
        """Its state as clients see it."""
        raise NotImplementedError

    def is_subscribed(self, topic: str) -> bool:
        """Whether the topic is consumed, also when nobody can tell."""
        raise NotImplementedError

    def mark_dead(self, is_dead: bool) -> None:
        """It is being deleted, or is not after all; only a group without members can be."""
        raise NotImplementedError

    def record_keys(self) -> list[bytes]:
        """The keys of what it has in the log, besides offsets."""
        raise NotImplementedError


class ModernGroup(AnyGroup):
    """A group of the next-generation protocol, as the rest of the coordinator sees it.

    `is_recording`: a change of it is on its way to the log; whatever else would change it waits.
    """

    type = protocol_type = CONSUMER_TYPE
    _is_dead = False
    is_recording = False

    @property
    def is_dead(self) -> bool:
        return self._is_dead

    @property
    def is_awaited(self) -> bool:
        return self.is_recording

    def commit_error(
        self,
        offsets: Mapping[tuple[str, int], Committed],
        member_id: str,
        instance_id: str | None,
        epoch: int,
        version: int | None,
    ) -> int:
        """Why offsets are not taken from whoever sends them. `version`: of OffsetCommit, None: in a transaction."""
        raise NotImplementedError

    def fetch_error(self, member_id: str | None, epoch: int) -> int:
        """Why offsets are not told to whoever asks."""
        raise NotImplementedError

    def mark_dead(self, is_dead: bool) -> None:
        self._is_dead = is_dead

    def close(self) -> list[GroupRequest]:
        """Forget the members; the requests that wait."""
        raise NotImplementedError

    def topics_changed(self, names: frozenset[str]) -> None:
        """These topics came, went, or got more partitions."""
        raise NotImplementedError
