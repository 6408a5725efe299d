"""ConsumerGroupHeartbeat: join, live, give back, leave. Runs in the coordinator process.

First everything is checked, then the change is made in memory and recorded; the answer follows its acknowledgement.
"""

from __future__ import annotations

from collections.abc import Iterable

from mpbroker.coordinator.any_group import MAX_NAME_BYTES
from mpbroker.coordinator.consumer_groups import membership, migration
from mpbroker.coordinator.consumer_groups.change import Change, commit
from mpbroker.coordinator.consumer_groups.consumer_group import ConsumerGroup, Kind, since_zero
from mpbroker.coordinator.consumer_groups.consumer_member import AWAY, LEFT, ConsumerMember, MemberState, Owned
from mpbroker.coordinator.consumer_groups.progress import advance
from mpbroker.coordinator.consumer_groups.reconciliation import Held
from mpbroker.coordinator.consumer_groups.refusal import Refusal, append_error
from mpbroker.coordinator.consumer_groups.subscribed_patterns import pattern_refusal
from mpbroker.coordinator.effects import GroupRequest, Now
from mpbroker.coordinator.group import Group
from mpbroker.coordinator.group_settings import GroupSettings
from mpbroker.coordinator.shard import Shard
from mpbroker.errors import ErrorCode
from mpbroker.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    ConsumerGroupHeartbeatResponseAssignment,
    ConsumerGroupHeartbeatResponseTopicPartitions,
)

CLIENTS_MAKE_IDS = 1  # the version from which a client chooses its member id
REJOIN = "The member must abandon all its partitions and rejoin."


def handle(shard: Shard, request: GroupRequest, message: ConsumerGroupHeartbeatRequest, now: Now) -> None:
    """Answer when what follows from it is recorded."""
    leaves = message.member_epoch in (LEFT, AWAY)
    refusal = _leave(shard, request, message, now) if leaves else _beat(shard, request, message, now)
    if refusal is not None:
        shard.env.answer(request.token, refused(refusal))


def refused(refusal: Refusal) -> ConsumerGroupHeartbeatResponse:
    """The answer to a request that changes nothing."""
    return ConsumerGroupHeartbeatResponse(error_code=refusal.code, error_message=refusal.sentence)


def request_refusal(message: ConsumerGroupHeartbeatRequest, version: int, settings: GroupSettings) -> Refusal | None:
    """What is wrong with a request whatever the group."""
    epoch = message.member_epoch
    if not settings.serves_consumer_protocol:
        return Refusal(ErrorCode.UNSUPPORTED_VERSION, "The consumer group protocol is not enabled.")
    needs_id = version >= CLIENTS_MAKE_IDS or epoch > 0 or epoch == LEFT
    texts = (
        ("MemberId", message.member_id if needs_id else None),
        ("GroupId", message.group_id),
        ("InstanceId", message.instance_id),
        ("RackId", message.rack_id),
    )
    too_long = next((name for name, text in texts if text is not None and len(text.encode()) > MAX_NAME_BYTES), None)
    if too_long is not None:
        return Refusal(ErrorCode.INVALID_REQUEST, f"{too_long} is too long.")
    sentence = next((f"{name} can't be empty." for name, text in texts if text is not None and not text.strip()), "")
    if not sentence and epoch == 0:
        sentence = _join_sentence(message)
    elif not sentence and epoch == AWAY and message.instance_id is None:
        sentence = "InstanceId can't be null."
    elif not sentence and epoch < AWAY:
        sentence = "MemberEpoch is invalid."
    if sentence:
        return Refusal(ErrorCode.INVALID_REQUEST, sentence)
    if message.server_assignor is not None and message.server_assignor not in settings.assignors:
        names = ", ".join(settings.assignors)
        sentence = f"ServerAssignor {message.server_assignor} is not supported. Supported assignors: {names}."
        return Refusal(ErrorCode.UNSUPPORTED_ASSIGNOR, sentence)
    return None


def _join_sentence(message: ConsumerGroupHeartbeatRequest) -> str:
    if message.rebalance_timeout_ms == -1:
        return "RebalanceTimeoutMs must be provided in first request."
    if message.topic_partitions is None or message.topic_partitions:
        return "TopicPartitions must be empty when (re-)joining."
    if message.subscribed_topic_names is None and message.subscribed_topic_regex is None:
        return "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining."
    return ""


# leave


def _leave(shard: Shard, request: GroupRequest, message: ConsumerGroupHeartbeatRequest, now: Now) -> Refusal | None:
    answer = ConsumerGroupHeartbeatResponse(member_id=message.member_id, member_epoch=message.member_epoch)
    if shard.partition in request.appended:
        shard.env.answer(request.token, answer)
        return None
    group = shard.any(message.group_id)
    if not isinstance(group, ConsumerGroup):
        return _not_found(message.group_id, group is not None, "Group")
    member = _leaving_member(group, message)
    if isinstance(member, Refusal):
        return member

    def then(code: int, later: Now) -> None:
        _answer(shard, request, answer, code)

    if message.member_epoch == AWAY:
        with Change(group) as change:
            change.write_current(member.but(epoch=AWAY, assigned=since_zero(member.assigned), revoking={}))
        commit(shard, change, request.token, now, then)
    else:
        membership.remove(shard, group, [member], request.token, now, then)
    return None


def _leaving_member(group: ConsumerGroup, message: ConsumerGroupHeartbeatRequest) -> ConsumerMember | Refusal:
    if message.instance_id is None:
        return group.members.get(message.member_id) or _unknown(group, message.member_id)
    member = group.static_member(message.instance_id)
    if member is None:
        return Refusal(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {message.instance_id} is unknown.")
    return _fenced_instance(member, message.member_id, message.instance_id) or member


def _not_found(group_id: str, is_other_type: bool, what: str) -> Refusal:
    sentence = f"Group {group_id} is not a consumer group." if is_other_type else f"{what} {group_id} not found."
    return Refusal(ErrorCode.GROUP_ID_NOT_FOUND, sentence)


def _unknown(group: ConsumerGroup, member_id: str) -> Refusal:
    return Refusal(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {group.id}.")


def _fenced_instance(member: ConsumerMember, member_id: str, instance_id: str) -> Refusal | None:
    if member.id == member_id:
        return None
    sentence = f"Static member {member_id} with instance id {instance_id} was fenced by member {member.id}."
    return Refusal(ErrorCode.FENCED_INSTANCE_ID, sentence)


# join and live


def _beat(shard: Shard, request: GroupRequest, message: ConsumerGroupHeartbeatRequest, now: Now) -> Refusal | None:
    group = _group(shard, message)
    if isinstance(group, Refusal):
        return group
    was_run = shard.partition in request.appended
    member_id = message.member_id or shard.env.new_short_id(request.identity)
    before = _member(shard, group, message, member_id, was_run)
    if not isinstance(before, Refusal):
        before = pattern_refusal(group, message.subscribed_topic_regex) or before
    is_here = shard.groups.get(group.id) is group
    if isinstance(before, Refusal):
        if not is_here:
            group.clear()
        return before
    with Change(group) as change:
        if not is_here:
            change.records += _install(shard, group, now)
        replaced = group.static_member(message.instance_id) if message.member_epoch == 0 else None
        if replaced is not None and not (was_run and replaced.id == member_id):
            before = replace_static(change, replaced, member_id)
        member = advance(shard, change, before, _wanted(request, message, before), _held(message), now)
    membership.touch(shard, group, member, now)
    answer = ConsumerGroupHeartbeatResponse(
        member_id=member.id,
        member_epoch=member.epoch,
        heartbeat_interval_ms=shard.env.settings_of(group.id).heartbeat_interval_ms,
    )
    # A second run finds what the first one changed and never told: without it the member would revoke nothing, and be
    # expelled for that.
    if was_run or message.member_epoch == 0 or _is_full(message) or member.assigned != before.assigned:
        answer.assignment = _assignment(member.assigned)

    def then(code: int, later: Now) -> None:
        _answer(shard, request, answer, code)

    commit(shard, change, None if was_run else request.token, now, then)
    return None


def _group(shard: Shard, message: ConsumerGroupHeartbeatRequest) -> ConsumerGroup | Refusal:
    """The group; a new one, or a classic one in the new protocol, which is not there yet, for who joins."""
    found, joins = shard.any(message.group_id), message.member_epoch == 0
    if isinstance(found, ConsumerGroup):
        return found
    if not joins:
        return _not_found(message.group_id, found is not None, "Consumer group")
    if isinstance(found, Group) and not found.is_empty:
        return migration.upgraded(shard, found)
    if found is None and not shard.has_room():
        return Refusal(ErrorCode.COORDINATOR_NOT_AVAILABLE, "There are too many groups.")
    return ConsumerGroup(message.group_id, shard.env.topics, shard.env.counts)


def _install(shard: Shard, group: ConsumerGroup, now: Now) -> list[tuple[bytes, bytes | None]]:
    """The group is there from now on; the records that make a classic group one of the new protocol. It stays, also if
    they cannot be written now: the next change of the group writes them."""
    old = shard.groups.get(group.id)
    if not isinstance(old, Group):
        shard.add_group(group)
        return []
    group.take_offsets_of(old)
    migration.retire(shard, old)
    shard.groups[group.id] = group
    for member in group.members.values():
        membership.touch(shard, group, member, now)
    return migration.upgrade_records(group)


def _member(
    shard: Shard, group: ConsumerGroup, message: ConsumerGroupHeartbeatRequest, member_id: str, was_run: bool
) -> ConsumerMember | Refusal:
    """The member that speaks, as it is now; a new one if it joins."""
    settings, counts, joins = shard.env.settings, shard.env.counts, message.member_epoch == 0
    known = group.members.get(member_id)
    if known is None and len(group.members) >= settings.consumer_max_size:
        sentence = f"The consumer group has reached its maximum capacity of {settings.consumer_max_size} members."
        return Refusal(ErrorCode.GROUP_MAX_SIZE_REACHED, sentence)
    static = group.static_member(message.instance_id)
    if joins and known is None and static is None and counts.members >= settings.max_members:
        counts.members_refused += 1
        return Refusal(ErrorCode.COORDINATOR_NOT_AVAILABLE, "There are too many members.")
    if message.instance_id is None:
        member = known or (ConsumerMember(member_id) if joins else None)
        return _unknown(group, member_id) if member is None else _epoch_refusal(member, message, was_run) or member
    return _static_member(static, known, message, member_id, was_run)


def _static_member(
    static: ConsumerMember | None,
    known: ConsumerMember | None,
    message: ConsumerGroupHeartbeatRequest,
    member_id: str,
    was_run: bool,
) -> ConsumerMember | Refusal:
    instance_id = message.instance_id or ""
    if message.member_epoch == 0:
        if static is None:
            return known or ConsumerMember(member_id)
        if was_run and static.id == member_id:
            return static
        if static.classic is None and static.epoch != AWAY:
            sentence = (
                f"Static member {member_id} with instance id {instance_id} cannot join the group because the instance "
                f"id is owned by {static.id} member."
            )
            return Refusal(ErrorCode.UNRELEASED_INSTANCE_ID, sentence)
        return static  # whose place is taken: replace_static
    if static is None:
        return Refusal(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
    fenced = _fenced_instance(static, member_id, instance_id)
    return fenced or _epoch_refusal(static, message, was_run) or static


def _epoch_refusal(member: ConsumerMember, message: ConsumerGroupHeartbeatRequest, was_run: bool) -> Refusal | None:
    """Whether the member is in the epoch that it thinks; the one before is good enough when the answer got lost."""
    epoch = message.member_epoch
    held = _held(message)
    if epoch == 0 or epoch == member.epoch:
        if member.state is MemberState.UNKNOWN and held != {}:
            sentence = f"The consumer group member is in a unknown state. {REJOIN}"
            return Refusal(ErrorCode.FENCED_MEMBER_EPOCH, sentence)
        return None
    if epoch < member.epoch and epoch == member.previous_epoch and (was_run or _is_part(held, member.assigned)):
        return None
    size = "greater" if epoch > member.epoch else "smaller"
    sentence = (
        f"The consumer group member has a {size} member epoch ({epoch}) than the one known by the group coordinator "
        f"({member.epoch}). {REJOIN}"
    )
    return Refusal(ErrorCode.FENCED_MEMBER_EPOCH, sentence)


def _is_part(held: Held, owned: Owned) -> bool:
    if held is None:
        return False
    return all(topic_id in owned and set(numbers) <= owned[topic_id].keys() for topic_id, numbers in held.items())


def replace_static(change: Change, old: ConsumerMember, member_id: str) -> ConsumerMember:
    """Another process takes the place of a static member, and what it has."""
    target = change.group.target(old)
    new = old.but(id=member_id, epoch=0, previous_epoch=0)
    for kind in Kind:
        membership.unwatch(change.group, kind, old.id)
    change.remove_member(old.id)
    change.write_member(new)
    change.set_target(new.id, target)
    change.write_current(new)
    return new


def _wanted(request: GroupRequest, message: ConsumerGroupHeartbeatRequest, member: ConsumerMember) -> ConsumerMember:
    """The member with what the request says anew."""
    names, pattern = message.subscribed_topic_names, message.subscribed_topic_regex
    timeout_ms = message.rebalance_timeout_ms
    return member.but(
        instance_id=member.instance_id if message.instance_id is None else message.instance_id,
        rack_id=member.rack_id if message.rack_id is None else message.rack_id,
        rebalance_timeout_ms=member.rebalance_timeout_ms if timeout_ms == -1 else timeout_ms,
        assignor=member.assignor if message.server_assignor is None else message.server_assignor,
        topics=member.topics if names is None else tuple(sorted(set(names))),
        pattern=member.pattern if pattern is None else pattern,
        client_id=request.client_id,
        client_host=request.client_host,
        classic=None,
    )


def _held(message: ConsumerGroupHeartbeatRequest) -> Held:
    if message.topic_partitions is None:
        return None
    found: dict[bytes, set[int]] = {}
    for row in message.topic_partitions:
        found.setdefault(row.topic_id, set()).update(row.partitions)
    return found


def _is_full(message: ConsumerGroupHeartbeatRequest) -> bool:
    """Whether the request says everything: the client may not know what it has."""
    says_topics = message.subscribed_topic_names is not None or message.subscribed_topic_regex is not None
    return message.rebalance_timeout_ms != -1 and says_topics and message.topic_partitions is not None


def _assignment(owned: Owned) -> ConsumerGroupHeartbeatResponseAssignment:
    rows: Iterable[tuple[bytes, Iterable[int]]] = owned.items()
    return ConsumerGroupHeartbeatResponseAssignment(
        [ConsumerGroupHeartbeatResponseTopicPartitions(topic_id, sorted(numbers)) for topic_id, numbers in rows]
    )


def _answer(shard: Shard, request: GroupRequest, answer: ConsumerGroupHeartbeatResponse, code: int) -> None:
    """The answer, or why what it says could not be recorded."""
    if code != ErrorCode.NONE:
        answer = ConsumerGroupHeartbeatResponse(error_code=append_error(code))
    shard.env.answer(request.token, answer)
