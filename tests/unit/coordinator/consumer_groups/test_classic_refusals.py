"""Members of the classic protocol in a group of the next generation: what is refused, with which code, and what then is
as it was. The codes are those of Kafka's GroupMetadataManager, but for what the broker's own bounds and
`group.consumer.migration.policy=disabled` refuse."""

import pytest

from mpbroker.errors import ErrorCode
from mpbroker.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from mpbroker.protocol.messages.heartbeat import HeartbeatRequest
from mpbroker.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from mpbroker.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from mpbroker.protocol.messages.sync_group import SyncGroupRequest
from tests.conformance.group_scripts.cast import subscription
from tests.harness.group_calls import SESSION_MS, Calls
from tests.harness.group_world import GROUP, TOPIC

PROTOCOLS = [JoinGroupRequestProtocol("range", subscription(TOPIC))]
LOST = (False, ErrorCode.NOT_ENOUGH_REPLICAS, True)  # not written
WRITTEN = (True, 0, True)
NOT_SUPPORTED, REFUSED = ErrorCode.INCONSISTENT_GROUP_PROTOCOL, ErrorCode.COORDINATOR_NOT_AVAILABLE


def began(**settings):
    """A group with a member of the new protocol that keeps it as it is."""
    calls = Calls(**settings)
    assert heartbeat(calls, "m", 0, topic_partitions=[]).code == 0
    return calls


def heartbeat(calls, member, epoch, **fields):
    fields = {"rebalance_timeout_ms": 60_000, "subscribed_topic_names": [TOPIC]} | fields if epoch >= 0 else fields
    return calls.ask(ConsumerGroupHeartbeatRequest(GROUP, member, epoch, **fields), 1)


def ask_join(
    calls, member="", instance=None, version=3, protocol_type="consumer", protocols=PROTOCOLS, session_ms=6000
):
    request = JoinGroupRequest(GROUP, session_ms, 60_000, member, instance, protocol_type, protocols)
    heard = calls.ask(request, version)
    calls.world.advance(0)
    return heard.answer


@pytest.mark.parametrize(
    ("session_ms", "code"),
    [(5999, ErrorCode.INVALID_SESSION_TIMEOUT), (6000, 0), (9000, 0), (9001, ErrorCode.INVALID_SESSION_TIMEOUT)],
)
@pytest.mark.parametrize("is_empty", [False, True])
def test_the_session_timeout_is_within_the_brokers_bounds(session_ms, code, is_empty):
    calls = began(min_session_timeout_ms=6000, max_session_timeout_ms=9000)
    if is_empty:
        heartbeat(calls, "m", -1)
    answer = ask_join(calls, session_ms=session_ms)
    assert answer.error_code == code
    assert bool(answer.member_id) is (not code)
    assert len(calls.group().members) == (0 if is_empty else 1) + (not code)


@pytest.mark.parametrize(("member", "code"), [("", 0), ("known-before", ErrorCode.UNKNOWN_MEMBER_ID)])
@pytest.mark.parametrize("has_offsets", [True, False])
def test_an_empty_group_takes_the_protocol_of_who_comes_first(member, code, has_offsets):
    """And who comes with an id of an earlier life is told so; what was committed stays."""
    calls = began()
    heartbeat(calls, "m", -1)
    if has_offsets:
        assert calls.commit_codes(7) == [0]
    counts = calls.world.coordinator.counts
    assert ask_join(calls, member).error_code == code
    assert calls.fetch() == (7 if has_offsets else -1, 0)
    assert counts.groups == (1 if has_offsets or not code else 0)
    assert counts.members == (not code)


def test_a_group_whose_end_cannot_be_written_stays_what_it_is():
    calls = began()
    heartbeat(calls, "m", -1)
    kind = type(calls.group())
    calls.world.append_fate = lambda: LOST
    assert ask_join(calls).error_code == REFUSED
    assert type(calls.group()) is kind and not calls.group().members
    calls.world.append_fate = lambda: WRITTEN
    assert ask_join(calls).error_code == 0 and type(calls.group()) is not kind


def test_a_join_that_cannot_be_written_changes_nothing():
    calls = began()
    before = calls.group().epoch
    calls.world.append_fate = lambda: LOST
    assert ask_join(calls).error_code == REFUSED
    assert set(calls.group().members) == {"m"} and calls.group().epoch == before
    calls.world.append_fate = lambda: WRITTEN
    assert ask_join(calls).error_code == 0 and len(calls.group().members) == 2


@pytest.mark.parametrize(
    ("version", "code"), [(3, 0), (4, ErrorCode.MEMBER_ID_REQUIRED), (5, ErrorCode.MEMBER_ID_REQUIRED)]
)
def test_from_version_four_on_an_id_comes_first(version, code):
    calls = began()
    answer = ask_join(calls, version=version)
    assert answer.error_code == code and answer.member_id
    if code:
        assert set(calls.group().members) == {"m"}
        answer = ask_join(calls, answer.member_id, version=version)
        assert answer.error_code == 0
    assert set(calls.group().members) == {"m", answer.member_id}


def test_an_instance_needs_no_id_first():
    calls = began()
    answer = ask_join(calls, instance="i", version=5)
    assert answer.error_code == 0 and calls.group().instances == {"i": answer.member_id}


@pytest.mark.parametrize(
    ("protocol_type", "protocols", "code"),
    [
        ("consumer", PROTOCOLS, 0),
        ("connect", PROTOCOLS, NOT_SUPPORTED),
        ("", PROTOCOLS, NOT_SUPPORTED),
        ("consumer", [], NOT_SUPPORTED),
        ("consumer", [JoinGroupRequestProtocol("range", b"?")], ErrorCode.UNKNOWN_SERVER_ERROR),
        ("consumer", [JoinGroupRequestProtocol("range", b"")], ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
def test_the_protocols_of_who_joins(protocol_type, protocols, code):
    calls = began()
    answer = ask_join(calls, protocol_type=protocol_type, protocols=protocols)
    assert (answer.error_code, bool(answer.member_id)) == (code, not code)
    assert len(calls.group().members) == 1 + (not code)


@pytest.mark.parametrize(
    ("names", "code"),
    [(["range"], 0), (["sticky", "range"], 0), (["sticky"], NOT_SUPPORTED), (["a", "b"], NOT_SUPPORTED)],
)
def test_members_of_the_classic_protocol_share_an_assignor(names, code):
    calls = began()
    assert ask_join(calls).error_code == 0
    protocols = [JoinGroupRequestProtocol(name, subscription(TOPIC)) for name in names]
    answer = ask_join(calls, instance="i", version=7, protocols=protocols)
    assert answer.error_code == code
    if not code:
        assert (answer.protocol_type, answer.protocol_name) == ("consumer", names[0])


@pytest.mark.parametrize(("policy", "code"), [("disabled", NOT_SUPPORTED), ("upgrade", 0), ("downgrade", 0)])
def test_where_groups_do_not_mix(policy, code):
    assert ask_join(began(migration_policy=policy)).error_code == code


def test_a_full_group_takes_its_own_members_only():
    calls = began(consumer_max_size=2)
    one = ask_join(calls)
    assert one.error_code == 0
    assert ask_join(calls).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert ask_join(calls, one.member_id).error_code == 0
    assert calls.world.coordinator.counts.members_refused == 0


@pytest.mark.parametrize(("most", "code"), [(3, 0), (2, REFUSED)])
def test_a_broker_that_has_all_the_members_it_takes(most, code):
    """Whoever is one already, or takes an instance's place, is none more."""
    calls = began(max_members=most)
    known = ask_join(calls, instance="i", version=5)
    assert known.error_code == 0
    assert ask_join(calls).error_code == code
    counts = calls.world.coordinator.counts
    assert counts.members_refused == (1 if code else 0) and counts.members == (2 if code else 3)
    again = ask_join(calls, instance="i", version=5)
    assert again.error_code == 0 and again.member_id != known.member_id
    assert ask_join(calls, again.member_id, "i", version=5).error_code == 0
    assert counts.members_refused == (1 if code else 0)


def test_an_instance_and_its_id():
    calls = began()
    known = ask_join(calls, instance="i", version=5)
    assert ask_join(calls, "other", "i", version=5).error_code == ErrorCode.FENCED_INSTANCE_ID
    assert ask_join(calls, known.member_id, "nobody", version=5).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert set(calls.group().members) == {"m", known.member_id}
    new = ask_join(calls, instance="i", version=5)
    assert set(calls.group().members) == {"m", new.member_id} and new.member_id != known.member_id
    for message in (
        SyncGroupRequest(GROUP, known.generation_id, known.member_id, "i"),
        HeartbeatRequest(GROUP, known.generation_id, known.member_id, "i"),
    ):
        assert calls.ask(message, 3).code == ErrorCode.FENCED_INSTANCE_ID


def test_a_member_of_the_new_protocol_neither_syncs_nor_beats_in_the_old_one():
    calls = began()
    epoch = calls.group().epoch
    assert calls.ask(SyncGroupRequest(GROUP, epoch, "m"), 3).code == ErrorCode.UNKNOWN_MEMBER_ID
    assert calls.ask(HeartbeatRequest(GROUP, epoch, "m"), 3).code == ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize(
    ("protocol_type", "name", "code"),
    [
        (None, None, 0),
        ("consumer", "range", 0),
        ("connect", "range", NOT_SUPPORTED),
        ("consumer", "sticky", NOT_SUPPORTED),
    ],
)
def test_a_sync_names_what_was_joined(protocol_type, name, code):
    """Its part is what the member has, under the names it gave."""
    calls = began()
    joined = ask_join(calls)
    message = SyncGroupRequest(
        GROUP, joined.generation_id, joined.member_id, protocol_type=protocol_type, protocol_name=name
    )
    answer = calls.ask(message, 5 if name else 3).answer
    assert (answer.error_code, bool(answer.assignment)) == (code, not code)
    if not code:
        assert (answer.protocol_type, answer.protocol_name) == (protocol_type, name)


def test_who_is_behind_is_told_to_join_again_and_has_its_time_for_it():
    """From the first word on; joining ends it."""
    calls = began(assignment_interval_ms=0)
    one = ask_join(calls)
    assert calls.sync(one).code == 0 and calls.beat(one) == 0
    assert heartbeat(calls, "n", 0, topic_partitions=[]).code == 0  # the target changes
    assert calls.beat(one) == ErrorCode.REBALANCE_IN_PROGRESS
    assert calls.sync(one).code == ErrorCode.REBALANCE_IN_PROGRESS
    deadlines = {key[0].name: at for key, at in calls.group().deadlines.items() if key[1] == one.member_id}
    calls.world.advance(1000)
    assert calls.beat(one) == ErrorCode.REBALANCE_IN_PROGRESS
    again = {key[0].name: at for key, at in calls.group().deadlines.items() if key[1] == one.member_id}
    assert again["JOIN"] == deadlines["JOIN"] and again["SESSION"] != deadlines["SESSION"]
    new = ask_join(calls, one.member_id, version=5)
    assert new.error_code == 0 and new.generation_id > one.generation_id
    assert "JOIN" not in {key[0].name for key in calls.group().deadlines if key[1] == one.member_id}
    assert calls.sync(new).code == 0 and calls.beat(new) == 0


@pytest.mark.parametrize(
    ("member", "instance", "code"),
    [
        ("nobody", None, ErrorCode.UNKNOWN_MEMBER_ID),
        ("", "nobody", ErrorCode.UNKNOWN_MEMBER_ID),
        ("other", "i", ErrorCode.FENCED_INSTANCE_ID),
        ("", "i", 0),
        ("its own", "i", 0),
        ("its own", None, 0),
        ("m", None, 0),
    ],
)
def test_who_leaves_by_id_and_by_instance(member, instance, code):
    """Of either protocol; the answer names each as it was asked for."""
    calls = began()
    known = ask_join(calls, instance="i", version=5)
    name = known.member_id if member == "its own" else member
    answer = calls.ask(LeaveGroupRequest(GROUP, members=[MemberIdentity(name, instance)]), 5).answer
    [row] = answer.members
    assert (answer.error_code, row.member_id, row.group_instance_id, row.error_code) == (0, name, instance, code)
    assert calls.world.coordinator.counts.members == (2 if code else 1)


def test_a_leave_that_cannot_be_written():
    calls = began()
    known = ask_join(calls)
    calls.world.append_fate = lambda: LOST
    answer = calls.leave(known.member_id).answer
    assert (answer.error_code, answer.members) == (REFUSED, [])
    assert set(calls.group().members) == {"m", known.member_id}


def test_a_session_timeout_is_the_time_to_rebalance_of_version_zero():
    calls = began()
    for version, timeout_ms in ((0, SESSION_MS), (1, 60_000)):
        answer = ask_join(calls, version=version)
        assert calls.group().members[answer.member_id].rebalance_timeout_ms == timeout_ms
