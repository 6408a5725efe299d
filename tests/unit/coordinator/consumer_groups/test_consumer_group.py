"""What a consumer group promises whatever a request or the log says: a partition has one owner."""

import pytest

from mpbroker.coordinator.consumer_groups.consumer_group import ConsumerGroup
from mpbroker.coordinator.consumer_groups.consumer_member import ConsumerMember
from mpbroker.coordinator.consumer_groups.consumer_records import Resolved
from mpbroker.coordinator.environment import Counts
from tests.harness.group_world import MemoryTopics

ONE, OTHER = b"1" * 16, b"2" * 16


@pytest.fixture
def group():
    group = ConsumerGroup("g", MemoryTopics(), Counts())
    group.set_member("a", ConsumerMember("a", assigned={ONE: {0: 1}}, revoking={ONE: {1: 1}}))
    return group


@pytest.mark.parametrize("field", ["assigned", "revoking"])
@pytest.mark.parametrize("partition", [0, 1])
def test_nobody_gets_what_another_has_or_has_not_given_back(group, field, partition):
    with pytest.raises(RuntimeError, match="b of group g cannot have what another member has"):
        group.set_member("b", ConsumerMember("b", **{field: {ONE: {partition: 2}}}))
    assert group.owners == {ONE: {0: "a", 1: "a"}}


def test_nobody_has_a_partition_twice(group):
    with pytest.raises(RuntimeError):
        group.set_member("b", ConsumerMember("b", assigned={OTHER: {0: 1}}, revoking={OTHER: {0: 1}}))


def test_what_is_given_back_is_free(group):
    group.set_member("a", ConsumerMember("a", assigned={ONE: {0: 1}}))
    group.set_member("b", ConsumerMember("b", assigned={ONE: {1: 2}, OTHER: {0: 2}}))
    assert group.owners == {ONE: {0: "a", 1: "b"}, OTHER: {0: "b"}}
    group.set_member("b", None)
    group.set_member("a", None)
    assert group.owners == {}


def test_a_group_that_is_being_deleted_says_so(group):
    group.set_member("a", None)
    assert (group.is_dead, group.is_empty, group.state_name) == (False, True, "Empty")
    group.mark_dead(True)
    assert (group.is_dead, group.is_empty, group.state_name) == (True, False, "Dead")
    group.mark_dead(False)
    assert (group.is_dead, group.state_name) == (False, "Empty")


def test_what_a_group_subscribes_to_by_name_and_by_pattern(group):
    """A pattern that nobody has resolved yet names nothing; one that its last member left, neither."""
    group.set_member("b", ConsumerMember("b", topics=("named",), pattern="p.*"))
    group.set_member("c", ConsumerMember("c", topics=("named", "also"), pattern="q.*"))
    assert group.all_topic_names() == {"named", "also"}
    group.resolved["p.*"] = Resolved(frozenset({"p1", "p2"}), 1, 2)
    group.resolved["q.*"] = Resolved(frozenset({"q1", "also"}), 1, 2)
    assert group.all_topic_names() == {"named", "also", "p1", "p2", "q1"}
    assert [group.is_subscribed(name) for name in ("named", "p2", "q1", "q2")] == [True, True, True, False]
    group.set_member("b", None)
    assert group.all_topic_names() == {"named", "also", "q1"} and not group.is_subscribed("p1")
    assert group.topic_names(group.members["c"]) == {"named", "also", "q1"}
