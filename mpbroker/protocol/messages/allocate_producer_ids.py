"""AllocateProducerIds (key 67): a broker asks the controller for a block of producer ids (KIP-730).

Shapes only; any process.
"""

from mpbroker.protocol.schema import request, response
from mpbroker.protocol.types import Int16, Int32, Int64, Struct


@request(key=67, versions=(0, 0), flexible=0)
class AllocateProducerIdsRequest(Struct):
    """Who asks."""

    broker_id: Int32 = 0
    broker_epoch: Int64 = -1


@response(key=67, versions=(0, 0), flexible=0)
class AllocateProducerIdsResponse(Struct):
    """A block that nobody else gets."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    producer_id_start: Int64 = 0
    producer_id_len: Int32 = 0
