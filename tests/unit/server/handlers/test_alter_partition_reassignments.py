"""AlterPartitionReassignments: where partitions are they may stay, and nowhere else."""

import pytest

from mpbroker.errors import ErrorCode
from mpbroker.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from tests.harness.in_process_broker import InProcessBroker


@pytest.mark.parametrize(
    ("topic", "number", "replicas", "code"),
    [
        ("t", 0, [0], ErrorCode.NONE),
        ("t", 0, None, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS),
        ("t", 0, [1], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ("t", 0, [0, 0], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ("t", 0, [], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ("t", 1, None, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("u", 0, [0], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
def test_a_partition_stays_on_its_one_broker(tmp_path, topic, number, replicas, code):
    broker = InProcessBroker(tmp_path, **{"node.id": "0"})
    broker.create_topic("t")
    partitions = [ReassignablePartition(partition_index=number, replicas=replicas)]
    asked = AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(name=topic, partitions=partitions)])
    answer = broker.call(asked, 0)
    [found] = answer.responses[0].partitions
    assert (answer.error_code, found.partition_index, found.error_code) == (0, number, code)
    assert bool(found.error_message) == (code not in (ErrorCode.NONE, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS))


@pytest.mark.parametrize(("topics", "sentence"), [([], ""), ([ReassignableTopic(name="t", partitions=[])], None)])
def test_where_nothing_was_asked_for_kafka_says_so_with_an_empty_sentence(tmp_path, topics, sentence):
    answer = InProcessBroker(tmp_path).call(AlterPartitionReassignmentsRequest(topics=topics), 0)
    assert (answer.error_code, answer.error_message) == (0, sentence)
