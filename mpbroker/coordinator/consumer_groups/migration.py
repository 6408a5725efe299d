"""Groups that go from one protocol to the other while they are used (`group.consumer.migration.policy`). In the
coordinator process.

Upgrade: a member of the new protocol joins a classic group; its members keep what they have and speak the classic
protocol on (`classic_members.py`). Downgrade: when the last member of the new protocol leaves, those of the classic
protocol go on as a classic group, with a rebalance. Either is one batch, in which the old group's records are deleted
and the new one's written; offsets stay where they are.
"""

from __future__ import annotations

from collections.abc import Collection

from mpbroker.coordinator.consumer_groups import consumer_records as records
from mpbroker.coordinator.consumer_groups.change import Then, record
from mpbroker.coordinator.consumer_groups.consumer_group import ConsumerGroup
from mpbroker.coordinator.consumer_groups.consumer_member import ClassicMetadata, ConsumerMember, Owned, Target
from mpbroker.coordinator.consumer_groups.consumer_records import Record
from mpbroker.coordinator.consumer_groups.embedded_protocol import assignment, read_assignment, read_subscription
from mpbroker.coordinator.consumer_groups.refusal import Refusal
from mpbroker.coordinator.effects import Now, Token
from mpbroker.coordinator.group import CONSUMER, Group, Member, State
from mpbroker.coordinator.offsets_records import group_key
from mpbroker.coordinator.rebalance import group_record, prepare, touch
from mpbroker.coordinator.responses import join_failed, sync_failed
from mpbroker.coordinator.shard import Shard
from mpbroker.errors import ErrorCode

UPGRADES, DOWNGRADES = frozenset({"upgrade", "bidirectional"}), frozenset({"downgrade", "bidirectional"})
DISABLED = "disabled"


# to the new protocol


def upgraded(shard: Shard, old: Group) -> ConsumerGroup | Refusal:
    """What a classic group with members is in the new protocol; nothing is changed yet."""
    settings = shard.env.settings
    if settings.migration_policy not in UPGRADES:
        return _not_upgraded(old, "because online upgrade is disabled.")
    if old.protocol_type != CONSUMER:
        return _not_upgraded(old, "because the group does not use the consumer embedded protocol.")
    if len(old.members) > settings.consumer_max_size:
        return _not_upgraded(old, "because the group size exceeds the consumer group maximum size.")
    group = ConsumerGroup(old.id, shard.env.topics, shard.env.counts)
    group.epoch = group.target_epoch = old.generation
    taken: set[tuple[bytes, int]] = set()
    for member in old.members.values():
        found = _upgraded_member(shard, old, member, taken)
        if isinstance(found, Refusal):
            group.clear()
            return found
        group.set_member(found.id, found)
        group.set_target(found.id, {topic_id: frozenset(epochs) for topic_id, epochs in found.assigned.items()})
    group.metadata_hash = group.present_hash()
    return group


def _not_upgraded(old: Group, reason: str) -> Refusal:
    sentence = f"Cannot upgrade classic group {old.id} to consumer group {reason}"
    return Refusal(ErrorCode.GROUP_ID_NOT_FOUND, sentence)


def _upgraded_member(
    shard: Shard, old: Group, member: Member, taken: set[tuple[bytes, int]]
) -> ConsumerMember | Refusal:
    protocol = old.protocol or next(iter(member.protocols), "")
    wanted, has = read_subscription(member.protocols.get(protocol, b"")), read_assignment(member.assignment)
    if wanted is None or has is None:
        return _not_upgraded(old, "because the embedded consumer protocol is malformed.")
    if has.user_data:
        reason = (
            "because an unsupported custom assignor is in use. Please refer to the documentation or switch to a "
            "default assignor before re-attempting the upgrade."
        )
        return _not_upgraded(old, reason)
    assigned: dict[bytes, dict[int, int]] = {}
    for name, partitions in has.partitions:
        topic = shard.env.topics.topic(name)
        for number in partitions if topic is not None else ():
            if topic is None or (topic.id, number) in taken:
                return _not_upgraded(old, "because two members have the same partition.")
            taken.add((topic.id, number))
            assigned.setdefault(topic.id, {})[number] = old.generation
    return ConsumerMember(
        id=member.id,
        epoch=old.generation,
        previous_epoch=old.generation,
        instance_id=member.instance_id,
        rack_id=wanted.rack_id,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        client_id=member.client_id,
        client_host=member.client_host,
        topics=wanted.topics,
        assigned=assigned,
        classic=ClassicMetadata(member.session_timeout_ms, tuple(member.protocols.items())),
    )


def upgrade_records(group: ConsumerGroup) -> list[Record]:
    """The classic group's record is deleted, those of the new one written; of an empty one only the first."""
    of, members = records.key_of, group.members
    found: list[Record] = [(group_key(group.id), None)]
    if not members:
        return found
    keys = [
        *(of(records.MEMBER, group.id, member_id) for member_id in members),
        of(records.GROUP_EPOCH, group.id),
        *(of(records.TARGET, group.id, member_id) for member_id in members),
        of(records.TARGET_EPOCH, group.id),
        *(of(records.CURRENT, group.id, member_id) for member_id in members),
    ]
    return found + [(key, group.record_value(key)) for key in keys]


def retire(shard: Shard, old: Group) -> None:
    """The classic group is a group of the new protocol now: who waits asks again, and nothing remembers it."""
    for member in list(old.members.values()):
        if member.join is not None:
            failed = join_failed(member.join.version, member.id, ErrorCode.REBALANCE_IN_PROGRESS)
            shard.answer_join(member, failed)
        shard.answer_sync(member, sync_failed(ErrorCode.REBALANCE_IN_PROGRESS))
        shard.env.table.drop_member(old.id, member.id)
    for member_id in old.pending:
        shard.env.table.drop_member(old.id, member_id)
    shard.env.counts.members -= len(old.members) + len(old.pending)
    old.members.clear()
    old.pending.clear()
    old.state = State.DEAD
    shard.env.table.drop_group(old.id)


# back to the classic protocol


def may_downgrade(shard: Shard, group: ConsumerGroup, gone: Collection[ConsumerMember]) -> bool:
    """Whether a group becomes a classic one when these members go."""
    ids = {member.id for member in gone}
    left = [member for member in group.members.values() if member.id not in ids]
    settings = shard.env.settings
    return (
        0 < len(left) <= settings.max_group_size
        and all(member.classic is not None for member in left)
        and settings.migration_policy in DOWNGRADES
    )


def downgrade(
    shard: Shard, group: ConsumerGroup, gone: Collection[ConsumerMember], token: Token | None, now: Now, then: Then
) -> None:
    """Make a group a classic one, without these members; the others are told to join again."""
    ids = {member.id for member in gone}
    new, parts = _downgraded(shard, group, [one for one in group.members.values() if one.id not in ids], now)
    batch: list[Record] = [(key, None) for key in group.record_keys()]
    batch.append(group_record(new, parts))

    def settled(code: int, later: Now) -> None:
        if code == ErrorCode.NONE:
            install_classic(shard, group, new)
            for member in new.members.values():
                shard.env.table.put_member(new.id, member.id)
                touch(shard, new, member, later)
            prepare(shard, new, later)
        then(code, later)

    record(shard, group, batch, token, now, settled)


def install_classic(shard: Shard, group: ConsumerGroup, new: Group) -> None:
    """The classic group takes the place of one of the new protocol."""
    new.take_offsets_of(group)
    shard.groups[new.id] = new
    group.clear()
    shard.env.counts.members += len(new.members)
    shard.store_row(new)


def _downgraded(
    shard: Shard, group: ConsumerGroup, members: list[ConsumerMember], now: Now
) -> tuple[Group, dict[str, bytes]]:
    """The classic group, and what each member has in it."""
    new = Group(group.id)
    new.state, new.state_ms, new.generation = State.STABLE, now.wall_ms, group.epoch
    new.protocol_type = CONSUMER
    for member in members:
        assert member.classic is not None
        new.members[member.id] = Member(
            id=member.id,
            instance_id=member.instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
            session_timeout_ms=member.classic.session_timeout_ms,
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            protocols=dict(member.classic.protocols),
        )
        if member.instance_id is not None:
            new.instances[member.instance_id] = member.id
    new.leader = next(iter(new.members))
    new.protocol = new.chosen_protocol()
    new.find_subscribed()
    parts = {
        member.id: named_assignment(shard, group.target(member), new.metadata(new.members[member.id]))
        for member in members
    }
    for member_id, part in parts.items():
        new.members[member_id].assignment = part
    return new, parts


def named_assignment(shard: Shard, owned: Target | Owned, subscription: bytes) -> bytes:
    """Partitions as a member of the classic protocol reads them, in the version of its subscription."""
    by_name = {}
    for topic_id, partitions in owned.items():
        topic = shard.env.topics.topic_by_id(topic_id)
        if topic is not None:
            by_name[topic.name] = list(partitions)
    found = read_subscription(subscription)
    return assignment(found.version if found is not None else 0, by_name)
