"""LeaderAndIsr (key 4): the controller tells a broker which partitions it leads or follows.

Shapes only; any process. 1 new partitions · 2 broker epoch (KIP-380), grouped by topic · 3 reassignment (KIP-455) · 4
flexible · 5 topic ids (KIP-516), type · 6 leader recovery state (KIP-704) · 7 KRaft controllers (KIP-866).
"""

from typing import Annotated

from mpbroker.protocol.schema import request, response
from mpbroker.protocol.types import ZERO_UUID, Int8, Int16, Int32, Int64, Struct, Uuid, since, until


class LeaderAndIsrPartitionState(Struct):
    """One partition: who leads it since which epoch, who follows. `is_new`: its log may be created."""

    topic_name: Annotated[str, until(1)] = ""
    partition_index: Int32 = 0
    controller_epoch: Int32 = 0
    leader: Int32 = 0
    leader_epoch: Int32 = 0
    isr: list[Int32] = []
    partition_epoch: Int32 = 0
    replicas: list[Int32] = []
    adding_replicas: Annotated[list[Int32], since(3)] = []
    removing_replicas: Annotated[list[Int32], since(3)] = []
    is_new: Annotated[bool, since(1)] = False
    leader_recovery_state: Annotated[Int8, since(6)] = 0


class LeaderAndIsrTopicState(Struct):
    """The partitions of one topic."""

    topic_name: str = ""
    topic_id: Annotated[Uuid, since(5)] = ZERO_UUID
    partition_states: list[LeaderAndIsrPartitionState] = []


class LeaderAndIsrLiveLeader(Struct):
    """The address of a broker that leads one of the partitions."""

    broker_id: Int32 = 0
    host_name: str = ""
    port: Int32 = 0


@request(key=4, versions=(0, 7), flexible=4)
class LeaderAndIsrRequest(Struct):
    """Become leader or follower. `type`: 1 some partitions, 2 all that the broker has (KIP-866)."""

    controller_id: Int32 = 0
    is_kraft_controller: Annotated[bool, since(7)] = False
    controller_epoch: Int32 = 0
    broker_epoch: Annotated[Int64, since(2)] = -1
    type: Annotated[Int8, since(5)] = 0
    ungrouped_partition_states: Annotated[list[LeaderAndIsrPartitionState], until(1)] = []
    topic_states: Annotated[list[LeaderAndIsrTopicState], since(2)] = []
    live_leaders: list[LeaderAndIsrLiveLeader] = []


class LeaderAndIsrPartitionError(Struct):
    """What became of one partition."""

    topic_name: Annotated[str, until(4)] = ""
    partition_index: Int32 = 0
    error_code: Int16 = 0


class LeaderAndIsrTopicError(Struct):
    """The partitions of one topic."""

    topic_id: Uuid = ZERO_UUID
    partition_errors: list[LeaderAndIsrPartitionError] = []


@response(key=4, versions=(0, 7), flexible=4)
class LeaderAndIsrResponse(Struct):
    """What became of the request, and of each partition."""

    error_code: Int16 = 0
    partition_errors: Annotated[list[LeaderAndIsrPartitionError], until(4)] = []
    topics: Annotated[list[LeaderAndIsrTopicError], since(5)] = []
