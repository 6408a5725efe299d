"""ControlledShutdown (key 7): a broker that wants to stop asks the controller to move what it leads.

Shapes only; any process. 2 broker epoch (KIP-380) · 3 flexible.
"""

from typing import Annotated

from mpbroker.protocol.schema import request, response
from mpbroker.protocol.types import Int16, Int32, Int64, Struct, since


@request(key=7, versions=(0, 3), flexible=3)
class ControlledShutdownRequest(Struct):
    """Who wants to stop."""

    broker_id: Int32 = 0
    broker_epoch: Annotated[Int64, since(2)] = -1


class RemainingPartition(Struct):
    """A partition that the broker still leads."""

    topic_name: str = ""
    partition_index: Int32 = 0


@response(key=7, versions=(0, 3), flexible=3)
class ControlledShutdownResponse(Struct):
    """What it still leads; nothing: it may stop."""

    error_code: Int16 = 0
    remaining_partitions: list[RemainingPartition] = []
