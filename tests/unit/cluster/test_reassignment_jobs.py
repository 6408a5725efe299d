"""Moves of partitions between brokers, step by step."""

import pytest

from mpbroker.errors import ErrorCode
from mpbroker.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from mpbroker.protocol.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from tests.unit.cluster.controller_bench import ControllerBench, alter, elect, roles, stops


def move(bench, replicas, number=0, topic="t"):
    wanted = ReassignableTopic(
        name=topic, partitions=[ReassignablePartition(partition_index=number, replicas=replicas)]
    )
    answer = bench.ask(AlterPartitionReassignmentsRequest(topics=[wanted]))
    return answer.responses[0].partitions[0].error_code


def moving(bench):
    answer = bench.ask(ListPartitionReassignmentsRequest(topics=None))
    return [(p.replicas, p.adding_replicas, p.removing_replicas) for topic in answer.topics for p in topic.partitions]


class TestReassignment:
    @pytest.fixture
    def bench(self):
        return ControllerBench(brokers=(1, 2, 3, 4))

    def test_a_move_from_begin_to_end(self, bench):
        topic = bench.create(assignments=([1, 2],))
        bench.take_sent()
        assert move(bench, [3, 4]) == 0
        assert moving(bench) == [([3, 4, 1, 2], [3, 4], [1, 2])]
        assert bench.state(topic)[:3] == (1, 1, [1, 2])
        assert roles(bench.take_sent()) == [
            (1, 0, 1, 1, (1, 2), False),
            (2, 0, 1, 1, (1, 2), False),
            (3, 0, 1, 1, (1, 2), True),
            (4, 0, 1, 1, (1, 2), True),
        ]
        alter(bench, topic, [1, 2, 3])
        assert moving(bench)
        alter(bench, topic, [1, 2, 3, 4])
        assert moving(bench) == []
        assert bench.state(topic)[:3] == (3, 2, [3, 4])
        sent = bench.take_sent()
        assert roles(sent) == [(3, 0, 3, 2, (3, 4), False), (4, 0, 3, 2, (3, 4), False)]
        assert stops(sent) == [(1, 0, 2, True), (2, 0, 2, True)]

    def test_a_move_goes_on_under_the_next_controller(self, bench):
        topic = bench.create(assignments=([1, 2],))
        move(bench, [3, 2])
        bench.elect()
        assert moving(bench) == [([3, 2, 1], [3], [1])]
        alter(bench, topic, [1, 2, 3])
        assert bench.state(topic)[0::2] == (3, [3, 2])
        assert moving(bench) == []

    def test_cancelling(self, bench):
        topic = bench.create(assignments=([1, 2],))
        assert move(bench, None) == ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
        move(bench, [3, 4])
        alter(bench, topic, [1, 2, 3])
        bench.take_sent()
        assert move(bench, None) == 0
        assert moving(bench) == []
        assert bench.state(topic)[0::2] == (1, [1, 2])
        assert stops(bench.take_sent()) == [(3, 0, 2, True), (4, 0, 2, True)]

    def test_another_target_on_the_way(self, bench):
        bench.create(assignments=([1, 2],))
        move(bench, [3, 2])
        bench.take_sent()
        assert move(bench, [4, 2]) == 0
        assert moving(bench) == [([4, 2, 1], [4], [1])]
        assert stops(bench.take_sent()) == [(3, 0, 2, True)]

    def test_refusals(self, bench):
        bench.create(assignments=([1, 2],))
        for replicas in ([], [1, 1], [1, 9], [-1]):
            assert move(bench, replicas) == ErrorCode.INVALID_REPLICA_ASSIGNMENT
        assert move(bench, [1], number=5) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert move(bench, [1], topic="u") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def test_fewer_replicas_and_another_order(self, bench):
        topic = bench.create(assignments=([1, 2, 3],))
        move(bench, [2, 1])
        assert moving(bench) == [] and bench.state(topic)[0] == 1
        assert elect(bench) == [(0, 0)] and bench.state(topic)[0::2] == (2, [1, 2])
