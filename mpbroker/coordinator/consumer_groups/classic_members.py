"""Members that speak the classic protocol in a group of the new one: what they may join, sync, beat, leave. In the
coordinator process.

Nobody waits for others here: a join is answered with the member's epoch as the generation, a sync with what the member
has, and a heartbeat says when to join again. A join also tells what the member has given back (KIP-429's owned
partitions).
"""

from __future__ import annotations

from mpbroker.coordinator.consumer_groups import membership, migration
from mpbroker.coordinator.consumer_groups.change import Change, commit, record
from mpbroker.coordinator.consumer_groups.consumer_group import ConsumerGroup, Kind
from mpbroker.coordinator.consumer_groups.consumer_heartbeat import replace_static
from mpbroker.coordinator.consumer_groups.consumer_member import ClassicMetadata, ConsumerMember, MemberState
from mpbroker.coordinator.consumer_groups.consumer_records import Record
from mpbroker.coordinator.consumer_groups.embedded_protocol import Subscription, read_subscription
from mpbroker.coordinator.consumer_groups.progress import advance
from mpbroker.coordinator.consumer_groups.refusal import append_error
from mpbroker.coordinator.effects import GroupRequest, Now
from mpbroker.coordinator.group import Group
from mpbroker.coordinator.join_group import MEMBER_ID_FIRST
from mpbroker.coordinator.join_group import handle as join_classic_group
from mpbroker.coordinator.leave_group import MANY
from mpbroker.coordinator.responses import join_failed, sync_failed
from mpbroker.coordinator.shard import Shard
from mpbroker.errors import ErrorCode
from mpbroker.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from mpbroker.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from mpbroker.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity, MemberResponse
from mpbroker.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

# JoinGroup


def join(shard: Shard, group: ConsumerGroup, request: GroupRequest, message: JoinGroupRequest, now: Now) -> None:
    """Answer when what follows from it is recorded."""
    settings = shard.env.settings
    is_too_long = not settings.min_session_timeout_ms <= message.session_timeout_ms <= settings.max_session_timeout_ms
    if is_too_long:
        shard.env.answer(
            request.token, join_failed(request.version, message.member_id, ErrorCode.INVALID_SESSION_TIMEOUT)
        )
    elif group.is_empty:
        _begin_classic_group(shard, group, request, message, now)
    else:
        _join(shard, group, request, message, now)


def _begin_classic_group(
    shard: Shard, group: ConsumerGroup, request: GroupRequest, message: JoinGroupRequest, now: Now
) -> None:
    """A group without members takes the protocol of who comes first."""
    batch: list[Record] = [(key, None) for key in group.record_keys()]

    def then(code: int, later: Now) -> None:
        if code != ErrorCode.NONE:
            shard.env.answer(request.token, join_failed(request.version, message.member_id, append_error(code)))
            return
        new = Group(group.id)
        if group.has_offsets() or not message.member_id:
            migration.install_classic(shard, group, new)
        else:  # nobody joins a group that is not there with an id
            shard.forget(group)
        join_classic_group(shard, request, message, later)

    record(shard, group, batch, None, now, then)


def _join(shard: Shard, group: ConsumerGroup, request: GroupRequest, message: JoinGroupRequest, now: Now) -> None:
    member_id = message.member_id or shard.env.new_short_id(request.identity)
    code = _join_error(shard, group, message, member_id)
    subscription = read_subscription(message.protocols[0].metadata) if code == ErrorCode.NONE else None
    if code == ErrorCode.NONE and subscription is None:
        code = ErrorCode.UNKNOWN_SERVER_ERROR
    if code != ErrorCode.NONE or subscription is None:
        shard.env.answer(request.token, join_failed(request.version, message.member_id, code))
    elif not message.member_id and message.group_instance_id is None and request.version >= MEMBER_ID_FIRST:
        shard.env.answer(request.token, join_failed(request.version, member_id, ErrorCode.MEMBER_ID_REQUIRED))
    else:
        _join_as(shard, group, request, message, member_id, subscription, now)


def _join_error(shard: Shard, group: ConsumerGroup, message: JoinGroupRequest, member_id: str) -> int:
    settings, counts = shard.env.settings, shard.env.counts
    static = group.static_member(message.group_instance_id)
    is_known = member_id in group.members
    if settings.migration_policy == migration.DISABLED:
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if len(group.members) >= settings.consumer_max_size and not is_known:
        return ErrorCode.GROUP_MAX_SIZE_REACHED
    if not group.supports(message.protocol_type, [protocol.name for protocol in message.protocols]):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if message.group_instance_id is not None and message.member_id:
        if static is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if static.id != message.member_id:
            return ErrorCode.FENCED_INSTANCE_ID
    if not is_known and static is None and counts.members >= settings.max_members:
        counts.members_refused += 1
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    return ErrorCode.NONE


def _join_as(
    shard: Shard,
    group: ConsumerGroup,
    request: GroupRequest,
    message: JoinGroupRequest,
    member_id: str,
    subscription: Subscription,
    now: Now,
) -> None:
    was_run = shard.partition in request.appended
    held: dict[bytes, tuple[int, ...]] = {}
    for name, numbers in subscription.owned:
        topic = shard.env.topics.topic(name)
        if topic is not None:
            held[topic.id] = numbers
    with Change(group) as change:
        before = group.members.get(member_id) or ConsumerMember(member_id)
        replaced = group.static_member(message.group_instance_id)
        if replaced is not None and not message.member_id and not (was_run and replaced.id == member_id):
            before = replace_static(change, replaced, member_id)
        wanted = _wanted(request, message, before, subscription)
        member = advance(shard, change, before, wanted, held, now)

    def then(code: int, later: Now) -> None:
        if code != ErrorCode.NONE:
            shard.env.answer(request.token, join_failed(request.version, message.member_id, append_error(code)))
            return
        membership.unwatch(group, Kind.JOIN, member.id)
        membership.touch(shard, group, member, later)
        membership.watch(shard, group, Kind.SYNC, member.id, message.rebalance_timeout_ms, later)
        _go_on(shard, group, request, member, later)

    commit(shard, change, None if was_run else request.token, now, then)


def _wanted(
    request: GroupRequest, message: JoinGroupRequest, member: ConsumerMember, subscription: Subscription
) -> ConsumerMember:
    timeout_ms = message.session_timeout_ms if request.version == 0 else message.rebalance_timeout_ms
    protocols = tuple((protocol.name, protocol.metadata) for protocol in message.protocols)
    return member.but(
        instance_id=message.group_instance_id or member.instance_id,
        rack_id=subscription.rack_id or member.rack_id,
        rebalance_timeout_ms=timeout_ms,
        topics=subscription.topics,
        pattern="",
        client_id=request.client_id,
        client_host=request.client_host,
        classic=ClassicMetadata(message.session_timeout_ms, protocols),
    )


def _go_on(shard: Shard, group: ConsumerGroup, request: GroupRequest, member: ConsumerMember, now: Now) -> None:
    """If it took the place of the last member of the new protocol, the group is a classic one before it hears more."""
    assert member.classic is not None
    answer = JoinGroupResponse(
        generation_id=member.epoch,
        protocol_type=group.type,
        protocol_name=member.classic.protocols[0][0],
        member_id=member.id,
    )

    def then(code: int, later: Now) -> None:
        shard.env.answer(request.token, answer)

    if migration.may_downgrade(shard, group, ()):
        migration.downgrade(shard, group, (), None, now, then)
    else:
        then(ErrorCode.NONE, now)


# SyncGroup, Heartbeat


def sync(shard: Shard, group: ConsumerGroup, request: GroupRequest, message: SyncGroupRequest, now: Now) -> None:
    """What the member has."""
    code, member = _known(group, message.member_id, message.group_instance_id, message.generation_id)
    if code == ErrorCode.NONE and member is not None:
        code = _sync_error(shard, group, member, message, now)
    if code != ErrorCode.NONE or member is None or member.classic is None:
        shard.env.answer(request.token, sync_failed(code))
        return
    membership.unwatch(group, Kind.SYNC, member.id)
    membership.touch(shard, group, member, now)
    part = migration.named_assignment(shard, member.assigned, member.classic.protocols[0][1])
    shard.env.answer(
        request.token,
        SyncGroupResponse(protocol_type=message.protocol_type, protocol_name=message.protocol_name, assignment=part),
    )


def _sync_error(shard: Shard, group: ConsumerGroup, member: ConsumerMember, message: SyncGroupRequest, now: Now) -> int:
    assert member.classic is not None
    if message.protocol_type not in (None, group.type):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if message.protocol_name not in (None, member.classic.protocols[0][0]):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if group.target_epoch > member.epoch and member.state is not MemberState.UNREVOKED_PARTITIONS:
        _expect_join(shard, group, member, now)
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def beat(shard: Shard, group: ConsumerGroup, request: GroupRequest, message: HeartbeatRequest, now: Now) -> None:
    """Whether to join again."""
    code, member = _known(group, message.member_id, message.group_instance_id, message.generation_id)
    if member is not None and code == ErrorCode.NONE:
        membership.touch(shard, group, member, now)
        can_go_on = member.state is MemberState.UNRELEASED_PARTITIONS and not group.waits_for_others(member)
        if member.epoch < group.target_epoch or member.state is MemberState.UNREVOKED_PARTITIONS or can_go_on:
            code = ErrorCode.REBALANCE_IN_PROGRESS
            _expect_join(shard, group, member, now)
    shard.env.answer(request.token, HeartbeatResponse(error_code=code))


def _expect_join(shard: Shard, group: ConsumerGroup, member: ConsumerMember, now: Now) -> None:
    """It was told to join; it has its rebalance timeout from the first time on."""
    if (Kind.JOIN, member.id) not in group.deadlines:
        membership.watch(shard, group, Kind.JOIN, member.id, member.rebalance_timeout_ms, now)


def _known(
    group: ConsumerGroup, member_id: str, instance_id: str | None, generation: int
) -> tuple[int, ConsumerMember | None]:
    """The member of the classic protocol that speaks, or an error."""
    member = group.members.get(member_id) if instance_id is None else group.static_member(instance_id)
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID, None
    if member.id != member_id:
        return ErrorCode.FENCED_INSTANCE_ID, None
    if member.classic is None:
        return ErrorCode.UNKNOWN_MEMBER_ID, None
    return (ErrorCode.NONE if member.epoch == generation else ErrorCode.ILLEGAL_GENERATION), member


# LeaveGroup


def leave(shard: Shard, group: ConsumerGroup, request: GroupRequest, message: LeaveGroupRequest, now: Now) -> None:
    """Members of either protocol, by id or by instance."""
    leaving = message.members if request.version >= MANY else [MemberIdentity(member_id=message.member_id)]
    was_run = shard.partition in request.appended
    gone: dict[str, ConsumerMember] = {}
    codes = []
    for identity in leaving:
        code, member = (ErrorCode.NONE, None) if was_run else _leaving(group, identity)
        codes.append(code)
        if member is not None:
            gone[member.id] = member

    def then(code: int, later: Now) -> None:
        answer = LeaveGroupResponse()
        if code != ErrorCode.NONE:
            answer.error_code = append_error(code)
        elif request.version >= MANY:
            rows = zip(leaving, codes, strict=True)
            answer.members = [MemberResponse(one.member_id, one.group_instance_id, result) for one, result in rows]
        else:
            answer.error_code = codes[0]
        shard.env.answer(request.token, answer)

    membership.remove(shard, group, list(gone.values()), request.token, now, then)


def _leaving(group: ConsumerGroup, identity: MemberIdentity) -> tuple[int, ConsumerMember | None]:
    if identity.group_instance_id is None:
        member = group.members.get(identity.member_id)
        return (ErrorCode.UNKNOWN_MEMBER_ID if member is None else ErrorCode.NONE), member
    member = group.static_member(identity.group_instance_id)
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID, None
    if identity.member_id and identity.member_id != member.id:
        return ErrorCode.FENCED_INSTANCE_ID, None
    return ErrorCode.NONE, member
