"""AddOffsetsToTxn (key 25): a group whose offsets a transaction is going to commit.

Shapes only; any process. 2 error 90 instead of 47 · 3 flexible · 4 error 120.
"""

from mpbroker.protocol.schema import request, response
from mpbroker.protocol.types import Int16, Int32, Int64, Struct


@request(key=25, versions=(0, 4), flexible=3)
class AddOffsetsToTxnRequest(Struct):
    """Add the group's partition of `__consumer_offsets`."""

    transactional_id: str = ""
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    group_id: str = ""


@response(key=25, versions=(0, 4), flexible=3)
class AddOffsetsToTxnResponse(Struct):
    """Whether it was added."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
