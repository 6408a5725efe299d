"""What a trace tells of requests of the cluster's controller: every partition that each version names, in its order."""

import pytest

from mpbroker.protocol.messages.leader_and_isr import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from mpbroker.protocol.messages.stop_replica import (
    StopReplicaPartitionState,
    StopReplicaPartitionV0,
    StopReplicaRequest,
    StopReplicaTopicState,
    StopReplicaTopicV1,
)
from mpbroker.protocol.messages.update_metadata import (
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from mpbroker.server.handlers import leader_and_isr, stop_replica, update_metadata


@pytest.fixture(params=[stop_replica, update_metadata], ids=["StopReplica", "UpdateMetadata"])
def handled(request, monkeypatch):
    """(handle, what was described, of how many partitions the agent was told)."""
    described, told = [], []
    monkeypatch.setattr(request.param, "describe_control", lambda *words: described.append(words))
    monkeypatch.setattr(request.param, "tell_agent", lambda context, asked, count, build: told.append(count))
    return request.param, described, told


def test_each_way_of_grouping_counts(handled):
    module, described, told = handled
    named = [("s", 4), ("t", 0), ("t", 1), ("u", 2)]
    if module is stop_replica:
        message = StopReplicaRequest(
            controller_epoch=8,
            ungrouped_partitions=[StopReplicaPartitionV0("s", 4)],
            topics=[StopReplicaTopicV1("t", [0, 1])],
            topic_states=[StopReplicaTopicState("u", [StopReplicaPartitionState(2)])],
        )
    else:
        states = [UpdateMetadataPartitionState(partition_index=number) for number in (0, 1)]
        message = UpdateMetadataRequest(
            controller_epoch=8,
            ungrouped_partition_states=[UpdateMetadataPartitionState(topic_name="s", partition_index=4)],
            topic_states=[
                UpdateMetadataTopicState(topic_name="t", partition_states=states),
                UpdateMetadataTopicState(
                    topic_name="u", partition_states=[UpdateMetadataPartitionState(partition_index=2)]
                ),
            ],
        )
    module.handle("context", "request", message)
    assert described == [("request", 8, named)]
    assert told == [len(named) if module is stop_replica else 0]


@pytest.mark.parametrize("grouped", [False, True])
def test_of_leader_and_isr_too(monkeypatch, grouped):
    described, told = [], []
    monkeypatch.setattr(leader_and_isr, "describe_control", lambda *words: described.append(words))
    monkeypatch.setattr(leader_and_isr, "tell_agent", lambda context, asked, count, build: told.append(count))
    states = [LeaderAndIsrPartitionState(topic_name="t", partition_index=number) for number in (3, 1)]
    if grouped:
        message = LeaderAndIsrRequest(
            controller_epoch=8, topic_states=[LeaderAndIsrTopicState(topic_name="t", partition_states=states)]
        )
    else:
        message = LeaderAndIsrRequest(controller_epoch=8, ungrouped_partition_states=states)
    leader_and_isr.handle("context", "request", message)
    assert described == [("request", 8, [("t", 3), ("t", 1)])] and told == [2]
