"""What a successor knows, whatever its predecessor was doing: the log, the table, and requests that are run again."""

import pytest

from mpbroker.coordinator.rebalance import LEAST_AGAIN_MS, LEAST_LEFT_MS
from tests.harness.group_calls import SESSION_MS, Calls
from tests.harness.group_world import GROUP

UNKNOWN_MEMBER, REBALANCE = 25, 27
LATER = (True, 0, False)


def test_a_stable_group_stays_so_and_its_sessions_go_on():
    calls = Calls()
    (a,) = calls.stable()
    calls.world.advance(SESSION_MS // 2)
    calls.die()
    assert calls.describe().group_state == "Stable"
    calls.world.advance(SESSION_MS // 2 - 10)
    assert calls.beat(a) == 0
    assert calls.sync(a).answer.assignment == b"part of " + a.member_id.encode()


@pytest.mark.parametrize(("silent_ms", "left_ms"), [(0, SESSION_MS), (SESSION_MS // 4, SESSION_MS * 3 // 4)])
def test_a_member_that_is_dead_goes_when_it_would_have_gone(silent_ms, left_ms):
    calls = Calls()
    a, b = calls.stable(2)
    calls.world.advance(silent_ms)
    assert calls.beat(b) == 0
    calls.die()
    calls.world.advance(left_ms - 1)
    assert calls.beat(b) == 0, "nobody is missed yet"
    calls.world.advance(1)
    assert (calls.beat(b), calls.beat(a)) == (REBALANCE, UNKNOWN_MEMBER)


def test_who_could_not_heartbeat_while_there_was_no_coordinator_has_a_third_of_a_session_for_it():
    calls = Calls()
    a, b = calls.stable(2)
    calls.world.advance(SESSION_MS - 1)
    calls.die()
    calls.world.advance(max(SESSION_MS // 3, LEAST_LEFT_MS) - 1)
    assert calls.beat(b) == 0, "in time, and not expelled"
    calls.world.advance(1)
    assert (calls.beat(b), calls.beat(a)) == (REBALANCE, UNKNOWN_MEMBER)


def test_that_is_granted_once_and_deaths_again_and_again_keep_nobody():
    calls = Calls()
    a, b = calls.stable(2)
    calls.world.advance(SESSION_MS - 1)
    calls.die()
    calls.world.advance(max(SESSION_MS // 3, LEAST_LEFT_MS) - 1)
    calls.die()
    calls.world.advance(LEAST_AGAIN_MS - 1)
    assert calls.beat(b) == 0, "time for what waits to be read"
    calls.world.advance(1)
    assert (calls.beat(b), calls.beat(a)) == (REBALANCE, UNKNOWN_MEMBER)


def test_who_gave_a_sign_of_life_after_that_has_its_session_and_the_same_grant_again():
    calls = Calls()
    a, b = calls.stable(2)
    for _ in range(3):
        calls.world.advance(SESSION_MS - 1)
        calls.die()
        calls.world.advance(max(SESSION_MS // 3, LEAST_LEFT_MS) - 1)
        assert (calls.beat(a), calls.beat(b)) == (0, 0)


def test_a_coordinator_that_knows_no_signs_of_life_gives_everybody_a_session():
    calls = Calls()
    (a,) = calls.stable()
    calls.world.advance(SESSION_MS - 1)
    calls.world.table.seen.clear()
    calls.die()
    calls.world.advance(SESSION_MS - 1)
    assert calls.beat(a) == 0


def test_a_rebalance_that_was_on_goes_on():
    calls = Calls()
    a, b = calls.stable(2)
    c = calls.join()
    calls.die()
    assert calls.describe().group_state == "PreparingRebalance"
    assert calls.beat(a) == REBALANCE
    again = calls.join(a.member_id), calls.join(b.member_id)
    assert {heard.answer.generation_id for heard in (c, *again)} == {a.generation_id + 1}


def test_a_rebalance_that_a_leave_began_goes_on():
    calls = Calls()
    a, b = calls.stable(2)
    calls.leave(b.member_id)
    calls.die()
    assert calls.describe().group_state == "PreparingRebalance"
    assert calls.beat(a) == REBALANCE


def test_no_generation_is_given_twice_after_one_that_was_recorded():
    calls = Calls()
    (a,) = calls.stable()
    new = calls.join()
    shown = calls.join(a.member_id).answer.generation_id
    calls.die()
    assert shown == a.generation_id + 1
    assert calls.describe().group_state == "PreparingRebalance"
    assert calls.beat(new.answer) == REBALANCE
    again = calls.join(a.member_id), calls.join(new.answer.member_id)
    calls.world.advance(SESSION_MS - 1)
    assert {heard.answer.generation_id for heard in again if heard.answer} == {shown + 1}


def test_no_generation_is_given_twice():
    """It was shown, and nothing about it had been recorded."""
    calls = Calls()
    first = calls.join().answer
    calls.die()
    assert calls.beat(first) == REBALANCE
    second = calls.join(first.member_id).answer
    assert (second.member_id, second.generation_id) == (first.member_id, first.generation_id + 1)


def test_an_assignment_that_was_appended_counts():
    calls = Calls()
    a = calls.join().answer
    calls.world.append_fate = lambda: LATER
    waiting = calls.sync(a, {a.member_id: b"1"})
    assert waiting.answer is None
    calls.die()
    assert waiting.answer.assignment == b"1", "run again, without another rebalance"
    assert calls.beat(a) == 0


def test_a_join_without_an_id_gets_the_same_one_again():
    calls = Calls(initial_rebalance_delay_ms=3000)
    waiting = calls.join()
    (before,) = calls.describe().members
    calls.die()
    (after,) = calls.describe().members
    assert after.member_id == before.member_id
    calls.world.advance(3000)
    assert waiting.answer.member_id == before.member_id


def test_ids_that_were_only_issued_stay_known():
    calls = Calls()
    member_id = calls.join(version=5).answer.member_id
    calls.die()
    assert calls.join(member_id).answer.generation_id == 1


def test_strangers_are_forgotten_after_the_longest_session():
    calls = Calls(max_session_timeout_ms=SESSION_MS)
    calls.stable()
    member_id = calls.join(version=5).answer.member_id
    calls.die()
    assert calls.world.table.has_member(GROUP, member_id)
    calls.world.advance(SESSION_MS)
    assert not calls.world.table.has_member(GROUP, member_id)


def test_a_commit_that_was_appended_is_not_appended_again():
    calls = Calls()
    (a,) = calls.stable()
    calls.world.append_fate = lambda: LATER
    waiting = calls.commit(5, a)
    assert calls.fetch() == (-1, 0)
    length = len(calls.world.log)
    calls.die()
    assert waiting.answer.topics[0].partitions[0].error_code == 0
    assert len(calls.world.log) == length
    assert calls.fetch() == (5, 0)


def test_a_leave_that_was_appended_is_answered_with_success():
    calls = Calls()
    (a,) = calls.stable()
    calls.world.append_fate = lambda: LATER
    waiting = calls.leave(a.member_id)
    assert waiting.answer is None
    calls.die()
    assert [member.error_code for member in waiting.answer.members] == [0]
    assert calls.describe().group_state == "Empty"


def test_members_that_left_do_not_come_back_with_the_record():
    calls = Calls()
    a, b = calls.stable(2)
    calls.leave(b.member_id)
    calls.die()
    assert [member.member_id for member in calls.describe().members] == [a.member_id]
    assert calls.beat(b) == UNKNOWN_MEMBER


def test_a_successor_without_a_table_knows_what_the_log_says():
    """As Kafka does: after a start of the whole broker."""
    calls = Calls()
    (a,) = calls.stable()
    calls.commit(5, a)
    calls.world.table.groups.clear()
    calls.world.table.members.clear()
    calls.die()
    assert (calls.describe().group_state, calls.beat(a), calls.fetch()) == ("Stable", 0, (5, 0))
