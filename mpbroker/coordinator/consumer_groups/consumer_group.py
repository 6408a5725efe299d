"""A group of the next-generation protocol in memory: members, what each is to have, who owns what. In the coordinator
process.

Only data and questions about it; it changes through `change.Change`, which records what it does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from enum import IntEnum, unique
from hashlib import blake2b
from typing import NamedTuple

from mpbroker.coordinator.any_group import Committed, ModernGroup, Topics
from mpbroker.coordinator.consumer_groups import consumer_records as records
from mpbroker.coordinator.consumer_groups.consumer_member import ConsumerMember, MemberState, Owned, Target, pairs
from mpbroker.coordinator.consumer_groups.consumer_records import Resolved
from mpbroker.coordinator.effects import GroupRequest, Now
from mpbroker.coordinator.environment import Counts
from mpbroker.errors import ErrorCode

EPOCHS_IN_COMMITS = 9  # the version from which OffsetCommit knows member epochs
EMPTY, ASSIGNING, RECONCILING, STABLE, DEAD = "Empty", "Assigning", "Reconciling", "Stable", "Dead"
#: One that is there for as long as nobody owns more than this.
NO_TARGET: Target = {}


@unique
class Kind(IntEnum):
    """What a deadline of a member is for."""

    SESSION = 0
    REVOCATION = 1
    JOIN = 2
    SYNC = 3


class Deadline(NamedTuple):
    """When a member goes, unless it does something. `epoch`: only if it is in this epoch still; None: in any."""

    ms: int
    epoch: int | None = None


class ConsumerGroup(ModernGroup):
    """`epoch` counts the changes that ask for another target; `target_epoch` is the one that `targets` were worked out
    for, at `target_ms` since 1970. `owners`: topic id → partition → member, also of partitions that are being given
    back. `needs_look`: its topics may have changed; `needs_resolving`: what its patterns stand for. `unsure`: keys of
    records that may or may not be in the log.
    `waiting`: what is to be done when the record on its way is there."""

    def __init__(self, group_id: str, topics: Topics, counts: Counts) -> None:
        super().__init__(group_id)
        self._topics = topics
        self._counts = counts
        self.epoch = 1
        self.metadata_hash = 0
        self.target_epoch = 0
        self.target_ms = 0
        self.members: dict[str, ConsumerMember] = {}
        self.instances: dict[str, str] = {}
        self.targets: dict[str, Target] = {}
        self.resolved: dict[str, Resolved] = {}
        self.owners: dict[bytes, dict[int, str]] = {}
        self.has_partition_metadata = False
        self.needs_look = True
        self.is_resolving = False
        self.needs_resolving = False
        self.deadlines: dict[tuple[Kind, str], Deadline] = {}
        self.timers: dict[tuple[Kind, str], int] = {}
        self.unsure: set[bytes] = set()
        self.waiting: list[tuple[GroupRequest | None, Callable[[Now], None]]] = []
        self._names: Counter[str] = Counter()
        self._patterns: Counter[str] = Counter()
        self._assignors: Counter[str] = Counter()

    # members, targets and patterns; None: there is none any more

    def set_member(self, member_id: str, member: ConsumerMember | None) -> None:
        """Put a member in the place of the one with this id."""
        old = self.members.pop(member_id, None) if member is None else self.members.get(member_id)
        if old is not None:
            self._count(old, -1)
            self._release(old)
            if old.instance_id is not None and self.instances.get(old.instance_id) == member_id:
                del self.instances[old.instance_id]
        if member is not None:
            self._own(member)
            self.members[member_id] = member
            self._count(member, 1)
            if member.instance_id is not None:
                self.instances[member.instance_id] = member_id
        self._counts.members += (member is not None) - (old is not None)

    def _count(self, member: ConsumerMember, difference: int) -> None:
        for counter, names in (
            (self._names, member.topics),
            (self._patterns, (member.pattern,) if member.pattern else ()),
            (self._assignors, (member.assignor,) if member.assignor else ()),
        ):
            for name in names:
                counter[name] += difference
                if not counter[name]:
                    del counter[name]

    def _release(self, member: ConsumerMember) -> None:
        for owned in (member.assigned, member.revoking):
            for topic_id, partition in pairs(owned):
                owners = self.owners[topic_id]
                del owners[partition]
                if not owners:
                    del self.owners[topic_id]

    def _own(self, member: ConsumerMember) -> None:
        """Nobody else may have what this member has: a fault that would break the promise of groups."""
        mine = [*pairs(member.assigned), *pairs(member.revoking)]
        taken = [(topic_id, number) for topic_id, number in mine if number in self.owners.get(topic_id, ())]
        if taken or len(set(mine)) != len(mine):
            raise RuntimeError(f"{member.id} of group {self.id} cannot have what another member has: {taken[:3]}")
        for topic_id, partition in mine:
            self.owners.setdefault(topic_id, {})[partition] = member.id

    def set_target(self, member_id: str, target: Target | None) -> None:
        """What a member is to have."""
        if target is None:
            self.targets.pop(member_id, None)
        else:
            self.targets[member_id] = target

    def set_resolved(self, pattern: str, resolved: Resolved | None) -> None:
        """What a pattern stands for."""
        if resolved is None:
            self.resolved.pop(pattern, None)
        else:
            self.resolved[pattern] = resolved

    def clear(self) -> None:
        """Nobody is a member any more; nothing is recorded."""
        for member_id in list(self.members):
            self.set_member(member_id, None)
        self.deadlines.clear()

    def close(self) -> list[GroupRequest]:
        waiting, self.waiting = self.waiting, []
        self.clear()
        return [request for request, _ in waiting if request is not None]

    # questions

    @property
    def is_empty(self) -> bool:
        return not self.members and not self.is_dead

    @property
    def state_name(self) -> str:
        if self.is_dead:
            return DEAD
        if not self.members:
            return EMPTY
        if self.epoch > self.target_epoch:
            return ASSIGNING
        is_done = all(member.is_reconciled(self.target_epoch) for member in self.members.values())
        return STABLE if is_done else RECONCILING

    def static_member(self, instance_id: str | None) -> ConsumerMember | None:
        """The member of this instance."""
        member_id = self.instances.get(instance_id) if instance_id is not None else None
        return self.members[member_id] if member_id is not None else None

    def target(self, member: ConsumerMember) -> Target:
        """What a member is to have."""
        return self.targets.get(member.id, NO_TARGET)

    def owner(self, topic_id: bytes, partition: int) -> str | None:
        """The member that has a partition, or has still to give it back."""
        return self.owners.get(topic_id, {}).get(partition)

    def patterns(self) -> Counter[str]:
        """Patterns, and how many members have each."""
        return self._patterns

    def assignor(self, default: str) -> str:
        """The assignor that most members ask for."""
        return self._assignors.most_common(1)[0][0] if self._assignors else default

    def topic_names(self, member: ConsumerMember) -> frozenset[str]:
        """What a member subscribes to, by name and by pattern."""
        names = frozenset(member.topics)
        resolved = self.resolved.get(member.pattern) if member.pattern else None
        return names | resolved.topics if resolved is not None else names

    def topic_ids(self, member: ConsumerMember) -> frozenset[bytes]:
        """Those of them that exist."""
        found = (self._topics.topic(name) for name in self.topic_names(member))
        return frozenset(topic.id for topic in found if topic is not None)

    def all_topic_names(self) -> set[str]:
        """What any member subscribes to."""
        names = set(self._names)
        for pattern in self._patterns:
            if pattern in self.resolved:
                names |= self.resolved[pattern].topics
        return names

    def is_subscribed(self, topic: str) -> bool:
        return topic in self._names or any(
            topic in self.resolved[pattern].topics for pattern in self._patterns if pattern in self.resolved
        )

    def topics_changed(self, names: frozenset[str]) -> None:
        self.needs_resolving = True
        if any(self.is_subscribed(name) for name in names):
            self.needs_look = True

    def present_hash(self) -> int:
        """A number that says what the subscribed topics are like; 0 without any."""
        rows = []
        for name in sorted(self.all_topic_names()):
            topic = self._topics.topic(name)
            if topic is not None:
                rows.append(topic.id + len(topic.partitions).to_bytes(4, "big"))
        if not rows:
            return 0
        return int.from_bytes(blake2b(b"".join(rows), digest_size=8).digest(), "big", signed=True)

    def waits_for_others(self, member: ConsumerMember) -> bool:
        """Whether somebody else still has what the member is to have."""
        if member.state is not MemberState.UNRELEASED_PARTITIONS:
            return False
        return any(
            partition not in member.assigned.get(topic_id, ()) and self.owner(topic_id, partition) is not None
            for topic_id, partition in pairs(self.target(member))
        )

    # members of the classic protocol

    def classic_members(self) -> int:
        """How many members speak the classic protocol."""
        return sum(1 for member in self.members.values() if member.classic is not None)

    def supports(self, protocol_type: str, names: list[str]) -> bool:
        """Whether a member of the classic protocol with these assignors may join."""
        if protocol_type != self.type:
            return False
        known = [
            {name for name, _ in member.classic.protocols}
            for member in self.members.values()
            if member.classic is not None
        ]
        return any(all(name in theirs for theirs in known) for name in names)

    # committed offsets

    def commit_error(
        self,
        offsets: Mapping[tuple[str, int], Committed],
        member_id: str,
        instance_id: str | None,
        epoch: int,
        version: int | None,
    ) -> int:
        if epoch < 0 and not self.members:
            return ErrorCode.NONE
        if version is None and epoch == -1 and not member_id and instance_id is None:
            return ErrorCode.NONE
        member = self.members.get(member_id)
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if version is not None and version < EPOCHS_IN_COMMITS and member.classic is None:
            return ErrorCode.UNSUPPORTED_VERSION
        stale = self._stale(member) if version is not None else ErrorCode.ILLEGAL_GENERATION
        if epoch == member.epoch:
            return ErrorCode.NONE
        return stale if epoch > member.epoch or not self._owned_at(member, offsets, epoch) else ErrorCode.NONE

    def _owned_at(self, member: ConsumerMember, offsets: Mapping[tuple[str, int], Committed], epoch: int) -> bool:
        """Whether these partitions were the member's in this epoch of it, and are still (KIP-1251)."""
        for name, partition in offsets:
            topic = self._topics.topic(name)
            since = member.owned_since(topic.id, partition) if topic is not None else None
            if since is None or epoch < since:
                return False
        return True

    def fetch_error(self, member_id: str | None, epoch: int) -> int:
        if member_id is None and epoch < 0:
            return ErrorCode.NONE
        member = self.members.get(member_id or "")
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return ErrorCode.NONE if epoch == member.epoch else self._stale(member)

    @staticmethod
    def _stale(member: ConsumerMember) -> int:
        return ErrorCode.STALE_MEMBER_EPOCH if member.classic is None else ErrorCode.ILLEGAL_GENERATION

    # the log

    def record_keys(self) -> list[bytes]:
        """In the order in which Kafka deletes a group's records."""
        of = records.key_of
        return [
            *(of(records.CURRENT, self.id, member_id) for member_id in self.members),
            *(of(records.TARGET, self.id, member_id) for member_id in self.members),
            of(records.TARGET_EPOCH, self.id),
            *(of(records.MEMBER, self.id, member_id) for member_id in self.members),
            *(of(records.PATTERN, self.id, pattern) for pattern in self.resolved),
            of(records.PARTITION_METADATA, self.id),
            of(records.GROUP_EPOCH, self.id),
        ]

    def record_value(self, key: bytes) -> bytes | None:
        """What the log should say under a key now."""
        name = records.read_name(key)
        if name is None or self.is_dead:
            return None
        member = self.members.get(name.part)
        if name.kind == records.GROUP_EPOCH:
            return records.epoch_value(self.epoch, self.metadata_hash)
        if name.kind == records.TARGET_EPOCH:
            return records.target_epoch_value(self.target_epoch, self.target_ms)
        if name.kind == records.TARGET and name.part in self.targets:
            return records.target_value(self.targets[name.part])
        if name.kind == records.PATTERN and name.part in self.resolved:
            return records.pattern_value(self.resolved[name.part])
        if member is not None and name.kind == records.MEMBER:
            return records.member_value(member)
        return records.current_value(member) if member is not None and name.kind == records.CURRENT else None


def since_zero(owned: Owned) -> Owned:
    """The same partitions, as owned since ever."""
    return {topic_id: dict.fromkeys(partitions, 0) for topic_id, partitions in owned.items()}
