"""StopReplica: handed to the agent, answered for every partition by name, in each way of grouping them."""

import zlib
from array import array

import pytest

from mpbroker.metadata.commands import ControlAnswer
from mpbroker.protocol.messages.stop_replica import (
    StopReplicaPartitionState,
    StopReplicaPartitionV0,
    StopReplicaRequest,
    StopReplicaTopicState,
    StopReplicaTopicV1,
)
from tests.harness.in_process_broker import InProcessBroker
from tests.harness.in_process_controller import InProcessController


def a_request(version):
    if version == 0:
        return StopReplicaRequest(ungrouped_partitions=[StopReplicaPartitionV0("t", 0), StopReplicaPartitionV0("t", 1)])
    if version < 3:
        return StopReplicaRequest(topics=[StopReplicaTopicV1("t", [0, 1])], delete_partitions=True)
    states = [StopReplicaPartitionState(0, 3, True), StopReplicaPartitionState(1)]
    return StopReplicaRequest(topic_states=[StopReplicaTopicState("t", states)])


@pytest.mark.parametrize("version", range(5))
def test_each_partition_has_its_code(tmp_path, version):
    broker = InProcessBroker(tmp_path, replicated=True)
    controller, message = InProcessController(broker), a_request(version)
    broker.send(message, version)
    broker.step()
    number, _ = controller.take()
    controller.answer(number, ControlAnswer(0, zlib.compress(array("h", [0, 74]).tobytes())))
    broker.step()
    [(_, _, frame)] = broker.collect()
    found = broker.decode(message, version, frame).partition_errors
    assert [(one.topic_name, one.partition_index, one.error_code) for one in found] == [("t", 0, 0), ("t", 1, 74)]
