"""Kafka's fencing of control requests: 11, 77, 74, 103, 56, 3, and what a predecessor did counts as done."""

import pytest

from mpbroker.controller.agent_decisions import (
    Epochs,
    Hosted,
    Role,
    Verdict,
    Wanted,
    fence,
    is_done,
    judge_leader_and_isr,
    judge_stop_replica,
)
from mpbroker.errors import ErrorCode

ME, TOPIC = 1, b"t" * 16
HERE = Hosted(TOPIC, leader_epoch=5, partition_epoch=2, has_role=True, is_leader=True, online=True, untouched=False)


def wanted(leader=ME, epoch=6, topic_id=TOPIC, replicas=(1, 2), is_new=False):
    return Wanted(topic_id, leader, epoch, 0, replicas, is_new)


@pytest.mark.parametrize(
    ("controller", "broker", "code"),
    [(4, 100, 0), (5, -1, 0), (4, 101, 0), (3, 100, 11), (4, 99, 77), (3, 99, 77)],
)
def test_epochs_of_the_whole_request(controller, broker, code):
    assert fence(Epochs(controller=4, broker=100), controller, broker) == code


def test_before_its_registration_a_broker_takes_no_role():
    """The request is meant for its last life, whose records may be gone with its machine."""
    assert fence(Epochs(controller=0, broker=-1), 4, 100) == ErrorCode.STALE_BROKER_EPOCH
    assert fence(Epochs(controller=0, broker=-1), 4, -1) == 0


@pytest.mark.parametrize(
    ("hosted", "request_", "expected"),
    [
        (HERE, wanted(), Verdict(0, Role.LEADER)),
        (HERE, wanted(leader=2), Verdict(0, Role.FOLLOWER)),
        (HERE, wanted(leader=-1), Verdict(0, Role.FOLLOWER)),
        (HERE, wanted(epoch=5), Verdict(11)),
        (HERE, wanted(epoch=4), Verdict(11)),
        (HERE, wanted(topic_id=b"x" * 16), Verdict(103)),
        (HERE, wanted(topic_id=bytes(16)), Verdict(0, Role.LEADER)),
        (HERE, wanted(replicas=(2, 3)), Verdict(3)),
        (HERE._replace(online=False), wanted(), Verdict(56)),
        (HERE._replace(has_role=False), wanted(epoch=5), Verdict(0, Role.LEADER)),
        (HERE._replace(has_role=False), wanted(epoch=4), Verdict(11)),
        (HERE._replace(untouched=True), wanted(epoch=5), Verdict(0, Role.LEADER)),
        (None, wanted(is_new=True), Verdict(0, Role.LEADER, create=True)),
        (None, wanted(replicas=(2,)), Verdict(3)),
    ],
)
def test_leader_and_isr(hosted, request_, expected):
    assert judge_leader_and_isr(ME, hosted, request_, can_create=True) == expected


def test_nothing_is_made_where_there_is_no_room():
    assert judge_leader_and_isr(ME, None, wanted(), can_create=False) == Verdict(56)
    assert judge_leader_and_isr(ME, HERE, wanted(), can_create=False) == Verdict(0, Role.LEADER)


def test_what_a_predecessor_did_is_done():
    left = HERE._replace(untouched=True)
    assert is_done(ME, left, wanted(epoch=5))
    assert not is_done(ME, left, wanted(epoch=5, leader=2)), "it became something else"
    assert not is_done(ME, left, wanted(epoch=6))
    assert not is_done(ME, HERE, wanted(epoch=5)), "that is a second request, not a second run"
    assert not is_done(ME, left._replace(has_role=False), wanted(epoch=5))


@pytest.mark.parametrize(
    ("hosted", "epoch", "code"),
    [(HERE, 5, 0), (HERE, 6, 0), (HERE, -1, 0), (HERE, -2, 0), (HERE, 4, 74), (None, 0, 0)],
)
def test_stop_replica(hosted, epoch, code):
    assert judge_stop_replica(hosted, epoch) == code


def test_stop_replica_of_an_offline_log():
    assert judge_stop_replica(HERE._replace(online=False), 5) == 56


@pytest.mark.parametrize("hosted", [None, HERE, HERE._replace(online=False), HERE._replace(has_role=False)])
@pytest.mark.parametrize("leader", [ME, 2])
@pytest.mark.parametrize("replicas", [(1, 2), (2,), ()])
@pytest.mark.parametrize("can_create", [True, False])
def test_each_pair_of_what_is_here_and_what_is_wanted(hosted, leader, replicas, can_create):
    """An offline log first, then whether it is ours at all, then whether there is room."""
    found = judge_leader_and_isr(ME, hosted, wanted(leader, replicas=replicas), can_create)
    role = Role.LEADER if leader == ME else Role.FOLLOWER
    if hosted is not None and not hosted.online:
        assert found == Verdict(56)
    elif ME not in replicas:
        assert found == Verdict(3)
    elif hosted is None and not can_create:
        assert found == Verdict(56)
    else:
        assert found == Verdict(0, role, create=hosted is None)


@pytest.mark.parametrize("known", [-1, 100])
@pytest.mark.parametrize("asked", [-1, 99, 100, 101])
@pytest.mark.parametrize("controller", [3, 4, 5])
def test_each_pair_of_epochs(known, asked, controller):
    """A broker epoch that is not said is not compared."""
    is_stale = asked != -1 and (known == -1 or asked < known)
    code = 77 if is_stale else 11 if controller < 4 else 0
    assert fence(Epochs(controller=4, broker=known), controller, asked) == code


@pytest.mark.parametrize("has_role", [True, False])
@pytest.mark.parametrize("untouched", [True, False])
@pytest.mark.parametrize("epoch", [4, 5, 6])
@pytest.mark.parametrize(("is_leader", "leader"), [(True, ME), (True, 2), (False, ME), (False, 2), (False, -1)])
def test_only_what_is_found_as_it_is_wanted_is_done(has_role, untouched, epoch, is_leader, leader):
    here = HERE._replace(has_role=has_role, untouched=untouched, is_leader=is_leader)
    same = has_role and untouched and epoch == 5 and is_leader == (leader == ME)
    assert is_done(ME, here, wanted(leader, epoch)) is same


@pytest.mark.parametrize(
    ("fields", "epoch", "topic_id", "code"),
    [
        ({}, 5, TOPIC, 11),
        ({"has_role": False}, 5, TOPIC, 0),
        ({"untouched": True}, 5, TOPIC, 0),
        ({"has_role": False, "untouched": True}, 5, TOPIC, 0),
        ({"has_role": False, "untouched": True}, 4, TOPIC, 11),
        ({"untouched": True}, 6, b"x" * 16, 103),
        ({"online": False}, 4, b"x" * 16, 56),
        ({"has_role": False}, 4, b"x" * 16, 103),
    ],
)
def test_why_a_role_is_refused(fields, epoch, topic_id, code):
    found = judge_leader_and_isr(ME, HERE._replace(**fields), wanted(epoch=epoch, topic_id=topic_id), True)
    assert found.code == code and (found.role is Role.NOTHING) is bool(code)


def test_nothing_leader_and_follower_are_three():
    assert len(Role) == 3
