"""ListTransactions (key 66): the transactional ids of a broker (KIP-664).

Shapes only; any process. 1 least duration (KIP-994) · 2 pattern (KIP-1152).
"""

from typing import Annotated

from mpbroker.protocol.schema import request, response
from mpbroker.protocol.types import Int16, Int32, Int64, Struct, since


@request(key=66, versions=(0, 2), flexible=0)
class ListTransactionsRequest(Struct):
    """Filters; an empty one takes all, -1: of any duration."""

    state_filters: list[str] = []
    producer_id_filters: list[Int64] = []
    duration_filter: Annotated[Int64, since(1)] = -1
    transactional_id_pattern: Annotated[str | None, since(2)] = None


class TransactionState(Struct):
    """One transactional id."""

    transactional_id: str = ""
    producer_id: Int64 = 0
    transaction_state: str = ""


@response(key=66, versions=(0, 2), flexible=0)
class ListTransactionsResponse(Struct):
    """The ids that pass, and filters that name no state."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    unknown_state_filters: list[str] = []
    transaction_states: list[TransactionState] = []
