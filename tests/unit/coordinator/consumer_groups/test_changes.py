"""A change of a group that cannot be recorded is taken back; one on its way is waited for; a second run is harmless."""

import pytest

from mpbroker.coordinator.consumer_groups.change import Change
from mpbroker.coordinator.consumer_groups.consumer_group import ConsumerGroup
from mpbroker.coordinator.consumer_groups.consumer_member import ConsumerMember
from mpbroker.coordinator.consumer_groups.target_assignment import maybe_work_out
from mpbroker.coordinator.effects import Now
from mpbroker.coordinator.group_settings import GroupSettings
from mpbroker.errors import ErrorCode
from mpbroker.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from tests.harness.group_world import GROUP, TOPIC, World

SESSION_MS = 1000


class Asker:
    def __init__(self):
        self.heard = []

    def hear(self, asked, answer):
        self.heard.append(answer)


@pytest.fixture
def world():
    settings = GroupSettings(
        retention_check_ms=10**12, consumer_session_timeout_ms=SESSION_MS, assignment_interval_ms=0
    )
    return World(settings, partitions=2)


def beat(world, member, epoch, **fields):
    asker = Asker()
    if epoch == 0:
        fields = {"rebalance_timeout_ms": 500, "subscribed_topic_names": [TOPIC], "topic_partitions": []} | fields
    world.send(asker, ConsumerGroupHeartbeatRequest(GROUP, member, epoch, **fields), 1)
    return asker.heard


def group_of(world):
    found = world.coordinator._shards[world.partition].groups.get(GROUP)
    assert isinstance(found, ConsumerGroup)
    return found


def fail_once(world, written, code):
    fates = [(written, code, True)]
    world.append_fate = lambda: fates.pop() if fates else (True, 0, True)


@pytest.mark.parametrize(
    ("code", "told"),
    [
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
def test_a_join_that_is_not_recorded_did_not_happen(world, code, told):
    beat(world, "a", 0)
    before = (group_of(world).epoch, group_of(world).target_epoch, dict(group_of(world).targets))
    fail_once(world, False, code)
    [answer] = beat(world, "b", 0)
    assert answer.error_code == told
    group = group_of(world)
    assert set(group.members) == {"a"} and world.coordinator.counts.members == 1
    assert (group.epoch, group.target_epoch, group.targets) == before
    [answer] = beat(world, "a", 2)
    assert (answer.error_code, answer.assignment) == (0, None), "a hears of no epoch that is in no log"


def test_a_leave_that_is_not_recorded_ends_with_the_session(world):
    beat(world, "a", 0)
    fail_once(world, False, ErrorCode.KAFKA_STORAGE_ERROR)
    [answer] = beat(world, "a", -1)
    assert answer.error_code == ErrorCode.NOT_COORDINATOR and set(group_of(world).members) == {"a"}
    world.advance(SESSION_MS + 1)
    assert not group_of(world).members


def test_what_may_or_may_not_be_in_the_log_is_written_again(world):
    """An append took too long and was there after all; what follows is written over it."""
    beat(world, "a", 0)
    fail_once(world, True, ErrorCode.REQUEST_TIMED_OUT)
    beat(world, "b", 0)
    assert group_of(world).unsure
    [answer] = beat(world, "c", 0)
    assert answer.error_code == 0 and not group_of(world).unsure
    world.start()
    assert set(group_of(world).members) == {"a", "c"}, "b heard that it is no member"


def test_while_a_record_is_on_its_way_others_wait_in_their_order(world):
    beat(world, "a", 0)
    world.append_fate = lambda: (True, 0, False)
    first, second, third = beat(world, "b", 0), beat(world, "c", 0), beat(world, "a", 2)
    assert (first, second, third) == ([], [], [])
    world.acknowledge()
    assert len(first) == 1 and not second, "b is answered, c is recorded next"
    world.append_fate = lambda: (True, 0, True)
    world.acknowledge()
    assert len(second) == len(third) == 1
    assert set(group_of(world).members) == {"a", "b", "c"} and world.coordinator.counts.parked == 0


def test_who_waits_when_the_partition_goes_hears_so(world):
    beat(world, "a", 0)
    world.append_fate = lambda: (True, 0, False)
    first, second = beat(world, "b", 0), beat(world, "c", 0)
    world.close()
    assert [answers[0].error_code for answers in (first, second)] == [ErrorCode.NOT_COORDINATOR] * 2


@pytest.mark.parametrize("after", [0, 1])
def test_a_member_in_the_epoch_before_is_not_fenced_by_the_second_run_of_its_own_heartbeat(world, after):
    """The first run moved it on and died before it said so; the member did not say what it has, as usual."""
    beat(world, "a", 0)
    beat(world, "b", 0)
    beat(world, "b", -1)
    assert group_of(world).members["a"].epoch == 2
    world.effects_left = after
    [answer] = beat(world, "a", 2)
    assert (answer.error_code, answer.member_epoch) == (0, 4)


def test_the_second_run_of_a_heartbeat_tells_what_the_first_one_changed(world):
    """Whoever is not told to give a partition back keeps it, and is expelled for that."""
    beat(world, "a", 0)
    beat(world, "b", 0)
    world.effects_left = 1
    [answer] = beat(world, "a", 2)
    assert answer.error_code == 0
    assert sum(len(topic.partitions) for topic in answer.assignment.topic_partitions) == 1


def test_a_static_member_is_not_refused_by_the_second_run_of_its_own_join(world):
    world.effects_left = 1
    [answer] = beat(world, "a", 0, instance_id="i")
    assert (answer.error_code, answer.member_epoch) == (0, 2)
    [answer] = beat(world, "b", 0, instance_id="i")
    assert answer.error_code == ErrorCode.UNRELEASED_INSTANCE_ID


def test_a_second_run_of_a_leave_succeeds(world):
    beat(world, "a", 0)
    world.effects_left = 1
    [answer] = beat(world, "a", -1)
    assert answer.error_code == 0 and not group_of(world).members


def test_a_new_target_waits_for_its_time(world):
    world.settings = GroupSettings(retention_check_ms=10**12, assignment_interval_ms=1000)
    world.start()
    beat(world, "a", 0)
    world.advance(500)
    [answer] = beat(world, "b", 0)
    assert answer.member_epoch == 2 and group_of(world).state_name == "Assigning"
    world.advance(400)
    beat(world, "a", 2)
    assert group_of(world).target_epoch == 2
    world.advance(100)
    beat(world, "a", 2)
    assert group_of(world).target_epoch == 3


def test_a_groups_first_target_waits_for_no_interval(world):
    """Whatever the clock says: that of a machine that has just been started may say 1970."""
    group = ConsumerGroup(GROUP, world.topics, world.coordinator.counts)
    group.set_member("a", ConsumerMember("a"))
    group.epoch = 2
    change = Change(group)
    maybe_work_out(change, world.topics, "uniform", 60_000, Now(5, 5))
    assert (group.target_epoch, group.target_ms) == (2, 5)
    group.epoch = 3
    maybe_work_out(change, world.topics, "uniform", 60_000, Now(9, 5 + 59_999))
    assert group.target_epoch == 2
    maybe_work_out(change, world.topics, "uniform", 60_000, Now(9, 5 + 60_000))
    assert group.target_epoch == 3


def test_the_target_of_an_epoch_is_worked_out_once(world):
    """Also if who reads what has changed meanwhile without a new epoch."""
    group = ConsumerGroup(GROUP, world.topics, world.coordinator.counts)
    group.set_member("a", ConsumerMember("a"))
    group.epoch = group.target_epoch = 2
    change = Change(group)
    maybe_work_out(change, world.topics, "uniform", 0, Now(9, 9))
    assert (group.target_epoch, group.target_ms, group.targets, change.records) == (2, 0, {}, [])
