"""A member of a group of the next-generation protocol: a value, replaced when it changes. Runs in the
coordinator process."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Any, NamedTuple, TypeAlias

import msgspec

LEFT, AWAY = -1, -2  # epochs: a member that leaves, and a static one that will come back

#: Topic id → partition → the epoch since which it is the member's. Never changed in place.
Owned: TypeAlias = Mapping[bytes, Mapping[int, int]]
#: Topic id → partitions. Never changed in place.
Target: TypeAlias = Mapping[bytes, frozenset[int]]


class MemberState(IntEnum):
    """How far a member is on the way to its target; the numbers stand in records."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2
    UNKNOWN = 127


class ClassicMetadata(NamedTuple):
    """What a member of the classic protocol said. `protocols`: name and metadata, best first; there is one at least."""

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]


class ConsumerMember(msgspec.Struct, frozen=True):
    """`topics`: subscribed names, sorted; `pattern`: empty or None without one. `assigned`: what it may read;
    `revoking`: what it has not given back yet. `classic`: it speaks the classic protocol."""

    id: str
    epoch: int = 0
    previous_epoch: int = -1
    state: MemberState = MemberState.STABLE
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    client_id: str = ""
    client_host: str = ""
    topics: tuple[str, ...] = ()
    pattern: str | None = ""
    assignor: str | None = None
    assigned: Owned = {}
    revoking: Owned = {}
    classic: ClassicMetadata | None = None

    def but(self, **changes: Any) -> ConsumerMember:
        """The same member with other values in some fields."""
        return msgspec.structs.replace(self, **changes)

    def at_epoch(self, epoch: int, **changes: Any) -> ConsumerMember:
        """The same member, in an epoch; the one before is remembered, for an answer may get lost."""
        return self.but(epoch=epoch, previous_epoch=self.epoch, **changes)

    def is_reconciled(self, target_epoch: int) -> bool:
        """Whether it has what it is to have."""
        return self.state is MemberState.STABLE and self.epoch == target_epoch

    def owned_since(self, topic_id: bytes, partition: int) -> int | None:
        """The epoch since which a partition is the member's, also one that it has to give back."""
        since = self.assigned.get(topic_id, {}).get(partition)
        return self.revoking.get(topic_id, {}).get(partition) if since is None else since


def pairs(owned: Mapping[bytes, Iterable[int]]) -> Iterable[tuple[bytes, int]]:
    """Every topic id with every partition."""
    return ((topic_id, partition) for topic_id, partitions in owned.items() for partition in partitions)
