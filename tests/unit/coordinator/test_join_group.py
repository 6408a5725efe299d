"""Joining a group of the classic protocol: which time each member has, and second runs of a join."""

import pytest

from mpbroker.coordinator.rebalance import NEW_MEMBER_JOIN_MS
from mpbroker.errors import ErrorCode
from tests.harness.group_calls import REBALANCE_MS, SESSION_MS, Calls

DELAY_MS = 3000


@pytest.mark.parametrize(("version", "timeout_ms"), [(0, SESSION_MS), (1, REBALANCE_MS), (3, REBALANCE_MS)])
def test_a_join_of_version_zero_has_one_timeout_for_both(version, timeout_ms):
    calls = Calls()
    answer = calls.join(version=version).answer
    assert calls.group().members[answer.member_id].rebalance_timeout_ms == timeout_ms
    calls.join(answer.member_id, version=version)
    assert calls.group().members[answer.member_id].rebalance_timeout_ms == timeout_ms


def test_a_new_member_that_waits_longer_than_its_session_stays():
    """It cannot heartbeat yet. But for ever it is not waited for: it may be gone, and nobody would know."""
    calls = Calls()
    [first] = calls.stable(session_timeout_ms=1_000_000)
    new = calls.join()
    assert new.answer is None and len(calls.group().members) == 2
    calls.world.advance(SESSION_MS + 1)
    assert new.answer is None and len(calls.group().members) == 2
    calls.world.advance(REBALANCE_MS)
    assert new.answer.error_code == 0, "the others had their time"
    assert first.member_id not in calls.group().members


def test_a_new_member_is_given_up_after_five_minutes():
    calls = Calls()
    long_ms = 2 * NEW_MEMBER_JOIN_MS
    [first] = calls.stable(session_timeout_ms=1_000_000)
    member = calls.group().members[first.member_id]
    member.rebalance_timeout_ms = long_ms
    new = calls.join()
    calls.world.advance(NEW_MEMBER_JOIN_MS - 1)
    assert new.answer is None and len(calls.group().members) == 2
    calls.world.advance(1)
    assert new.answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID and set(calls.group().members) == {first.member_id}


def test_who_comes_in_the_first_join_phase_prolongs_it():
    """Once for each delay in which somebody came."""
    calls = Calls(initial_rebalance_delay_ms=DELAY_MS)
    first = calls.join()
    calls.world.advance(DELAY_MS - 1)
    second = calls.join()
    calls.world.advance(1)
    assert first.answer is second.answer is None
    calls.world.advance(DELAY_MS - 1)
    assert first.answer is None
    calls.world.advance(1)
    assert first.answer.error_code == second.answer.error_code == 0 and first.answer.generation_id == 1


def test_the_first_join_phase_is_no_longer_than_the_rebalance_timeout():
    calls = Calls(initial_rebalance_delay_ms=25_000)
    first = calls.join()
    for pause_ms in (24_999, 25_000, 10_000):
        calls.world.advance(pause_ms)
        assert calls.join().answer is None
    assert first.answer is None
    calls.world.advance(1)
    assert first.answer.error_code == 0
    assert len(calls.group().members) == 4


def test_who_comes_in_a_later_join_phase_prolongs_nothing():
    calls = Calls(initial_rebalance_delay_ms=DELAY_MS)
    first = calls.join()
    calls.world.advance(DELAY_MS)
    assert first.answer.error_code == 0 and calls.sync(first.answer, {first.answer.member_id: b"all"}).code == 0
    second = calls.join()
    assert not calls.group().new_member_added
    again = calls.join(first.answer.member_id)
    assert second.answer.generation_id == again.answer.generation_id == 2


@pytest.mark.parametrize("instance", [None, "i"])
def test_a_second_run_of_a_join_finds_the_member_that_the_first_one_made(instance):
    """A coordinator that was killed while the join waited: its successor runs the request again."""
    calls = Calls(initial_rebalance_delay_ms=DELAY_MS)
    heard = calls.join(instance=instance)
    [member_id] = calls.group().members
    calls.die()
    assert set(calls.group().members) == {member_id}, "its id comes from the request itself"
    calls.world.advance(2 * DELAY_MS)
    assert heard.answer.error_code == 0 and heard.answer.member_id == member_id
    assert calls.world.coordinator.counts.members == 1


def test_a_join_that_takes_its_predecessors_place_needs_none_more():
    calls = Calls(max_parked=2, initial_rebalance_delay_ms=DELAY_MS)
    one = calls.join()
    two = calls.join()
    refused = calls.join()
    assert refused.code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    counts = calls.world.coordinator.counts
    assert counts.parked_refused == 1
    [first, _] = calls.group().members
    again = calls.join(first)
    assert one.code == ErrorCode.REBALANCE_IN_PROGRESS and again.answer is two.answer is None
    assert counts.parked_refused == 1
