"""ListPartitionReassignments: nothing moves."""

import pytest

from mpbroker.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from tests.harness.in_process_broker import InProcessBroker


@pytest.mark.parametrize("names", [None, [], ["t", "nowhere"]])
def test_nothing_moves_whatever_is_asked(tmp_path, names):
    broker = InProcessBroker(tmp_path)
    broker.create_topic("t")
    topics = names and [ListPartitionReassignmentsTopics(name=name, partition_indexes=[0, 9]) for name in names]
    answer = broker.call(ListPartitionReassignmentsRequest(topics=topics), 0)
    assert (answer.error_code, answer.error_message, answer.topics) == (0, None, [])
