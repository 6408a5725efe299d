"""Produce 12 and TxnOffsetCommit 5: what a transaction of version 2 writes to is added by the write (KIP-890). Runs in
the coordinator process.

A producer goes on as soon as the end of its last transaction is decided, so its first write often meets markers that
are still being written. That takes a millisecond or two, and the write waits for it, as it does in Kafka.
"""

from __future__ import annotations

from collections.abc import Callable

from mpbroker.coordinator.effects import GiveBack, GroupRequest, Now
from mpbroker.coordinator.transactions.add_partitions import add
from mpbroker.coordinator.transactions.transaction import RAISES_EPOCHS, Partition
from mpbroker.coordinator.transactions.transaction_environment import TransactionEnvironment
from mpbroker.coordinator.transactions.transaction_shard import TransactionShard
from mpbroker.coordinator.transactions.transitions import Producer
from mpbroker.errors import ErrorCode
from mpbroker.protocol.messages.produce import ProduceRequest
from mpbroker.record.record_batch import is_transactional, producer_of

RETRY_MS, PATIENCE_MS = 2, 100  # Kafka's broker tries again for 100 ms, then the client does


def add_written(
    env: TransactionEnvironment,
    shard_of: Callable[[str], TransactionShard | None],
    transactional_id: str,
    producer: Producer,
    partitions: frozenset[Partition],
    now: Now,
    then: Callable[[int, Now], None],
) -> None:
    """Add partitions, as soon as the last transaction is over; `then(code, now)` with the codes of the write."""
    until_ms = now.ms + PATIENCE_MS

    def attempt(present: Now) -> None:
        shard = shard_of(transactional_id)
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
        env.ask(GiveBack(request, code))

    if producer is None:
        then(ErrorCode.INVALID_TXN_STATE, now)
    else:
        add_written(env, shard_of, message.transactional_id or "", producer, partitions, now, then)


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
