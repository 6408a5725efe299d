"""What follows from what a member says, of either protocol: group epoch, targets, what it has next. In the coordinator
process."""

from __future__ import annotations

from mpbroker.coordinator.consumer_groups import membership, subscribed_patterns
from mpbroker.coordinator.consumer_groups.change import Change
from mpbroker.coordinator.consumer_groups.consumer_group import Kind
from mpbroker.coordinator.consumer_groups.consumer_member import ConsumerMember, MemberState
from mpbroker.coordinator.consumer_groups.reconciliation import Held, reconciled
from mpbroker.coordinator.consumer_groups.target_assignment import maybe_work_out
from mpbroker.coordinator.effects import Now
from mpbroker.coordinator.shard import Shard


def advance(
    shard: Shard, change: Change, before: ConsumerMember, wanted: ConsumerMember, held: Held, now: Now
) -> ConsumerMember:
    """A member wants something, perhaps what it wanted before; returns it with what it may have now. `held`: the
    partitions that it says it has."""
    group = change.group
    if wanted != before or wanted.id not in group.members:
        change.write_member(wanted)
    names_changed = wanted.topics != before.topics
    pattern = subscribed_patterns.follow(shard, change, before, wanted, now)
    asks_for_target = names_changed or pattern is subscribed_patterns.Changed.TO_KNOWN
    if asks_for_target or group.needs_look:
        _look(shard, change, asks_for_target)
    interval_ms = shard.env.settings_of(change.group.id).assignment_interval_ms
    maybe_work_out(change, shard.env.topics, shard.env.settings.assignors[0], interval_ms, now)
    member = group.members[wanted.id]
    is_other = names_changed or pattern is not subscribed_patterns.Changed.NOT
    if member.is_reconciled(group.target_epoch) and not is_other:
        return member
    found = reconciled(
        member, group.target_epoch, group.target(member), group.topic_ids(member), group.owner, held, is_other
    )
    if found != member:
        change.write_current(found)
        _watch_revocation(shard, change, found, now)
    return found


def _look(shard: Shard, change: Change, asks_for_target: bool) -> None:
    """Whether the subscribed topics are as they were; a new epoch if not, or if somebody wants others."""
    group = change.group
    if asks_for_target or group.present_hash() != group.metadata_hash:
        change.raise_epoch()
        shard.env.counts.rebalances += 1
    if group.needs_look:
        group.needs_look = False
        change.on_undo(lambda: setattr(group, "needs_look", True))
    if group.has_partition_metadata:
        change.drop_partition_metadata()


def _watch_revocation(shard: Shard, change: Change, member: ConsumerMember, now: Now) -> None:
    """A member of the new protocol has its rebalance timeout to give partitions back."""
    group = change.group
    if member.classic is not None:
        return
    if member.state is MemberState.UNREVOKED_PARTITIONS:
        timeout_ms = member.rebalance_timeout_ms
        membership.watch(shard, group, Kind.REVOCATION, member.id, timeout_ms, now, member.epoch)
    else:
        membership.unwatch(group, Kind.REVOCATION, member.id)
