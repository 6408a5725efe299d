"""CreatePartitions: the command that the controller gets and the results."""

import pytest

from mpbroker.errors import ErrorCode
from mpbroker.metadata.commands import CreatePartitions, PartitionCount, TopicResult, TopicResults
from mpbroker.protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from tests.harness.in_process_broker import InProcessBroker
from tests.harness.in_process_controller import InProcessController


@pytest.mark.parametrize("validate_only", [False, True])
def test_counts_and_assignments_reach_the_controller(tmp_path, validate_only):
    broker = InProcessBroker(tmp_path)
    controller = InProcessController(broker)
    chosen = CreatePartitionsTopic(name="b", count=4, assignments=[CreatePartitionsAssignment(broker_ids=[0])])
    message = CreatePartitionsRequest(
        topics=[CreatePartitionsTopic(name="a", count=3, assignments=None), chosen],
        timeout_ms=1000,
        validate_only=validate_only,
    )
    broker.send(message, 1)
    broker.step()
    done = TopicResults([TopicResult("a"), TopicResult("b", ErrorCode.INVALID_PARTITIONS, "too few")])
    assert controller.serve(done) == [
        CreatePartitions([PartitionCount("a", 3), PartitionCount("b", 4, [[0]])], validate_only=validate_only)
    ]
    [(_, _, frame)] = broker.collect()
    results = broker.decode(message, 1, frame).results
    assert [(one.name, one.error_code, one.error_message) for one in results] == [
        ("a", 0, None),
        ("b", ErrorCode.INVALID_PARTITIONS, "too few"),
    ]
