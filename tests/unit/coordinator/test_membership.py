"""Who is a member: its id, its instance, its generation, what the table remembers; and room for one more."""

from types import SimpleNamespace

import pytest

from mpbroker.coordinator.effects import GroupRequest
from mpbroker.coordinator.environment import Counts
from mpbroker.coordinator.group import Group, Member, Parked, State
from mpbroker.coordinator.membership import identity_error, member_error, parked, store_error, was_member
from mpbroker.errors import ErrorCode
from tests.harness.group_world import MemoryTable

NONE, UNKNOWN, FENCED = ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID
ILLEGAL, REBALANCE = ErrorCode.ILLEGAL_GENERATION, ErrorCode.REBALANCE_IN_PROGRESS
NOT_AVAILABLE = ErrorCode.COORDINATOR_NOT_AVAILABLE


@pytest.fixture
def group():
    """Of generation 5: `m`, `s` as instance `i`; the id of `p` was issued."""
    found = Group("g")
    found.generation, found.state = 5, State.STABLE
    for name, instance in (("m", None), ("s", "i")):
        found.members[name] = Member(name, instance, "", "", 10_000, 60_000, {"range": b""})
    found.instances["i"], found.pending["p"] = "s", 1000
    return found


@pytest.fixture
def shard():
    """Its table remembers `old`, and has room for three members, as the settings have."""
    table = MemoryTable(most=3)
    for name in ("m", "p", "old"):
        table.put_member("g", name)
    env = SimpleNamespace(table=table, counts=Counts(members=2), settings=SimpleNamespace(max_members=3))
    return SimpleNamespace(env=env, store_row=lambda group: True)


def test_a_request_that_waits():
    request = GroupRequest(token=7, api_key=11, version=4, message=None, lane=2)
    assert parked(request) == Parked(token=7, version=4, lane=2)


@pytest.mark.parametrize(
    ("member", "instance", "code"),
    [
        ("m", None, NONE),
        ("p", None, UNKNOWN),
        ("x", None, UNKNOWN),
        ("s", None, NONE),
        ("s", "i", NONE),
        ("m", "i", FENCED),
        ("x", "i", FENCED),
        ("m", "j", UNKNOWN),
        ("s", "j", UNKNOWN),
    ],
)
def test_a_member_and_its_instance(group, member, instance, code):
    assert identity_error(group, member, instance) == code


@pytest.mark.parametrize(("member", "was"), [("m", False), ("p", False), ("old", True), ("x", False)])
def test_only_the_table_remembers_a_member_of_before(shard, group, member, was):
    assert was_member(shard, group, member) is was


@pytest.mark.parametrize(
    ("member", "instance", "generation", "code"),
    [
        ("m", None, 5, NONE),
        ("m", None, 4, ILLEGAL),
        ("m", None, 6, ILLEGAL),
        ("m", "i", 4, FENCED),
        ("x", None, 5, UNKNOWN),
        ("old", None, 5, REBALANCE),
        ("old", None, 1, REBALANCE),
        ("old", None, 0, REBALANCE),
        ("old", None, -1, UNKNOWN),
        ("old", None, 6, UNKNOWN),
        ("old", "i", 5, FENCED),
        ("p", None, 5, UNKNOWN),
    ],
)
def test_a_member_in_the_present_generation(shard, group, member, instance, generation, code):
    assert member_error(shard, group, member, instance, generation) == code


def test_a_group_that_is_being_deleted_has_no_members(shard, group):
    group.state = State.DEAD
    assert member_error(shard, group, "m", None, 5) == NOT_AVAILABLE


@pytest.mark.parametrize(
    ("member", "members", "has_row", "code", "refused"),
    [
        ("m", 3, True, NONE, 0),
        ("s", 3, True, NONE, 0),
        ("p", 3, True, NONE, 0),
        ("old", 2, True, NONE, 0),
        ("old", 3, True, NOT_AVAILABLE, 1),
        ("old", 2, False, NOT_AVAILABLE, 1),
        ("new", 2, True, NOT_AVAILABLE, 1),
    ],
    ids=["member", "not in the table", "issued", "room", "too many", "no row", "full table"],
)
def test_room_for_another_member(shard, group, member, members, has_row, code, refused):
    shard.env.counts.members, shard.store_row = members, lambda group: has_row
    assert (store_error(shard, group, member), shard.env.counts.members_refused) == (code, refused)
