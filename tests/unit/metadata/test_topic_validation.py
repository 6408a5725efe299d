"""Every refusal of a topic, compared with what Apache Kafka 3.9.2 (one broker, id 0) answered to the same request."""

import pytest

from mpbroker.metadata.commands import NewTopic, PartitionCount
from mpbroker.metadata.topic_validation import (
    BIGGEST_BLOB_BYTES,
    Defaults,
    Refusal,
    TopicPlan,
    plan_partitions,
    plan_topic,
    refuse_name,
    too_many_partitions,
)
from mpbroker.shm.topic_table import MAX_OVERRIDES_BYTES

DEFAULTS = Defaults(num_partitions=4, replication_factor=1)
LONG = "a" * 250
ODD = "contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"


@pytest.mark.parametrize(
    ("name", "code", "sentence"),
    [
        ("", 17, "Topic name is invalid: the empty string is not allowed"),
        (".", 17, "Topic name is invalid: '.' is not allowed"),
        ("..", 17, "Topic name is invalid: '..' is not allowed"),
        (LONG, 17, f"Topic name is invalid: the length of '{LONG}' is longer than the max allowed length 249"),
        (LONG + " ", 17, f"Topic name is invalid: the length of '{LONG} ' is longer than the max allowed length 249"),
        ("a" * 248 + " ", 17, f"Topic name is invalid: '{'a' * 248} ' {ODD}"),
        ("a b", 17, f"Topic name is invalid: 'a b' {ODD}"),
        ("ä", 17, f"Topic name is invalid: 'ä' {ODD}"),
        ("a/b", 17, f"Topic name is invalid: 'a/b' {ODD}"),
        ("a\n", 17, f"Topic name is invalid: 'a\n' {ODD}"),
        ("plain", 36, "Topic 'plain' already exists."),
        ("co_ll.x", 17, "Topic 'co_ll.x' collides with existing topic: co.ll_x"),
        ("__cluster_metadata", 42, "Creation of internal topic __cluster_metadata is prohibited."),
    ],
)
def test_refused_names(name, code, sentence):
    assert refuse_name(name, {"plain", "co.ll_x"}, {"co_ll.x": "co.ll_x"}) == Refusal(code, sentence)


@pytest.mark.parametrize("name", ["a" * 249, "a-b_c.D9", "...", "__consumer_offsets"])
def test_allowed_names(name):
    assert refuse_name(name, {"plain"}, {}) is None


def _plan(brokers=(0,), **new):
    return plan_topic(NewTopic("t", **new), list(brokers), DEFAULTS)


@pytest.mark.parametrize(
    ("new", "code", "sentence"),
    [
        ({"num_partitions": 0}, 37, "Number of partitions was set to an invalid non-positive value."),
        ({"num_partitions": -2}, 37, "Number of partitions was set to an invalid non-positive value."),
        (
            {"num_partitions": 1, "replication_factor": 0},
            38,
            "Replication factor must be larger than 0, or -1 to use the default value.",
        ),
        (
            {"num_partitions": 0, "replication_factor": 0},
            38,
            "Replication factor must be larger than 0, or -1 to use the default value.",
        ),
        (
            {"num_partitions": 1, "replication_factor": 2},
            38,
            "Unable to replicate the partition 2 time(s): The target replication factor of 2 cannot be reached because "
            "only 1 broker(s) are registered.",
        ),
        (
            {"assignments": [(0, [0])], "num_partitions": 2},
            42,
            "A manual partition assignment was specified, but numPartitions was not set to -1.",
        ),
        (
            {"assignments": [(0, [0])], "num_partitions": 2, "replication_factor": 1},
            42,
            "A manual partition assignment was specified, but replication factor was not set to -1.",
        ),
        (
            {"assignments": [(0, [5])]},
            39,
            "The manual partition assignment includes broker 5, but no such broker is registered.",
        ),
        ({"assignments": [(0, [])]}, 39, "The manual partition assignment includes an empty replica list."),
        (
            {"assignments": [(0, [0, 0])]},
            39,
            "The manual partition assignment includes the broker 0 more than once.",
        ),
        (
            {"assignments": [(0, [0]), (2, [0])]},
            39,
            "partitions should be a consecutive 0-based integer sequence",
        ),
        (
            {"assignments": [(0, [0]), (0, [0])]},
            39,
            "Found multiple manual partition assignments for partition 0",
        ),
        ({"assignments": [(-1, [0])]}, 39, "partitions should be a consecutive 0-based integer sequence"),
        ({"configs": {"foo": "1"}}, 40, "Unknown topic config name: foo"),
        ({"configs": {"foo": "1"}, "replication_factor": 3}, 40, "Unknown topic config name: foo"),
        (
            {"configs": {"retention.ms": "abc"}},
            40,
            "Invalid value abc for configuration retention.ms: Not a number of type LONG",
        ),
        (
            {"configs": {"segment.bytes": "1"}},
            40,
            "Invalid value 1 for configuration segment.bytes: Value must be at least 14",
        ),
        ({"configs": {"retention.ms": None}}, 40, "Null value not supported for topic configs: retention.ms"),
    ],
)
def test_refused_topics(new, code, sentence):
    assert _plan(**new) == Refusal(code, sentence)


def test_defaults_fill_in_what_is_not_given():
    assert _plan() == TopicPlan("t", [[0]] * 4, {})
    assert _plan(num_partitions=2, replication_factor=1) == TopicPlan("t", [[0]] * 2, {})


def test_settings_come_back_in_kafkas_spelling():
    assert _plan(num_partitions=1, configs={"retention.ms": " 10 "}) == TopicPlan("t", [[0]], {"retention.ms": "10"})


def test_assignments_are_put_in_order():
    plan = _plan(brokers=(1, 2, 3), assignments=[(1, [3, 1]), (0, [1, 2])])
    assert plan == TopicPlan("t", [[1, 2], [3, 1]], {})


def test_assignments_of_unequal_length_are_refused():
    refusal = _plan(brokers=(1, 2), assignments=[(0, [1]), (1, [1, 2])])
    assert refusal.code == 39
    assert refusal.sentence.endswith("which have 1 replica(s).")


def test_leaders_go_round_the_brokers():
    assert _plan(brokers=(1, 2, 3), num_partitions=4, replication_factor=2).replicas == [[1, 2], [2, 3], [3, 1], [1, 2]]


@pytest.mark.parametrize(
    ("count", "assignments", "code", "sentence"),
    [
        (3, None, 37, "Topic already has 3 partition(s)."),
        (2, None, 37, "The topic cp currently has 3 partition(s); 2 would not be an increase."),
        (0, None, 37, "The topic cp currently has 3 partition(s); 0 would not be an increase."),
        (-1, None, 37, "The topic cp currently has 3 partition(s); -1 would not be an increase."),
        (10_004, None, -1, None),
        (5, [[0]], 39, "Attempted to add 2 additional partition(s), but only 1 assignment(s) were specified."),
        (4, [[0], [0]], 39, "Attempted to add 1 additional partition(s), but only 2 assignment(s) were specified."),
        (4, [], 39, "Attempted to add 1 additional partition(s), but only 0 assignment(s) were specified."),
        (4, [[7]], 39, "The manual partition assignment includes broker 7, but no such broker is registered."),
        (4, [[-1]], 39, "The manual partition assignment includes broker -1, but no such broker is registered."),
        (4, [[0, 0]], 39, "The manual partition assignment includes the broker 0 more than once."),
        (4, [[]], 39, "The manual partition assignment includes an empty replica list."),
        (4, [[0, 1]], 39, "The manual partition assignment includes broker 1, but no such broker is registered."),
    ],
)
def test_refused_partitions(count, assignments, code, sentence):
    assert plan_partitions(PartitionCount("cp", count, assignments), [[0]] * 3, [0]) == Refusal(code, sentence)


def test_partitions_that_may_be_added():
    assert plan_partitions(PartitionCount("cp", 5), [[0]] * 3, [0]) == [[0], [0]]
    assert plan_partitions(PartitionCount("cp", 4, [[0]]), [[0]] * 3, [0]) == [[0]]
    assert plan_partitions(PartitionCount("cp", 10_003), [[0]] * 3, [0]) == [[0]] * 10_000


def test_partitions_of_a_topic_that_is_not_there():
    assert plan_partitions(PartitionCount("nope", 5), None, [0]) == Refusal(3, None)


def test_partitions_per_request_are_bounded():
    assert too_many_partitions([NewTopic("a", 6000), NewTopic("b", 6000)], DEFAULTS)
    assert too_many_partitions([NewTopic("a", 9997), NewTopic("b")], DEFAULTS)
    assert not too_many_partitions([NewTopic("a", 9996), NewTopic("b"), NewTopic("c", -7)], DEFAULTS)


def test_a_topic_has_as_many_replicas_of_new_partitions_as_of_its_first():
    one = [[0, 1]]
    assert plan_partitions(PartitionCount("cp", 2, [[1, 0]]), one, [0, 1]) == [[1, 0]]
    assert plan_partitions(PartitionCount("cp", 2), one, [0, 1]) == [[1, 0]]
    assert plan_partitions(PartitionCount("cp", 2, [[1]]), one, [0, 1]).code == 39
    assert plan_partitions(PartitionCount("cp", 2), [[0, 1, 2]], [0, 1]).code == 38


def test_settings_of_a_topic_have_the_room_of_its_row():
    """What is allowed has to fit, and what fits is allowed."""
    assert BIGGEST_BLOB_BYTES == MAX_OVERRIDES_BYTES == 3584
