"""UpdateMetadata (key 6): the controller tells a broker what it is to answer Metadata with.

Shapes only; any process. 1 endpoints · 2 racks · 3 listener names · 4 offline replicas · 5 broker epoch (KIP-380),
grouped by topic · 6 flexible · 7 topic ids (KIP-516) · 8 KRaft controllers, type (KIP-866).
"""

from typing import Annotated

from mpbroker.protocol.schema import request, response
from mpbroker.protocol.types import ZERO_UUID, Int8, Int16, Int32, Int64, Struct, Uuid, since, tagged, until


class UpdateMetadataPartitionState(Struct):
    """One partition. `leader`: -1 none, -2 its topic is being deleted. `zk_version`: the partition epoch."""

    topic_name: Annotated[str, until(4)] = ""
    partition_index: Int32 = 0
    controller_epoch: Int32 = 0
    leader: Int32 = 0
    leader_epoch: Int32 = 0
    isr: list[Int32] = []
    zk_version: Int32 = 0
    replicas: list[Int32] = []
    offline_replicas: Annotated[list[Int32], since(4)] = []


class UpdateMetadataTopicState(Struct):
    """The partitions of one topic."""

    topic_name: str = ""
    topic_id: Annotated[Uuid, since(7)] = ZERO_UUID
    partition_states: list[UpdateMetadataPartitionState] = []


class UpdateMetadataEndpoint(Struct):
    """Where a broker is reached on one listener. `security_protocol`: 0 PLAINTEXT."""

    port: Int32 = 0
    host: str = ""
    listener: Annotated[str, since(3)] = ""
    security_protocol: Int16 = 0


class UpdateMetadataBroker(Struct):
    """A broker that lives."""

    id: Int32 = 0
    v0_host: Annotated[str, until(0)] = ""
    v0_port: Annotated[Int32, until(0)] = 0
    endpoints: Annotated[list[UpdateMetadataEndpoint], since(1)] = []
    rack: Annotated[str | None, since(2)] = ""


@request(key=6, versions=(0, 8), flexible=6)
class UpdateMetadataRequest(Struct):
    """Partitions that changed, and all brokers that live."""

    controller_id: Int32 = 0
    is_kraft_controller: Annotated[bool, since(8)] = False
    type: Annotated[Int8, since(8), tagged(0)] = 0
    controller_epoch: Int32 = 0
    broker_epoch: Annotated[Int64, since(5)] = -1
    ungrouped_partition_states: Annotated[list[UpdateMetadataPartitionState], until(4)] = []
    topic_states: Annotated[list[UpdateMetadataTopicState], since(5)] = []
    live_brokers: list[UpdateMetadataBroker] = []


@response(key=6, versions=(0, 8), flexible=6)
class UpdateMetadataResponse(Struct):
    """What became of the request."""

    error_code: Int16 = 0
