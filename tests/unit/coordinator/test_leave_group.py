"""LeaveGroup: one member or several by version, members that only the table knows, a group that is being deleted."""

import pytest

from mpbroker.errors import ErrorCode
from mpbroker.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from tests.harness.group_calls import Calls
from tests.harness.group_world import GROUP

UNKNOWN, FENCED = ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID


def rows(heard):
    return [(one.member_id, one.group_instance_id, one.error_code) for one in heard.answer.members]


@pytest.mark.parametrize("version", range(6))
def test_from_version_3_on_several_leave_at_once(version):
    calls = Calls()
    first, second = calls.stable(2)
    if version < 3:
        answer = calls.ask(LeaveGroupRequest(GROUP, first.member_id), version).answer
        assert (answer.error_code, answer.members) == (0, [])
        assert [one.member_id for one in calls.describe().members] == [second.member_id]
        assert calls.ask(LeaveGroupRequest(GROUP, "x"), version).code == UNKNOWN
        return
    names = [first.member_id, "x", second.member_id, first.member_id]
    heard = calls.ask(LeaveGroupRequest(GROUP, members=[MemberIdentity(name) for name in names]), version)
    assert heard.code == 0
    assert rows(heard) == [(name, None, code) for name, code in zip(names, (0, UNKNOWN, 0, UNKNOWN), strict=True)]
    assert calls.describe().group_state == "Empty"


def test_an_instance_is_removed_by_its_name_or_by_its_member():
    calls = Calls()
    (one,) = calls.stable(instance="i")

    def leave(member_id, instance):
        return rows(calls.ask(LeaveGroupRequest(GROUP, members=[MemberIdentity(member_id, instance)]), 5))

    assert leave("x", "i") == [("x", "i", FENCED)] and leave("", "j") == [("", "j", UNKNOWN)]
    assert leave(one.member_id, "j") == [(one.member_id, "j", UNKNOWN)]
    assert leave("", None) == [("", None, UNKNOWN)]
    assert leave("", "i") == [("", "i", 0)] and calls.describe().group_state == "Empty"
    assert leave("", "i") == [("", "i", UNKNOWN)]


@pytest.mark.parametrize(("version", "names"), [(2, {"member_id": "a"}), (5, {"members": [MemberIdentity("a")]})])
def test_of_a_group_that_is_being_deleted_nobody_is_a_member(version, names):
    calls = Calls()
    calls.commit(5)
    [shard] = calls.world.coordinator._shards.values()
    shard.groups[GROUP].mark_dead(True)
    answer = calls.ask(LeaveGroupRequest(GROUP, **names), version).answer
    assert (answer.error_code, answer.members) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, [])
    shard.groups[GROUP].mark_dead(False)


def test_a_member_that_only_the_table_knows_leaves_once():
    """It was there before the coordinator died; its record was not written yet."""
    calls = Calls()
    member = calls.join().answer
    calls.die()
    assert calls.world.table.has_member(GROUP, member.member_id)
    assert rows(calls.leave(member.member_id)) == [(member.member_id, None, 0)]
    assert not calls.world.table.has_member(GROUP, member.member_id)
    assert rows(calls.leave(member.member_id)) == [(member.member_id, None, UNKNOWN)]
