"""Moves of partitions: each partition's own answer, many of them over a store that takes few operations, and what
becomes of a move that something else forestalled."""

import pytest

from mpbroker.errors import ERRORS, ErrorCode
from mpbroker.metadata.cluster_records import PartitionRecord
from mpbroker.metadata.meta_store import Put
from mpbroker.metadata.topic_record import TopicRecord, decode_record, encode_record
from mpbroker.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from mpbroker.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from tests.unit.cluster.controller_bench import ControllerBench, alter, stateless


@pytest.fixture
def bench():
    return ControllerBench(brokers=(1, 2, 3, 4))


def move(bench, name="t", **wanted):
    """Replicas of partitions p0, p1 …; (partition, code, sentence) of each."""
    asked = [ReassignablePartition(partition_index=int(key[1:]), replicas=to) for key, to in wanted.items()]
    answer = bench.ask(AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(name=name, partitions=asked)]))
    [topic] = answer.responses
    assert topic.name == name
    return [(one.partition_index, one.error_code, one.error_message) for one in topic.partitions]


def moving(bench, **topics):
    """{topic: (partition, replicas, adding, removing)}; without names of all."""
    asked = [ListPartitionReassignmentsTopics(name=name, partition_indexes=list(n)) for name, n in topics.items()]
    answer = bench.ask(ListPartitionReassignmentsRequest(topics=asked or None))
    return {
        topic.name: [(p.partition_index, p.replicas, p.adding_replicas, p.removing_replicas) for p in topic.partitions]
        for topic in answer.topics
    }


def test_each_partition_has_its_own_answer_in_the_order_of_the_request(bench):
    bench.create(assignments=([1, 2], [2, 1], [1, 2]))
    invalid = ErrorCode.INVALID_REPLICA_ASSIGNMENT
    none = ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
    found = move(bench, p2=[3, 2], p7=[1], p0=[], p1=None)
    assert found == [
        (2, 0, None),
        (7, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The partition does not exist."),
        (0, invalid, "Empty replica list specified in partition reassignment."),
        (1, none, ERRORS[none].sentence),
    ]
    assert moving(bench) == {"t": [(2, [3, 2, 1], [3], [1])]}
    assert move(bench, p0=[1, 2, 1]) == [
        (0, invalid, "Duplicate replica ids in partition reassignment replica list: [1, 2, 1]")
    ]
    assert move(bench, p0=[1, -1]) == [(0, invalid, "Invalid broker id in replica list: [1, -1]")]
    assert move(bench, p0=[1, 9]) == [
        (0, invalid, "Replica assignment has brokers that are not alive. Replica list: [1, 9]")
    ]
    unknown = [(0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The partition does not exist.")]
    assert move(bench, "u", p0=[1]) == unknown
    assert move(bench, **{"p-1": [1]}) == [(-1, *unknown[0][1:])]


def test_the_partition_behind_the_last_is_none_and_all_brokers_may_hold_one(bench):
    bench.create(assignments=([1, 2],))
    unknown = (1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The partition does not exist.")
    assert move(bench, p0=[4, 3, 2, 1], p1=[1]) == [(0, 0, None), unknown]
    assert moving(bench) == {"t": [(0, [4, 3, 2, 1], [4, 3], [])]}


def test_broker_0_is_a_broker():
    bench = ControllerBench(brokers=(0, 1))
    bench.create(assignments=([1],))
    assert move(bench, p0=[0]) == [(0, 0, None)]


def test_a_move_to_where_a_partition_is_already_or_is_moving_to_changes_nothing(bench):
    bench.create(assignments=([1, 2],))
    before = bench.store.revision()
    assert move(bench, p0=[1, 2]) == [(0, 0, None)] and bench.store.revision() == before
    move(bench, p0=[3, 2])
    before = bench.store.revision()
    assert move(bench, p0=[3, 2]) == [(0, 0, None)] and bench.store.revision() == before
    assert moving(bench) == {"t": [(0, [3, 2, 1], [3], [1])]}


def test_a_move_back_is_the_end_of_a_move(bench):
    """Asked for by the old replicas, or cancelled; also when replicas only leave or only join."""
    topic = bench.create(assignments=([1, 2],))
    for replicas, back in (([3, 2], [1, 2]), ([3, 2], None), ([1, 2, 3], None), ([2, 1, 4], None)):
        assert move(bench, p0=replicas)[0][1] == 0 and moving(bench)
        assert move(bench, p0=back) == [(0, 0, None)]
        assert moving(bench) == {} and sorted(bench.controller.image.topics[topic].assignments[0].replicas) == [1, 2]


def test_replicas_that_only_leave_leave_at_once(bench):
    topic = bench.create(assignments=([1, 2, 3],))
    assert move(bench, p0=[3, 1]) == [(0, 0, None)]
    assert moving(bench) == {} and bench.state(topic)[0::2] == (1, [1, 3])
    assert bench.controller.image.topics[topic].assignments[0].replicas == (3, 1)


def test_a_partition_that_nobody_ever_led_or_whose_in_sync_replicas_would_all_go_is_not_moved(bench):
    stateless(bench)
    sentence = "None of the replicas that would stay is alive and in sync."
    refused = [(0, ErrorCode.INVALID_REPLICA_ASSIGNMENT, sentence)]
    assert move(bench, "stateless", p0=[1]) == refused
    topic = bench.create(assignments=([1, 2, 3],))
    move(bench, p0=[4, 2])
    alter(bench, topic, [1])
    state = bench.state(topic)
    assert move(bench, p0=None)[0][1] == 0
    gone = PartitionRecord(1, state[1] + 2, [1], 1)
    moved = TopicRecord(topic.hex(), "t", [[2, 3, 1]], 1, adding=[[1]], removing=[[]])
    ops = [Put(bench.keys.partition(topic, 0), encode_record(gone)), Put(bench.keys.topic(topic), encode_record(moved))]
    bench.store.txn([], ops, tag="")
    bench.watch(settle=False)
    assert bench.state(topic)[2] == [1] and bench.controller.image.topics[topic].assignments[0].adding == (1,)
    assert move(bench, p0=None) == refused, "only who joins is in sync"


def test_many_moves_take_several_transactions_each_with_the_topics_record():
    bench = ControllerBench(brokers=(1, 2, 3), max_operations=8)
    topic = bench.create(assignments=[[1, 2]] * 9)
    before = len(bench.txns)
    found = move(bench, **{f"p{number}": [3, 2] for number in range(9)})
    assert found == [(number, 0, None) for number in range(9)]
    written = [[op.key for op in txn.ops] for txn in bench.txns[before:]]
    assert len(written) > 1 and all(keys.count(bench.keys.topic(topic)) == 1 for keys in written)
    assert moving(bench) == {"t": [(number, [3, 2, 1], [3], [1]) for number in range(9)]}
    assert [bench.state(topic, number)[:3] for number in range(9)] == [(1, 1, [1, 2])] * 9, "begun once"
    key = bench.keys.topic(topic)
    record = decode_record(TopicRecord, bench.store.get(key)[1].value, key)
    assert (record.adding, record.removing) == ([[3]] * 9, [[1]] * 9)


def test_a_move_that_a_change_forestalled_is_begun_upon_that(bench):
    topic = bench.create(assignments=([1, 2], [1, 2]))
    forestalled = PartitionRecord(1, 0, [1], 1)
    bench.store.txn([], [Put(bench.keys.partition(topic, 0), encode_record(forestalled))], tag="")  # not seen yet
    assert move(bench, p1=[3, 2], p0=[3, 1], p5=[1]) == [
        (1, 0, None), (0, 0, None), (5, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The partition does not exist."),
    ]  # fmt: skip
    assert moving(bench) == {"t": [(0, [3, 1, 2], [3], [2]), (1, [3, 2, 1], [3], [1])]}
    assert bench.state(topic, 0)[:3] == (1, 1, [1])


def test_moves_are_listed_by_name_and_number(bench):
    for name in ("b", "a", "c"):
        bench.create(name, ([1, 2], [1, 2], [1, 2]))
    for name in ("b", "a"):
        move(bench, name, p0=[3, 2], p2=[1, 4])
    rows = [(0, [3, 2, 1], [3], [1]), (2, [1, 4, 2], [4], [2])]
    assert moving(bench) == {"a": rows, "b": rows} and list(moving(bench)) == ["a", "b"]
    assert moving(bench, b=[0, 1], c=[0], d=[0]) == {"b": rows[:1]}
    assert moving(bench, a=[2]) == {"a": rows[1:]} and moving(bench, a=[1]) == {}
