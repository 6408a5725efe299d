"""StopReplica (key 5): the controller tells a broker to stop replicas, and perhaps to delete them.

Shapes only; any process. 1 broker epoch (KIP-380), grouped by topic · 2 flexible · 3 leader epoch and deletion for each
partition (KIP-570) · 4 KRaft controllers (KIP-866).
"""

from typing import Annotated

from mpbroker.protocol.schema import request, response
from mpbroker.protocol.types import Int16, Int32, Int64, Struct, since, until


class StopReplicaPartitionV0(Struct):
    """One partition of the oldest version."""

    topic_name: str = ""
    partition_index: Int32 = 0


class StopReplicaTopicV1(Struct):
    """The partitions of one topic, in versions 1 and 2."""

    name: str = ""
    partition_indexes: list[Int32] = []


class StopReplicaPartitionState(Struct):
    """One partition. `leader_epoch`: -1 not known, -2 the topic is being deleted."""

    partition_index: Int32 = 0
    leader_epoch: Int32 = -1
    delete_partition: bool = False


class StopReplicaTopicState(Struct):
    """The partitions of one topic."""

    topic_name: str = ""
    partition_states: list[StopReplicaPartitionState] = []


@request(key=5, versions=(0, 4), flexible=2)
class StopReplicaRequest(Struct):
    """Stop replicas."""

    controller_id: Int32 = 0
    is_kraft_controller: Annotated[bool, since(4)] = False
    controller_epoch: Int32 = 0
    broker_epoch: Annotated[Int64, since(1)] = -1
    delete_partitions: Annotated[bool, until(2)] = False
    ungrouped_partitions: Annotated[list[StopReplicaPartitionV0], until(0)] = []
    topics: Annotated[list[StopReplicaTopicV1], since(1), until(2)] = []
    topic_states: Annotated[list[StopReplicaTopicState], since(3)] = []


class StopReplicaPartitionError(Struct):
    """What became of one partition."""

    topic_name: str = ""
    partition_index: Int32 = 0
    error_code: Int16 = 0


@response(key=5, versions=(0, 4), flexible=2)
class StopReplicaResponse(Struct):
    """What became of the request, and of each partition."""

    error_code: Int16 = 0
    partition_errors: list[StopReplicaPartitionError] = []
