"""One partition of `__consumer_offsets` and the groups it holds. Runs in the coordinator process.

A shard is loading, then open, then closed for ever: a partition that comes back is a new shard. No state is shared
between shards but what `Environment` keeps for all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from mpbroker.coordinator.any_group import AnyGroup, ModernGroup
from mpbroker.coordinator.effects import Append, Now, Token
from mpbroker.coordinator.environment import Environment
from mpbroker.coordinator.group import Group, Member, Parked, State
from mpbroker.coordinator.group_table import GroupRow, RowState
from mpbroker.coordinator.offsets_records import offset_key
from mpbroker.coordinator.responses import failure, join_failed, sync_failed
from mpbroker.errors import ErrorCode
from mpbroker.metadata.topic_names import OFFSETS_TOPIC
from mpbroker.protocol.messages.join_group import JoinGroupResponse
from mpbroker.protocol.messages.sync_group import SyncGroupResponse

Records = list[tuple[bytes, bytes | None]]
G = TypeVar("G", bound=AnyGroup)

#: Tombstones in one batch: about 100 bytes each, and a batch may have 1 MiB.
TOMBSTONES_AT_ONCE = 4000
_ROWS = {
    State.EMPTY: RowState.EMPTY,
    State.PREPARING: RowState.PREPARING,
    State.COMPLETING: RowState.COMPLETING,
    State.STABLE: RowState.STABLE,
}


class Shard:
    """Groups by id, and appends on their way."""

    def __init__(self, partition: int, leader_epoch: int, environment: Environment) -> None:
        self.partition = partition
        self.leader_epoch = leader_epoch
        self.env = environment
        self.groups: dict[str, AnyGroup] = {}
        self.is_loading = True
        self.is_open = True
        self.deleted_topics: list[str] = []  # while it was loading
        self.ended: list[tuple[int, bool]] = []  # likewise: producer id, whether its transaction was committed
        self.transactional: dict[int, set[str]] = {}  # producer id → groups with offsets in its transaction
        self._appends: dict[int, Callable[[int, Now], None]] = {}

    # groups

    def find(self, group_id: str) -> Group | None:
        """The classic group of this id."""
        group = self.any(group_id)
        return group if isinstance(group, Group) else None

    def any(self, group_id: str) -> AnyGroup | None:
        """The group, of either protocol; a classic one that only the table remembers comes back Empty, at its
        generation floor."""
        group = self.groups.get(group_id)
        if group is None and (row := self.env.table.group(group_id)) is not None:
            found = self.add_group(Group(group_id))
            found.generation = row.generation
            return found
        return group

    def has_room(self) -> bool:
        """Whether there may be another group; it is counted if not."""
        has_room = self.env.counts.groups < self.env.settings.max_groups
        self.env.counts.groups_refused += not has_room
        return has_room

    def create(self, group_id: str) -> Group | None:
        """A new classic group, Empty; None if there are too many."""
        return self.add_group(Group(group_id)) if self.has_room() else None

    def add_group(self, group: G) -> G:
        """Take a group in."""
        self.groups[group.id] = group
        self.env.counts.groups += 1
        return group

    def forget(self, group: AnyGroup) -> None:
        """Let go of a group that holds no members any more."""
        self.groups.pop(group.id, None)
        group.mark_dead(True)
        counts = self.env.counts
        counts.groups -= 1
        counts.offsets -= sum(map(len, group.offsets.values()))
        if isinstance(group, Group):
            counts.members -= len(group.pending)
            for member_id in group.pending:
                self.env.table.drop_member(group.id, member_id)
            group.pending.clear()
        group.offsets.clear()
        group.pending_offsets.clear()
        group.transactional.clear()
        self.env.table.drop_group(group.id)

    def set_state(self, group: Group, state: State, now: Now) -> None:
        """Change the state, in the table too, before any answer shows it or the generation."""
        group.state, group.state_ms = state, now.wall_ms
        self.store_row(group)

    def store_row(self, group: Group) -> bool:
        """Store generation and state in the table; False: it is full, and the group is new to it."""
        return self.env.table.put_group(group.id, GroupRow(group.generation, _ROWS[group.state]))

    # answers to those who wait

    def park_join(self, member: Member, parked: Parked) -> None:
        """The member's join waits; an older one is answered, for its entry is needed."""
        self.answer_join(member, None)
        member.join = parked
        self.env.count_parked(parked.lane, 1)

    def park_sync(self, member: Member, parked: Parked) -> None:
        """The member's sync waits; likewise."""
        self.answer_sync(member, sync_failed(ErrorCode.REBALANCE_IN_PROGRESS))
        member.sync = parked
        self.env.count_parked(parked.lane, 1)

    def answer_join(self, member: Member, message: JoinGroupResponse | None) -> None:
        """Answer the member's waiting join, if there is one. None: it was replaced, or its round is over."""
        parked, member.join = member.join, None
        if parked is None:
            return
        if message is None:
            message = join_failed(parked.version, member.id, ErrorCode.REBALANCE_IN_PROGRESS)
        self.env.count_parked(parked.lane, -1)
        self.env.answer(parked.token, message)

    def refuse_join(self, member: Member, member_id: str, code: int) -> None:
        """Answer the member's waiting join, if there is one, with an error."""
        if member.join is not None:
            self.answer_join(member, join_failed(member.join.version, member_id, code))

    def answer_sync(self, member: Member, message: SyncGroupResponse) -> bool:
        """Answer the member's waiting sync, if there is one."""
        parked, member.sync = member.sync, None
        if parked is None:
            return False
        self.env.count_parked(parked.lane, -1)
        self.env.answer(parked.token, message)
        return True

    # the log

    def append(
        self,
        records: Records,
        token: Token | None,
        now: Now,
        then: Callable[[int, Now], None],
        producer: tuple[int, int] | None = None,
        is_verified: bool = False,
    ) -> int:
        """Append one batch; `then(code, now)` is called when it is acknowledged, or not. `producer`: in its
        transaction, of which the partition knows if it `is_verified`."""
        number = self.env.next_number()
        self._appends[number] = then
        batch = Append(
            self.partition,
            self.leader_epoch,
            number,
            token,
            now.wall_ms,
            tuple(records),
            OFFSETS_TOPIC,
            producer,
            is_verified,
        )
        self.env.ask(batch)
        return number

    def appended(self, number: int, code: int, now: Now) -> None:
        """An append was acknowledged (0), or failed; unknown numbers are those of a shard that was closed."""
        then = self._appends.pop(number, None)
        if then is not None:
            then(code, now)

    def append_tombstones(
        self, keys: Iterable[bytes], token: Token | None, now: Now, then: Callable[[int, Now], None]
    ) -> None:
        """Delete records, in several batches if they are many. The last one has the token, and `then` follows it: an
        earlier one that fails leaves records for the next attempt."""
        records: Records = [(key, None) for key in keys]
        while len(records) > TOMBSTONES_AT_ONCE:
            self.append(records[:TOMBSTONES_AT_ONCE], None, now, nothing)
            records = records[TOMBSTONES_AT_ONCE:]
        self.append(records, token, now, then)

    def close(self, now: Now) -> None:
        """The partition is not ours any more: whoever waits hears so, and nothing is kept."""
        appends, self._appends = self._appends, {}
        self.is_open = False
        for then in appends.values():
            then(ErrorCode.NOT_LEADER_OR_FOLLOWER, now)
        for group in list(self.groups.values()):
            if isinstance(group, Group):
                self._close(group)
            elif isinstance(group, ModernGroup):
                for request in group.close():
                    self.env.count_parked(request.lane, -1)
                    self.env.answer(request.token, failure(request, ErrorCode.NOT_COORDINATOR))
                self.forget(group)

    def _close(self, group: Group) -> None:
        for member in group.members.values():
            self.refuse_join(member, member.id, ErrorCode.NOT_COORDINATOR)
            self.answer_sync(member, sync_failed(ErrorCode.NOT_COORDINATOR))
            self.env.table.drop_member(group.id, member.id)
        self.env.counts.members -= len(group.members)
        group.members.clear()
        self.forget(group)


def nothing(code: int, now: Now) -> None:
    """What follows an append whose failure changes nothing."""


def keys_of(group: AnyGroup) -> list[bytes]:
    """The keys of everything a group has in the log."""
    names = {(topic, partition) for topic, found in group.offsets.items() for partition in found}
    keys = [
        offset_key(group.id, *name)
        for name in sorted(names.union(group.pending_offsets, *group.transactional.values()))
    ]
    return [*keys, *group.record_keys()]
