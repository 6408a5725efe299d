"""A classic group in the new protocol and back: what each member keeps, and what is refused leaves no trace."""

import msgspec
import pytest

from mpbroker.coordinator.consumer_groups import migration
from mpbroker.coordinator.consumer_groups.embedded_protocol import assignment, read_assignment
from mpbroker.coordinator.consumer_groups.migration import named_assignment, upgraded
from mpbroker.coordinator.consumer_groups.refusal import Refusal
from mpbroker.coordinator.group import Group, Member, State
from mpbroker.errors import ErrorCode
from tests.conformance.group_scripts.cast import subscription
from tests.harness.group_calls import Calls
from tests.harness.group_world import TOPIC

PROTOCOLS = {"range": subscription(TOPIC), "roundrobin": subscription(TOPIC)}


def shard_of(**settings):
    [shard] = Calls(**settings).world.coordinator._shards.values()
    return shard


def classic(*parts):
    """A classic group in which each member has such partitions; bytes: such an assignment."""
    group = Group("old")
    group.generation, group.protocol_type, group.protocol = 7, "consumer", "range"
    for number, part in enumerate(parts):
        name = f"m{number}"
        has = part if isinstance(part, bytes) else assignment(0, {TOPIC: part})
        own = Member(name, f"i{number}" if number else None, "cl", "/h", 11_000, 22_000, dict(PROTOCOLS), has)
        group.members[name] = own
    return group


def reason_of(shard, group):
    """Why it is refused; nothing is counted for it, and the group is as it was."""
    before, members = msgspec.structs.astuple(shard.env.counts), dict(group.members)
    found = upgraded(shard, group)
    assert isinstance(found, Refusal) and found.code == ErrorCode.GROUP_ID_NOT_FOUND
    assert msgspec.structs.astuple(shard.env.counts) == before and group.members == members and shard.groups == {}
    assert shard.env.take_effects() == []
    return found.sentence.removeprefix("Cannot upgrade classic group old to consumer group because ")


@pytest.mark.parametrize(
    ("parts", "reason"),
    [
        (([0], b"\0"), "the embedded consumer protocol is malformed."),
        (([0], b"\0\0\0\0\0\0\0\0\0\1x"), "an unsupported custom assignor is in use. Please"),
        (([0], [1, 0]), "two members have the same partition."),
    ],
)
def test_a_member_that_cannot_go_over_keeps_the_group_and_its_counts(parts, reason):
    assert reason_of(shard_of(), classic(*parts)).startswith(reason)


@pytest.mark.parametrize("policy, goes", [("upgrade", 1), ("bidirectional", 1), ("downgrade", 0), ("disabled", 0)])
def test_only_where_that_is_wanted(policy, goes):
    shard = shard_of(migration_policy=policy)
    if goes:
        assert not isinstance(upgraded(shard, classic([0])), Refusal)
    else:
        assert reason_of(shard, classic([0])) == "online upgrade is disabled."


def test_no_larger_than_a_group_of_the_new_protocol_may_be():
    shard = shard_of(consumer_max_size=2)
    assert reason_of(shard, classic([0], [1], [2])).startswith("the group size exceeds")
    assert len(upgraded(shard, classic([0], [1])).members) == 2


def test_only_groups_of_consumers():
    group = classic([0])
    group.protocol_type = "connect"
    assert reason_of(shard_of(), group).startswith("the group does not use the consumer")


def test_there_and_back_each_has_what_it_had():
    shard, old = shard_of(), classic([0], [2, 1])
    now = Calls().world.now()
    group = upgraded(shard, old)
    assert (group.epoch, group.target_epoch, shard.env.counts.members) == (7, 7, 2)
    assert group.metadata_hash == group.present_hash() != 0
    topic = shard.env.topics.topic(TOPIC)
    for name, numbers in (("m0", {0}), ("m1", {1, 2})):
        member = group.members[name]
        assert (member.epoch, member.previous_epoch, member.rebalance_timeout_ms) == (7, 7, 22_000)
        assert member.assigned == {topic.id: dict.fromkeys(numbers, 7)}
        assert group.target(member) == {topic.id: frozenset(numbers)}
        assert (member.classic.session_timeout_ms, dict(member.classic.protocols)) == (11_000, PROTOCOLS)
    new, parts = migration._downgraded(shard, group, list(group.members.values()), now)
    assert (new.state, new.state_ms, new.generation) == (State.STABLE, now.wall_ms, 7)
    assert (new.protocol_type, new.protocol, new.leader) == ("consumer", "range", "m0")
    assert new.instances == {"i1": "m1"} and new.subscribed == {TOPIC}
    assert list(new.members) == ["m0", "m1"] and parts == {name: one.assignment for name, one in new.members.items()}
    for name, one in new.members.items():
        before = old.members[name]
        had, has = (dict(read_assignment(each.assignment).partitions) for each in (before, one))
        assert set(has) == {TOPIC} and sorted(has[TOPIC]) == sorted(had[TOPIC])
        assert msgspec.structs.replace(one, assignment=b"") == msgspec.structs.replace(before, assignment=b"")


def test_a_topic_that_is_gone_is_not_named():
    shard = shard_of()
    topic = shard.env.topics.topic(TOPIC)
    named = named_assignment(shard, {topic.id: {0: 1}, b"x" * 16: {3: 1}}, b"unreadable")
    assert named == assignment(0, {TOPIC: [0]})


def test_a_classic_group_that_went_over_leaves_nothing():
    """`retire`: who waits asks again, the table knows nobody any more, and members and pending ids are not counted."""
    shard, old = shard_of(), classic([0], [1])
    old.pending["p"] = 1
    for name in ("m0", "m1", "p"):
        shard.env.table.put_member("old", name)
    shard.store_row(old)
    shard.env.counts.members = 10
    migration.retire(shard, old)
    assert shard.env.counts.members == 7 and old.state is State.DEAD
    assert not (old.members or old.pending or shard.env.table.members or shard.env.table.groups)
