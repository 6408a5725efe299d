"""InitProducerId (key 22): give a producer its id and epoch.

Shapes only; any process. 2 flexible · 3 the producer's present id and epoch (KIP-360) · 4 error 90 instead of 47.
"""

from typing import Annotated

from mpbroker.protocol.schema import request, response
from mpbroker.protocol.types import Int16, Int32, Int64, Struct, since


@request(key=22, versions=(0, 5), flexible=2)
class InitProducerIdRequest(Struct):
    """Ask for a producer id; without a transactional id for idempotence alone."""

    transactional_id: str | None = ""
    transaction_timeout_ms: Int32 = 0
    producer_id: Annotated[Int64, since(3)] = -1
    producer_epoch: Annotated[Int16, since(3)] = -1


@response(key=22, versions=(0, 5), flexible=2)
class InitProducerIdResponse(Struct):
    """The id and epoch to put into batches."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    producer_id: Int64 = -1
    producer_epoch: Int16 = 0
