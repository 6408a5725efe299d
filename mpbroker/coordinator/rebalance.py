"""The phases of a group and what ends them: joins, syncs, time. Runs in the coordinator process.

    Empty ──────► PreparingRebalance ──all joined──► CompletingRebalance ──leader's sync──► Stable
      ▲  initial delay    │  ▲                             │                                  │
      └──── nobody left ──┘  └──── a join, a leave, a session or a sync deadline that ends ───┘

Deadlines are never taken back: each says which phase or generation it was for.
"""

from __future__ import annotations

from mpbroker.coordinator.effects import Now
from mpbroker.coordinator.group import Group, Member, State
from mpbroker.coordinator.offsets_records import GroupValue, MemberValue, group_key, group_value
from mpbroker.coordinator.responses import joined, sync_failed, synced
from mpbroker.coordinator.shard import Shard, nothing
from mpbroker.errors import ErrorCode

NEW_MEMBER_JOIN_MS = 5 * 60_000  # a join of a member that cannot heartbeat yet
LEAST_LEFT_MS = 3000  # of a session after a death of the coordinator
LEAST_AGAIN_MS = 1000  # the same after further deaths without a sign of life


# sessions


def touch(shard: Shard, group: Group, member: Member, now: Now, timeout_ms: int | None = None) -> None:
    """The member gave a sign of life: its session begins anew. Only an earlier deadline needs a new timer."""
    member.deadline_ms = now.ms + (member.session_timeout_ms if timeout_ms is None else timeout_ms)
    if timeout_ms is None:
        shard.env.table.saw_member(group.id, member.id, now.ms)
    _watch_if_earlier(shard, group, member)


def resume(shard: Shard, group: Group, member: Member, now: Now) -> None:
    """The member is known from a predecessor of this process. Its session goes on from its last sign of life: whoever
    is dead goes when it would have gone. But while there was no coordinator it could give none, and the ones that wait
    are not read yet: at least a third of a session is left, within which clients heartbeat. That is granted once: a
    coordinator that dies again and again would else keep the dead, and with them a rebalance that waits for them."""
    session_ms, table = member.session_timeout_ms, shard.env.table
    seen = table.last_seen(group.id, member.id)
    left_ms = session_ms if seen is None else seen.at_ms + session_ms - now.ms
    if seen is not None and seen.is_granted:
        left_ms = max(left_ms, LEAST_AGAIN_MS)
    elif left_ms < (least_ms := min(session_ms, max(session_ms // 3, LEAST_LEFT_MS))):
        left_ms = least_ms
        table.grant(group.id, member.id, now.ms + left_ms - session_ms)
    member.deadline_ms = now.ms + min(session_ms, left_ms)
    _watch_if_earlier(shard, group, member)


def _watch_if_earlier(shard: Shard, group: Group, member: Member) -> None:
    if member.timer_ms == -1 or member.deadline_ms < member.timer_ms:
        _watch(shard, group, member)


def _watch(shard: Shard, group: Group, member: Member) -> None:
    member.timer_ms = member.deadline_ms
    shard.env.timers.at(member.deadline_ms, _session_over, shard, group, member, member.deadline_ms)


def _session_over(shard: Shard, group: Group, member: Member, timer_ms: int, now: Now) -> None:
    if not shard.is_open or group.members.get(member.id) is not member or member.timer_ms != timer_ms:
        return
    member.timer_ms = -1
    if member.deadline_ms > now.ms:
        _watch(shard, group, member)
    elif member.is_new or not (member.join or member.sync):  # who waits for us is alive
        shard.env.counts.members_expired += 1
        remove_and_rebalance(shard, group, member, now)


def expect_pending(shard: Shard, group: Group, member_id: str, timeout_ms: int, now: Now) -> None:
    """An id was issued; it is forgotten if nobody joins with it in time."""
    group.pending[member_id] = now.ms + timeout_ms
    shard.env.counts.members += 1
    shard.env.timers.at(now.ms + timeout_ms, _pending_over, shard, group, member_id)


def _pending_over(shard: Shard, group: Group, member_id: str, now: Now) -> None:
    if shard.is_open and member_id in group.pending:
        remove_pending(shard, group, member_id)
        maybe_complete_join(shard, group, now)


def remove_pending(shard: Shard, group: Group, member_id: str) -> None:
    """Forget an id that was issued and not used."""
    if group.pending.pop(member_id, None) is not None:
        shard.env.counts.members -= 1
        shard.env.table.drop_member(group.id, member_id)


# members


def add(shard: Shard, group: Group, member: Member, protocol_type: str) -> None:
    """Take a member in, which may have been pending; its instance and id are free."""
    if not group.members:
        group.protocol_type = protocol_type
    group.members[member.id] = member
    shard.env.counts.members += member.id not in group.pending
    group.pending.pop(member.id, None)
    if member.instance_id is not None:
        group.instances[member.instance_id] = member.id
    group.leader = group.leader or member.id
    shard.env.table.put_member(group.id, member.id)


def remove(shard: Shard, group: Group, member: Member) -> None:
    """Take a member out and answer what it waits for; the state stays."""
    shard.refuse_join(member, "", ErrorCode.UNKNOWN_MEMBER_ID)
    shard.answer_sync(member, sync_failed(ErrorCode.UNKNOWN_MEMBER_ID))
    del group.members[member.id]
    group.unsynced.discard(member.id)
    shard.env.counts.members -= 1
    shard.env.table.drop_member(group.id, member.id)
    if member.instance_id is not None and group.instances.get(member.instance_id) == member.id:
        del group.instances[member.instance_id]
    if group.leader == member.id:
        group.leader = next(iter(group.members), None)


def remove_and_rebalance(shard: Shard, group: Group, member: Member, now: Now) -> None:
    """Take a member out; the others rebalance."""
    remove(shard, group, member)
    if group.state in (State.STABLE, State.COMPLETING):
        prepare(shard, group, now)
    else:
        maybe_complete_join(shard, group, now)


# phases


def prepare(shard: Shard, group: Group, now: Now) -> None:
    """Begin a join phase."""
    if group.state is State.COMPLETING:
        cancel_syncs(shard, group, ErrorCode.REBALANCE_IN_PROGRESS, now)
    is_first = group.state is State.EMPTY
    shard.set_state(group, State.PREPARING, now)
    timeout_ms = group.rebalance_timeout_ms()
    if is_first:
        delay_ms = shard.env.settings.initial_rebalance_delay_ms
        _wait_initially(shard, group, delay_ms, max(timeout_ms - delay_ms, 0), now)
    else:
        group.initial_delay_ms = None
        _wait_for_joins(shard, group, now)
        maybe_complete_join(shard, group, now)


def maybe_prepare(shard: Shard, group: Group, now: Now) -> None:
    """Begin a join phase, unless there is one."""
    if group.state is not State.PREPARING:
        prepare(shard, group, now)


def _wait_initially(shard: Shard, group: Group, delay_ms: int, remaining_ms: int, now: Now) -> None:
    group.phase += 1
    group.initial_delay_ms, group.remaining_ms = delay_ms, remaining_ms
    shard.env.timers.at(now.ms + delay_ms, _join_over, shard, group, group.phase)


def _wait_for_joins(shard: Shard, group: Group, now: Now) -> None:
    group.phase += 1
    shard.env.timers.at(now.ms + group.rebalance_timeout_ms(), _join_over, shard, group, group.phase)


def _join_over(shard: Shard, group: Group, phase: int, now: Now) -> None:
    if not shard.is_open or group.phase != phase or group.state is not State.PREPARING:
        return
    if group.initial_delay_ms is not None and group.new_member_added and group.remaining_ms:
        group.new_member_added = False
        delay_ms = min(shard.env.settings.initial_rebalance_delay_ms, group.remaining_ms)
        _wait_initially(shard, group, delay_ms, max(group.remaining_ms - group.initial_delay_ms, 0), now)
    else:
        complete_join(shard, group, now)


def maybe_complete_join(shard: Shard, group: Group, now: Now) -> None:
    """End the join phase if everybody is there; the initial delay is always waited for."""
    if group.state is State.PREPARING and group.initial_delay_ms is None and group.all_joined():
        complete_join(shard, group, now)


def complete_join(shard: Shard, group: Group, now: Now) -> None:
    """End the join phase: the next generation begins, with whoever came."""
    group.initial_delay_ms = None
    group.new_member_added = False
    for member in [member for member in group.members.values() if not member.join and member.instance_id is None]:
        remove(shard, group, member)
    if group.members and not _elect(group):
        _wait_for_joins(shard, group, now)  # static members alone, and none came: their sessions decide
        return
    group.generation += 1
    group.unsynced.clear()
    shard.env.counts.rebalances += 1
    group.protocol = group.chosen_protocol() if group.members else None
    group.find_subscribed()
    if group.members:
        _tell_generation(shard, group, now)
    else:
        _become_empty(shard, group, now)


def _tell_generation(shard: Shard, group: Group, now: Now) -> None:
    shard.set_state(group, State.COMPLETING, now)
    for member in group.members.values():
        is_leader = member.id == group.leader
        shard.answer_join(member, joined(group, member, group.leader, is_leader))
        member.is_new = False
        touch(shard, group, member, now)
    group.unsynced.update(group.members)
    deadline_ms = now.ms + group.rebalance_timeout_ms()
    shard.env.timers.at(deadline_ms, _sync_over, shard, group, group.generation)


def _elect(group: Group) -> bool:
    """An absent leader is replaced by a member that came; False: none came."""
    leader = group.members.get(group.leader or "")
    if leader is None or not leader.join:
        group.leader = next((member.id for member in group.members.values() if member.join), group.leader)
    return bool(group.members[group.leader or ""].join)


def _become_empty(shard: Shard, group: Group, now: Now) -> None:
    """If the record is lost, an older generation comes back at the next load, and its members' sessions end."""
    group.leader = None
    shard.set_state(group, State.EMPTY, now)
    leave, group.last_leave = group.last_leave, None
    token, then = leave or (None, nothing)
    shard.append([group_record(group, {})], token, now, then)


def _sync_over(shard: Shard, group: Group, generation: int, now: Now) -> None:
    if not shard.is_open or group.generation != generation or group.state not in (State.COMPLETING, State.STABLE):
        return
    late = [group.members[member_id] for member_id in group.unsynced if member_id in group.members]
    if late:
        for member in late:
            remove(shard, group, member)
        prepare(shard, group, now)


# assignments


def cancel_syncs(shard: Shard, group: Group, code: int, now: Now) -> None:
    """There is no assignment: whoever waits for it hears why."""
    for member in group.members.values():
        member.assignment = b""
        if shard.answer_sync(member, sync_failed(code)):
            touch(shard, group, member, now)


def hand_out(shard: Shard, group: Group, assignments: dict[str, bytes], now: Now) -> None:
    """Every member gets its part; one the leader left out gets an empty one."""
    for member in group.members.values():
        member.assignment = assignments.get(member.id, b"")
        if shard.answer_sync(member, synced(group, member)):
            touch(shard, group, member, now)


def group_record(group: Group, assignments: dict[str, bytes]) -> tuple[bytes, bytes | None]:
    """The record of a group as it stands, with these assignments."""
    members = [
        MemberValue(
            member.id,
            member.instance_id,
            member.client_id,
            member.client_host,
            member.rebalance_timeout_ms,
            member.session_timeout_ms,
            group.metadata(member),
            assignments.get(member.id, b""),
        )
        for member in group.members.values()
    ]
    value = GroupValue(
        group.protocol_type or "", group.generation, group.protocol, group.leader, group.state_ms, members
    )
    return group_key(group.id), group_value(value)
