"""What follows from a heartbeat: what is recorded, when a group's epoch rises, what is given back in the meantime."""

import pytest

from mpbroker.coordinator.consumer_groups import consumer_records as records
from mpbroker.coordinator.consumer_groups.consumer_group import ConsumerGroup, Deadline, Kind
from mpbroker.coordinator.consumer_groups.consumer_member import MemberState
from mpbroker.coordinator.group_settings import GroupSettings
from mpbroker.errors import ErrorCode
from mpbroker.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequestTopicPartitions,
)
from tests.harness.group_world import GROUP, TOPIC, World

REBALANCE_MS = 500


class Group:
    """One group of a world, and what its members say."""

    def __init__(self, interval_ms=0, **settings):
        self.world = World(
            GroupSettings(retention_check_ms=10**12, assignment_interval_ms=interval_ms, **settings), partitions=2
        )

    def beat(self, member, epoch, held=None, **fields):
        """Answers that were heard: none yet, or one."""
        heard = []
        asker = type("Asker", (), {"hear": lambda self, asked, answer: heard.append(answer)})()
        if epoch == 0:
            fields = {"subscribed_topic_names": [TOPIC], "rebalance_timeout_ms": REBALANCE_MS} | fields
            held = held or {}
        if held is not None:
            row = ConsumerGroupHeartbeatRequestTopicPartitions
            fields = {"topic_partitions": [row(topic_id, list(numbers)) for topic_id, numbers in held.items()]} | fields
        self.world.send(asker, ConsumerGroupHeartbeatRequest(GROUP, member, epoch, **fields), 1)
        return heard

    @property
    def found(self):
        found = self.world.coordinator._shards[self.world.partition].groups[GROUP]
        assert isinstance(found, ConsumerGroup)
        return found

    @property
    def rebalances(self):
        return self.world.coordinator.counts.rebalances

    def member(self, name):
        one = self.found.members[name]
        return one.epoch, one.state, one.assigned, one.revoking


@pytest.fixture
def group():
    return Group()


@pytest.fixture
def topic_id(group):
    return group.world.topics.topic(TOPIC).id


def test_a_heartbeat_that_says_nothing_new_is_not_recorded(group):
    [first] = group.beat("a", 0)
    written, rebalances = len(group.world.log), group.rebalances
    assert (first.member_epoch, rebalances) == (2, 1)
    [answer] = group.beat("a", 2)
    assert (answer.member_epoch, answer.assignment) == (2, None)
    assert (len(group.world.log), group.rebalances, group.found.needs_look) == (written, rebalances, False)


def test_a_member_that_wants_nothing_is_one_too(group):
    [answer] = group.beat("a", 0, subscribed_topic_names=[])
    assert answer.error_code == 0 and set(group.found.members) == {"a"}
    group.world.start()
    assert set(group.found.members) == {"a"}


def test_a_topic_that_grew_is_looked_at_once(group, topic_id):
    group.beat("a", 0)
    group.world.topics.create(TOPIC, 3)
    group.found.topics_changed(frozenset({TOPIC}))
    [answer] = group.beat("a", 2)
    assert (answer.member_epoch, group.rebalances, group.found.needs_look) == (3, 2, False)
    assert group.member("a")[2] == {topic_id: {0: 2, 1: 2, 2: 3}}
    group.found.topics_changed(frozenset({TOPIC}))
    [answer] = group.beat("a", 3)
    assert (answer.member_epoch, group.rebalances, group.found.needs_look) == (3, 2, False), "it is as it was"


def test_what_could_not_be_recorded_is_looked_at_again(group):
    group.beat("a", 0)
    group.world.topics.create(TOPIC, 3)
    group.found.topics_changed(frozenset({TOPIC}))
    fates = [(False, ErrorCode.KAFKA_STORAGE_ERROR, True)]
    group.world.append_fate = lambda: fates.pop() if fates else (True, 0, True)
    [answer] = group.beat("a", 2)
    assert answer.error_code == ErrorCode.NOT_COORDINATOR and group.found.needs_look
    [answer] = group.beat("a", 2)
    assert (answer.member_epoch, group.found.needs_look) == (3, False)


def test_the_record_of_kafka_4_0_is_dropped_with_the_first_look(group):
    group.beat("a", 0)
    key = records.key_of(records.PARTITION_METADATA, GROUP)
    group.found.has_partition_metadata = True
    group.beat("a", 2)
    assert (key, None) not in group.world.log and group.found.has_partition_metadata
    group.found.needs_look = True
    group.beat("a", 2)
    assert group.world.log.count((key, None)) == 1 and not group.found.has_partition_metadata
    group.found.needs_look = True
    group.beat("a", 2)
    assert group.world.log.count((key, None)) == 1


def test_partitions_are_to_be_given_back_within_the_rebalance_timeout(group, topic_id):
    group.beat("a", 0)
    group.beat("b", 0)
    [answer] = group.beat("a", 2)
    assert answer.member_epoch == 2
    epoch, state, assigned, revoking = group.member("a")
    assert (epoch, state) == (2, MemberState.UNREVOKED_PARTITIONS)
    [kept], [lost] = assigned[topic_id], revoking[topic_id]
    key = (Kind.REVOCATION, "a")
    assert group.found.deadlines[key] == Deadline(group.world.ms + REBALANCE_MS, 2)
    [answer] = group.beat("a", 2, {topic_id: [kept, lost]})
    assert answer.member_epoch == 2 and key in group.found.deadlines, "it has it still"
    [answer] = group.beat("a", 2, {topic_id: [kept]})
    assert answer.member_epoch == 3 and key not in group.found.deadlines
    group.world.advance(REBALANCE_MS)
    assert set(group.found.members) == {"a", "b"}


def test_what_it_does_not_want_any_more_is_given_back_before_there_is_a_new_target():
    group = Group(interval_ms=1000)
    topic_id, other = group.world.topics.topic(TOPIC).id, group.world.topics.create("other", 1)
    group.beat("a", 0, subscribed_topic_names=[TOPIC, "other"])
    assert group.member("a")[2] == {topic_id: {0: 2, 1: 2}, other: {0: 2}}
    [answer] = group.beat("a", 2, subscribed_topic_names=["other"])
    assert (group.found.epoch, group.found.target_epoch, answer.member_epoch) == (3, 2, 2)
    assert [one.topic_id for one in answer.assignment.topic_partitions] == [other]
    assert group.member("a") == (2, MemberState.UNREVOKED_PARTITIONS, {other: {0: 2}}, {topic_id: {0: 2, 1: 2}})


def test_what_is_gone_is_kept_until_there_is_a_new_target():
    """Its member did not say that it wants it no more."""
    group = Group(interval_ms=1000)
    topic_id = group.world.topics.topic(TOPIC).id
    group.beat("a", 0)
    group.world.topics.delete(TOPIC)
    group.found.topics_changed(frozenset({TOPIC}))
    [answer] = group.beat("a", 2)
    assert (group.found.epoch, answer.member_epoch, answer.assignment) == (3, 2, None)
    assert group.member("a") == (2, MemberState.STABLE, {topic_id: {0: 2, 1: 2}}, {})


def test_as_many_requests_wait_for_a_record_as_may():
    group = Group(max_parked=1)
    group.beat("a", 0)
    group.world.append_fate = lambda: (True, 0, False)
    recorded, waits, refused = group.beat("b", 0), group.beat("c", 0), group.beat("d", 0)
    counts = group.world.coordinator.counts
    assert (recorded, waits, counts.parked, counts.parked_refused) == ([], [], 1, 1)
    assert [one.error_code for one in refused] == [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]
    group.world.acknowledge()
    group.world.acknowledge()
    assert len(recorded) == len(waits) == 1 and counts.parked == 0


def test_nobody_has_to_ask_for_the_only_assignor():
    group = Group(assignors=("range",))
    [answer] = group.beat("a", 0)
    assert (answer.error_code, answer.member_epoch) == (0, 2)
    assert [one.partitions for one in answer.assignment.topic_partitions] == [[0, 1]]


def test_a_member_whose_session_is_over_is_counted_and_nothing_waits_for_it(group):
    group.beat("a", 0)
    group.beat("b", 0)
    before = group.rebalances
    group.world.advance(group.world.settings.consumer_session_timeout_ms - 1)
    group.beat("a", 2)
    group.world.advance(1)
    assert set(group.found.members) == {"a"} and group.world.coordinator.counts.members_expired == 1
    assert group.rebalances == before + 1
    assert {name for _, name in group.found.deadlines} == {"a"}


def test_a_pattern_goes_with_the_last_member_that_has_it(group):
    for name in "ab":
        group.beat(name, 0, subscribed_topic_names=[], subscribed_topic_regex="t.*")
        group.world.advance(1)
    assert set(group.found.resolved) == {"t.*"}
    key = records.key_of(records.PATTERN, GROUP, "t.*")
    group.beat("b", -1)
    assert set(group.found.resolved) == {"t.*"} and (key, None) not in group.world.log, "another one has it"
    group.beat("a", -1)
    assert not group.found.resolved and group.world.log.count((key, None)) == 1
    assert group.found.deadlines == {}
