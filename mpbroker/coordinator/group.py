"""A classic consumer group in memory: members, state, votes, committed offsets. Runs in the coordinator process.

Only data and questions about it; what happens when is in `rebalance.py` and the files called after requests.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from enum import Enum
from typing import NamedTuple

import msgspec

from mpbroker.coordinator.any_group import CLASSIC_TYPE, AnyGroup
from mpbroker.coordinator.effects import Now, Token
from mpbroker.coordinator.offsets_records import group_key
from mpbroker.coordinator.subscription import subscribed_topics
from mpbroker.protocol.messages.join_group import JoinGroupResponseMember

CONSUMER = "consumer"  # the protocol type whose subscriptions the broker can read


class State(Enum):
    """A group's state, with the name clients see."""

    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


class Parked(NamedTuple):
    """A JoinGroup or SyncGroup that waits; `lane`: the processor whose entry it is."""

    token: Token
    version: int
    lane: int


class Member(msgspec.Struct):
    """One member. `protocols`: name → metadata, best first. `is_new`: no join of it was answered yet.

    `deadline_ms` is when its session ends; `timer_ms` the deadline for which a timer runs, -1: none.
    """

    id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: dict[str, bytes]
    assignment: bytes = b""
    is_new: bool = False
    join: Parked | None = None
    sync: Parked | None = None
    deadline_ms: int = -1
    timer_ms: int = -1


class Group(AnyGroup):
    """One group. `phase` counts the join phases, so that a timer of an earlier one is known as such.

    `initial_delay_ms`: of the first join phase after Empty, None in any other; `remaining_ms`: by how much that may
    still be extended. `pending`: ids that were issued and not used yet → when they end. `subscribed`: topics, None if
    nobody can tell. `last_leave`: the LeaveGroup in progress, whose token goes with the record of an empty group, and
    what follows.
    """

    type = CLASSIC_TYPE

    def __init__(self, group_id: str) -> None:
        super().__init__(group_id)
        self.state = State.EMPTY
        self.state_ms = -1
        self.generation = 0
        self.protocol_type: str | None = None
        self.protocol: str | None = None
        self.leader: str | None = None
        self.members: dict[str, Member] = {}
        self.instances: dict[str, str] = {}
        self.pending: dict[str, int] = {}
        self.unsynced: set[str] = set()
        self.phase = 0
        self.initial_delay_ms: int | None = None
        self.remaining_ms = 0
        self.new_member_added = False
        self.subscribed: frozenset[str] | None = None
        self.last_leave: tuple[Token, Callable[[int, Now], None]] | None = None

    def supports(self, protocol_type: str, protocols: Iterable[str]) -> bool:
        """Whether somebody with these protocols may be a member, now that the others are there."""
        if self.state is State.EMPTY:
            return bool(protocol_type) and any(True for _ in protocols)
        if protocol_type != self.protocol_type:
            return False
        members = self.members.values()
        return any(all(name in member.protocols for member in members) for name in protocols)

    def chosen_protocol(self) -> str:
        """Each member votes for its first protocol that all have; most votes win. There are members."""
        members = list(self.members.values())
        candidates = set(members[0].protocols).intersection(*(member.protocols for member in members[1:]))
        votes = Counter(next(name for name in member.protocols if name in candidates) for member in members)
        return votes.most_common(1)[0][0]

    def metadata(self, member: Member) -> bytes:
        """The member's metadata for the chosen protocol."""
        return member.protocols.get(self.protocol or "", b"")

    def all_metadata(self) -> list[JoinGroupResponseMember]:
        """What the leader is told."""
        return [
            JoinGroupResponseMember(member.id, member.instance_id, self.metadata(member))
            for member in self.members.values()
        ]

    def rebalance_timeout_ms(self) -> int:
        """The longest of all members."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def all_joined(self) -> bool:
        """Whether the join phase may end."""
        return not self.pending and all(member.join for member in self.members.values())

    def waiting_joins(self) -> int:
        """How many members wait for the end of the join phase."""
        return sum(1 for member in self.members.values() if member.join)

    def find_subscribed(self) -> None:
        """Look up anew which topics the members subscribe to."""
        self.subscribed = None
        if self.protocol_type == CONSUMER:
            self.subscribed = subscribed_topics(self.metadata(member) for member in self.members.values())

    def is_subscribed(self, topic: str) -> bool:
        """Whether the topic is consumed, also when nobody can tell."""
        return self.subscribed is None or topic in self.subscribed

    @property
    def is_empty(self) -> bool:
        """Whether it has no members, and is not being deleted."""
        return self.state is State.EMPTY

    @property
    def is_dead(self) -> bool:
        """Whether it is being deleted."""
        return self.state is State.DEAD

    @property
    def is_awaited(self) -> bool:
        """Whether somebody is about to become a member."""
        return bool(self.pending)

    @property
    def state_name(self) -> str:
        """Its state as clients see it."""
        return self.state.value

    def mark_dead(self, is_dead: bool) -> None:
        """It is being deleted, or is not after all; only a group without members can be."""
        self.state = State.DEAD if is_dead else State.EMPTY

    def record_keys(self) -> list[bytes]:
        """The key of its record, if there ever was one."""
        return [group_key(self.id)] if self.generation > 0 else []
