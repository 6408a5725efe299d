"""SyncGroup: who hears its part at once, who waits, for whom there is no room, and that it is a sign of life."""

import pytest

from mpbroker.errors import ErrorCode
from mpbroker.protocol.messages.sync_group import SyncGroupRequest
from tests.harness.group_calls import SESSION_MS, Calls
from tests.harness.group_world import GROUP

REBALANCE, INCONSISTENT = ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def joined(calls, members):
    """The answers of members that join together, the leader's first."""
    names = [calls.join().answer.member_id]
    heard = [calls.join() for _ in range(members - 1)]
    heard.insert(0, calls.join(names[0]))
    answers = [one.answer for one in heard]
    return sorted(answers, key=lambda one: one.member_id != one.leader)


def test_a_sync_of_a_stable_group_is_a_sign_of_life():
    calls = Calls()
    (member,) = calls.stable()
    calls.world.advance(SESSION_MS - 1)
    assert calls.sync(member).answer.assignment == b"part of " + member.member_id.encode()
    calls.world.advance(SESSION_MS - 1)
    assert calls.beat(member) == 0


def test_as_many_syncs_wait_as_may_and_one_in_the_place_of_another():
    calls = Calls(max_parked=2)
    leader, second = joined(calls, 2)
    calls.world.coordinator._env._max_parked = 0
    refused = calls.sync(second)
    assert (refused.code, calls.world.coordinator.counts.parked_refused) == (REBALANCE, 1)
    calls.world.coordinator._env._max_parked = 1
    first = calls.sync(second)
    assert (first.answer, calls.world.coordinator.counts.parked) == (None, 1)
    again = calls.sync(second)
    assert (first.code, again.answer, calls.world.coordinator.counts.parked_refused) == (REBALANCE, None, 1)
    assert calls.sync(leader, {second.member_id: b"2"}).code == 0, "whose sync waits for the log alone"
    assert (again.answer.assignment, calls.world.coordinator.counts.parked) == (b"2", 0)


@pytest.mark.parametrize(
    ("kind", "name", "code"),
    [
        (None, None, INCONSISTENT),
        ("consumer", None, INCONSISTENT),
        (None, "range", INCONSISTENT),
        ("consumer", "range", 0),
        ("connect", "range", INCONSISTENT),
        ("consumer", "roundrobin", INCONSISTENT),
        ("consumer", "", INCONSISTENT),
    ],
)
def test_a_member_names_the_groups_protocol_as_it_is(kind, name, code):
    calls = Calls()
    (member,) = calls.stable()
    request = SyncGroupRequest(GROUP, member.generation_id, member.member_id, protocol_type=kind, protocol_name=name)
    answer = calls.ask(request, 5).answer
    assert answer.error_code == code
    if code == 0:
        assert (answer.protocol_type, answer.protocol_name) == ("consumer", "range")


@pytest.mark.parametrize(
    ("generation", "name", "code"),
    [(0, "", 0), (-1, "", ErrorCode.ILLEGAL_GENERATION), (1, "", ErrorCode.ILLEGAL_GENERATION), (0, "x", 25)],
)
def test_who_is_no_member_of_this_generation_has_no_part(generation, name, code):
    calls = Calls()
    (member,) = calls.stable()
    request = SyncGroupRequest(GROUP, member.generation_id + generation, name or member.member_id)
    assert calls.ask(request, 3).code == code
    assert Calls().ask(request, 3).code == ErrorCode.UNKNOWN_MEMBER_ID, "there is no such group"


def test_between_two_generations_there_is_no_part():
    calls = Calls()
    first, _ = joined(calls, 2)
    assert calls.sync(first, {}).code == 0
    calls.join()
    assert calls.describe().group_state == "PreparingRebalance"
    assert calls.sync(first).code == REBALANCE
