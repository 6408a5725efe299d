"""EndTxn (key 26): commit or abort a transaction.

Shapes only; any process. 2 error 90 instead of 47 · 3 flexible · 4 error 120 · 5 the next epoch (KIP-890).
"""

from typing import Annotated

from mpbroker.protocol.schema import request, response
from mpbroker.protocol.types import Int16, Int32, Int64, Struct, since


@request(key=26, versions=(0, 5), flexible=3)
class EndTxnRequest(Struct):
    """The decision."""

    transactional_id: str = ""
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    committed: bool = False


@response(key=26, versions=(0, 5), flexible=3)
class EndTxnResponse(Struct):
    """Whether it was taken; from version 5 on, with which id and epoch the producer goes on."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    producer_id: Annotated[Int64, since(5)] = -1
    producer_epoch: Annotated[Int16, since(5)] = -1
