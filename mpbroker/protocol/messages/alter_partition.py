"""AlterPartition (key 56): a leader asks the controller to change a partition's in-sync replicas (KIP-497).

Shapes only; any process. 1 leader recovery state (KIP-704) · 2 topic ids · 3 broker epochs of the ISR (KIP-903).
"""

from typing import Annotated

from mpbroker.protocol.schema import request, response
from mpbroker.protocol.types import ZERO_UUID, Int8, Int16, Int32, Int64, Struct, Uuid, since, until


class BrokerState(Struct):
    """A member of the new ISR and the epoch of its registration; -1: not known."""

    broker_id: Int32 = 0
    broker_epoch: Int64 = -1


class AlterPartitionPartition(Struct):
    """One partition and the ISR that its leader wants, based on `partition_epoch`."""

    partition_index: Int32 = 0
    leader_epoch: Int32 = 0
    new_isr: Annotated[list[Int32], until(2)] = []
    new_isr_with_epochs: Annotated[list[BrokerState], since(3)] = []
    leader_recovery_state: Annotated[Int8, since(1)] = 0
    partition_epoch: Int32 = 0


class AlterPartitionTopic(Struct):
    """The partitions of one topic."""

    topic_name: Annotated[str, until(1)] = ""
    topic_id: Annotated[Uuid, since(2)] = ZERO_UUID
    partitions: list[AlterPartitionPartition] = []


@request(key=56, versions=(0, 3), flexible=0)
class AlterPartitionRequest(Struct):
    """Change in-sync replicas."""

    broker_id: Int32 = 0
    broker_epoch: Int64 = -1
    topics: list[AlterPartitionTopic] = []


class AlterPartitionPartitionResult(Struct):
    """One partition as the controller has it now."""

    partition_index: Int32 = 0
    error_code: Int16 = 0
    leader_id: Int32 = 0
    leader_epoch: Int32 = 0
    isr: list[Int32] = []
    leader_recovery_state: Annotated[Int8, since(1)] = 0
    partition_epoch: Int32 = 0


class AlterPartitionTopicResult(Struct):
    """The partitions of one topic."""

    topic_name: Annotated[str, until(1)] = ""
    topic_id: Annotated[Uuid, since(2)] = ZERO_UUID
    partitions: list[AlterPartitionPartitionResult] = []


@response(key=56, versions=(0, 3), flexible=0)
class AlterPartitionResponse(Struct):
    """What became of the request, and of each partition."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    topics: list[AlterPartitionTopicResult] = []
