"""Members that go: by themselves, or because a deadline of theirs is over. Runs in the coordinator process.

Deadlines are never taken back from the timers: whoever is called looks whether there is a later one by now.
"""

from __future__ import annotations

from collections.abc import Sequence

from mpbroker.coordinator.consumer_groups.change import Change, Then, commit
from mpbroker.coordinator.consumer_groups.consumer_group import ConsumerGroup, Deadline, Kind
from mpbroker.coordinator.consumer_groups.consumer_member import ConsumerMember
from mpbroker.coordinator.consumer_groups.migration import downgrade, may_downgrade
from mpbroker.coordinator.effects import Now, Token
from mpbroker.coordinator.shard import Shard
from mpbroker.errors import ErrorCode

# deadlines


def watch(
    shard: Shard, group: ConsumerGroup, kind: Kind, member_id: str, timeout_ms: int, now: Now, epoch: int | None = None
) -> None:
    """The member has this long, from now on."""
    key, end_ms = (kind, member_id), now.ms + timeout_ms
    group.deadlines[key] = Deadline(end_ms, epoch)
    timer_ms = group.timers.get(key)
    if timer_ms is None or end_ms < timer_ms:
        group.timers[key] = end_ms
        shard.env.timers.at(end_ms, _due, shard, group, key, end_ms)


def unwatch(group: ConsumerGroup, kind: Kind, member_id: str) -> None:
    """The member did what it should."""
    group.deadlines.pop((kind, member_id), None)


def touch(shard: Shard, group: ConsumerGroup, member: ConsumerMember, now: Now) -> None:
    """The member gave a sign of life: its session begins anew."""
    classic = member.classic
    own = shard.env.settings_of(group.id) if classic is None else classic
    watch(shard, group, Kind.SESSION, member.id, own.session_timeout_ms, now)


def _due(shard: Shard, group: ConsumerGroup, key: tuple[Kind, str], timer_ms: int, now: Now) -> None:
    if not shard.is_open or shard.groups.get(group.id) is not group or group.timers.get(key) != timer_ms:
        return
    del group.timers[key]
    deadline = group.deadlines.get(key)
    if deadline is None:
        return
    if deadline.ms > now.ms:
        group.timers[key] = deadline.ms
        shard.env.timers.at(deadline.ms, _due, shard, group, key, deadline.ms)
    elif group.is_recording:
        group.waiting.append((None, lambda later: _expire(shard, group, key, later)))
    else:
        _expire(shard, group, key, now)


def _expire(shard: Shard, group: ConsumerGroup, key: tuple[Kind, str], now: Now) -> None:
    deadline, member = group.deadlines.get(key), group.members.get(key[1])
    if deadline is None or deadline.ms > now.ms:
        return
    del group.deadlines[key]
    if member is not None and deadline.epoch in (None, member.epoch):
        shard.env.counts.members_expired += 1
        remove(shard, group, [member], None, now, lambda code, later: None)


# members that go


def remove(
    shard: Shard,
    group: ConsumerGroup,
    gone: Sequence[ConsumerMember],
    token: Token | None,
    now: Now,
    then: Then,
) -> None:
    """Take members out. If only members of the classic protocol are left, the group becomes a classic one."""
    if not gone:
        then(ErrorCode.NONE, now)
        return
    if may_downgrade(shard, group, gone):
        downgrade(shard, group, gone, token, now, then)
        return
    patterns = {member.pattern for member in gone if member.pattern}
    with Change(group) as change:
        for member in gone:
            change.remove_member(member.id)
        for pattern in sorted(patterns - group.patterns().keys()):
            change.set_resolved(pattern, None)
        change.raise_epoch()
    shard.env.counts.rebalances += 1

    def settled(code: int, later: Now) -> None:
        for member in gone:
            if code == ErrorCode.NONE:
                for kind in Kind:
                    unwatch(group, kind, member.id)
            else:  # it is a member still
                touch(shard, group, member, later)
        then(code, later)

    commit(shard, change, token, now, settled)
