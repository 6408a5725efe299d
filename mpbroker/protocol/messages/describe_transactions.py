"""DescribeTransactions (key 65): what transactions are doing (KIP-664). Shapes only; any process."""

from mpbroker.protocol.schema import request, response
from mpbroker.protocol.types import Int16, Int32, Int64, Struct


@request(key=65, versions=(0, 0), flexible=0)
class DescribeTransactionsRequest(Struct):
    """Transactional ids."""

    transactional_ids: list[str] = []


class TopicData(Struct):
    """The partitions of one topic that take part."""

    topic: str = ""
    partitions: list[Int32] = []


class TransactionState(Struct):
    """One transactional id; the start time is -1 while no transaction is on."""

    error_code: Int16 = 0
    transactional_id: str = ""
    transaction_state: str = ""
    transaction_timeout_ms: Int32 = 0
    transaction_start_time_ms: Int64 = 0
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    topics: list[TopicData] = []


@response(key=65, versions=(0, 0), flexible=0)
class DescribeTransactionsResponse(Struct):
    """One row for each id."""

    throttle_time_ms: Int32 = 0
    transaction_states: list[TransactionState] = []
