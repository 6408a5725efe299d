"""One change of a group: applied at once, recorded as one batch, else taken back. Runs in the coordinator process.

Kafka's order: what a request changes is in memory at once and in one batch, and is answered when that is acknowledged.
While a batch is on its way nothing else changes the group: its requests and deadlines wait (`waiting`), so no record
that builds upon another can be there without it. A batch of which nobody knows whether it is there (a sync took too
long) is taken back, and what it touched is written again in front of the next one.
"""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType

from mpbroker.coordinator.consumer_groups import consumer_records as records
from mpbroker.coordinator.consumer_groups.consumer_group import ConsumerGroup
from mpbroker.coordinator.consumer_groups.consumer_member import ConsumerMember, Target
from mpbroker.coordinator.consumer_groups.consumer_records import Record, Resolved
from mpbroker.coordinator.effects import Now, Token
from mpbroker.coordinator.shard import Shard
from mpbroker.errors import ErrorCode

Then = Callable[[int, Now], None]


class Change:
    """As a context: an exception takes back what was done so far."""

    def __init__(self, group: ConsumerGroup) -> None:
        self.group = group
        self.records: list[Record] = []
        self._undo: list[Callable[[], None]] = []

    def __enter__(self) -> Change:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self.undo()

    def undo(self) -> None:
        """Make everything as it was."""
        while self._undo:
            self._undo.pop()()

    def on_undo(self, call: Callable[[], None]) -> None:
        """Something else was done, which this takes back."""
        self._undo.append(call)

    def _set_member(self, member_id: str, member: ConsumerMember | None) -> None:
        old = self.group.members.get(member_id)
        self.group.set_member(member_id, member)
        self._undo.append(lambda: self.group.set_member(member_id, old))

    def write_member(self, member: ConsumerMember) -> None:
        """A member is new, or wants something else."""
        self._set_member(member.id, member)
        self._record(records.MEMBER, records.member_value(member), member.id)

    def write_current(self, member: ConsumerMember) -> None:
        """A member has something else, or another epoch."""
        self._set_member(member.id, member)
        self._record(records.CURRENT, records.current_value(member), member.id)

    def remove_member(self, member_id: str) -> None:
        """A member is gone."""
        self._set_member(member_id, None)
        self._record(records.CURRENT, None, member_id)
        self.set_target(member_id, None)
        self._record(records.MEMBER, None, member_id)

    def set_target(self, member_id: str, target: Target | None) -> None:
        """A member is to have something else."""
        old = self.group.targets.get(member_id)
        self.group.set_target(member_id, target)
        self._undo.append(lambda: self.group.set_target(member_id, old))
        self._record(records.TARGET, None if target is None else records.target_value(target), member_id)

    def set_target_epoch(self, epoch: int, wall_ms: int) -> None:
        """All targets are those of this epoch."""
        group, old = self.group, (self.group.target_epoch, self.group.target_ms)

        def undo() -> None:
            group.target_epoch, group.target_ms = old

        group.target_epoch, group.target_ms = epoch, wall_ms
        self._undo.append(undo)
        self._record(records.TARGET_EPOCH, records.target_epoch_value(epoch, wall_ms))

    def raise_epoch(self) -> None:
        """Something changed that asks for another target."""
        group, old = self.group, (self.group.epoch, self.group.metadata_hash)

        def undo() -> None:
            group.epoch, group.metadata_hash = old

        group.epoch, group.metadata_hash = group.epoch + 1, group.present_hash()
        self._undo.append(undo)
        self._record(records.GROUP_EPOCH, records.epoch_value(group.epoch, group.metadata_hash))

    def set_resolved(self, pattern: str, resolved: Resolved | None) -> None:
        """A pattern stands for other topics, or nobody has it any more."""
        old = self.group.resolved.get(pattern)
        self.group.set_resolved(pattern, resolved)
        self._undo.append(lambda: self.group.set_resolved(pattern, old))
        self._record(records.PATTERN, None if resolved is None else records.pattern_value(resolved), pattern)

    def drop_partition_metadata(self) -> None:
        """The record of Kafka 4.0 that later ones do without."""
        self.group.has_partition_metadata = False
        self._record(records.PARTITION_METADATA, None)

    def _record(self, kind: int, value: bytes | None, part: str = "") -> None:
        self.records.append((records.key_of(kind, self.group.id, part), value))


def commit(shard: Shard, change: Change, token: Token | None, now: Now, then: Then) -> None:
    """Record a change; `then(code, now)` when that is acknowledged, or not."""

    def settled(code: int, later: Now) -> None:
        if code != ErrorCode.NONE:
            change.undo()
        then(code, later)

    if change.records or change.group.unsure:  # nobody hears of what a successor may not find
        record(shard, change.group, change.records, token, now, settled)
    else:
        then(ErrorCode.NONE, now)


def record(shard: Shard, group: ConsumerGroup, batch: list[Record], token: Token | None, now: Now, then: Then) -> None:
    """Append a batch, while which the group does nothing else."""
    touched = {key for key, _ in batch}
    again: list[Record] = [(key, group.record_value(key)) for key in sorted(group.unsure - touched)]

    def settled(code: int, later: Now) -> None:
        group.is_recording = False
        if code == ErrorCode.NONE:
            group.unsure.clear()
        else:
            group.unsure |= touched
        then(code, later)
        serve_waiting(shard, group, later)

    group.is_recording = True
    shard.append([*again, *batch], token, now, settled)


def serve_waiting(shard: Shard, group: ConsumerGroup, now: Now) -> None:
    """What had to wait for the record is done now, up to the next one."""
    while group.waiting and not group.is_recording and shard.is_open:
        request, call = group.waiting.pop(0)
        if request is not None:
            shard.env.count_parked(request.lane, -1)
        call(now)
