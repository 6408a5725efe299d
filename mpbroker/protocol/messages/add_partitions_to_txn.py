"""AddPartitionsToTxn (key 24): partitions a transaction is going to write to.

Shapes only; any process. 2 error 90 instead of 47 · 3 flexible · 4 several transactions, asked by brokers only
(KIP-890) · 5 error 120.
"""

from typing import Annotated

from mpbroker.protocol.schema import request, response
from mpbroker.protocol.types import Int16, Int32, Int64, Struct, since, until


class AddPartitionsToTxnTopic(Struct):
    """The partitions of one topic."""

    name: str = ""
    partitions: list[Int32] = []


class AddPartitionsToTxnTransaction(Struct):
    """One transaction; `verify_only`: add nothing, say whether they are there."""

    transactional_id: str = ""
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    verify_only: bool = False
    topics: list[AddPartitionsToTxnTopic] = []


@request(key=24, versions=(0, 5), flexible=3)
class AddPartitionsToTxnRequest(Struct):
    """Up to version 3 of one transaction, the producer's own."""

    transactions: Annotated[list[AddPartitionsToTxnTransaction], since(4)] = []
    v3_and_below_transactional_id: Annotated[str, until(3)] = ""
    v3_and_below_producer_id: Annotated[Int64, until(3)] = 0
    v3_and_below_producer_epoch: Annotated[Int16, until(3)] = 0
    v3_and_below_topics: Annotated[list[AddPartitionsToTxnTopic], until(3)] = []


class AddPartitionsToTxnPartitionResult(Struct):
    """What became of one partition."""

    partition_index: Int32 = 0
    partition_error_code: Int16 = 0


class AddPartitionsToTxnTopicResult(Struct):
    """The partitions of one topic."""

    name: str = ""
    results_by_partition: list[AddPartitionsToTxnPartitionResult] = []


class AddPartitionsToTxnResult(Struct):
    """One transaction."""

    transactional_id: str = ""
    topic_results: list[AddPartitionsToTxnTopicResult] = []


@response(key=24, versions=(0, 5), flexible=3)
class AddPartitionsToTxnResponse(Struct):
    """One code for each partition."""

    throttle_time_ms: Int32 = 0
    error_code: Annotated[Int16, since(4)] = 0
    results_by_transaction: Annotated[list[AddPartitionsToTxnResult], since(4)] = []
    results_by_topic_v3_and_below: Annotated[list[AddPartitionsToTxnTopicResult], until(3)] = []
