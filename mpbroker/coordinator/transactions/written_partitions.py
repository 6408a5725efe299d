"""Produce 12 and TxnOffsetCommit 5: what a transaction of version 2 writes to is added by the write (KIP-890). Runs in
the coordinator process. Older Produce requests only ask whether it was added; in a cluster who leads the partition asks
the broker that coordinates the transaction.

A producer goes on as soon as the end of its last transaction is decided, so its first write often meets markers that
are still being written. That takes a millisecond or two, and the write waits for it, as it does in Kafka.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from mpbroker.coordinator.effects import GiveBack, GroupRequest, Now
from mpbroker.coordinator.transactions.add_partitions import add, verify_added
from mpbroker.coordinator.transactions.transaction import RAISES_EPOCHS, Partition
from mpbroker.coordinator.transactions.transaction_environment import TransactionEnvironment
from mpbroker.coordinator.transactions.transaction_shard import TransactionShard
from mpbroker.coordinator.transactions.transitions import Producer
from mpbroker.errors import ErrorCode
from mpbroker.protocol.messages.produce import ProduceRequest
from mpbroker.record.record_batch import is_transactional, producer_of

RETRY_MS, PATIENCE_MS = 2, 100  # Kafka's broker tries again for 100 ms, then the client does
ABORTABLE_SINCE, ADDS_PARTITIONS_SINCE = 11, 12  # versions of Produce
#: The coordinator was not to be had; a producer sends its batch again.
_TRIED_AGAIN: Final = frozenset(
    {
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.REQUEST_TIMED_OUT,
    }
)


def add_written(
    env: TransactionEnvironment,
    shard_of: Callable[[str], TransactionShard | None],
    transactional_id: str,
    producer: Producer,
    partitions: frozenset[Partition],
    now: Now,
    then: Callable[[int, Now], None],
    verify_only: bool = False,
) -> None:
    """Add partitions, as soon as the last transaction is over; `then(code, now)` with the codes of the write.
    `verify_only`: a producer of version 1 has added them before, or must not write there."""
    until_ms = now.ms + PATIENCE_MS

    def attempt(present: Now) -> None:
        shard = shard_of(transactional_id)
        if shard is None and env.in_cluster:
            env.ask_coordinator(transactional_id, producer, partitions, verify_only, answered)
        elif verify_only:
            verify_added(shard, transactional_id, producer, partitions, present, answered)
        else:
            add(shard, transactional_id, producer, partitions, present, answered, RAISES_EPOCHS)

    def answered(code: int, later: Now) -> None:
        if code == ErrorCode.CONCURRENT_TRANSACTIONS and later.ms < until_ms:
            env.timers.at(later.ms + RETRY_MS, attempt)
        else:
            is_fenced = code == ErrorCode.PRODUCER_FENCED
            then(ErrorCode.INVALID_PRODUCER_EPOCH if is_fenced else code, later)

    attempt(now)


def handle(
    env: TransactionEnvironment,
    shard_of: Callable[[str], TransactionShard | None],
    request: GroupRequest,
    message: ProduceRequest,
    now: Now,
) -> None:
    """A Produce request with a partition that knows nothing of its transaction."""
    producer, partitions = _written(env, message)

    def then(code: int, later: Now) -> None:
        env.ask(GiveBack(request, _code_for(request.version, code)))

    if producer is None:
        then(ErrorCode.INVALID_TXN_STATE, now)
    else:
        verify_only = request.version < ADDS_PARTITIONS_SINCE
        transactional_id = message.transactional_id or ""
        add_written(env, shard_of, transactional_id, producer, partitions, now, then, verify_only)


def _code_for(version: int, code: int) -> int:
    """As Kafka: what a producer tries again, and what ends its transaction."""
    if code in _TRIED_AGAIN or (code == ErrorCode.CONCURRENT_TRANSACTIONS and version < ADDS_PARTITIONS_SINCE):
        return ErrorCode.NOT_ENOUGH_REPLICAS
    if code == ErrorCode.TRANSACTION_ABORTABLE and version < ABORTABLE_SINCE:
        return ErrorCode.INVALID_TXN_STATE
    return code


def _written(env: TransactionEnvironment, message: ProduceRequest) -> tuple[Producer | None, frozenset[Partition]]:
    """The request's producer, which request handlers found to be one alone, and those of its partitions that exist."""
    producer: Producer | None = None
    partitions: set[Partition] = set()
    for topic in message.topic_data:
        for data in topic.partition_data:
            batch = data.records or b""
            if env.has_partition(topic.name, data.index) and is_transactional(batch):
                producer = Producer(*producer_of(batch))
                partitions.add((topic.name, data.index))
    return producer, frozenset(partitions)
