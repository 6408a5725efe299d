"""DescribeTransactions and ListTransactions: transactions as an administrator sees them. In the coordinator process."""

from __future__ import annotations

from collections.abc import Iterable

from mpbroker.coordinator.effects import Now
from mpbroker.coordinator.transactions.transaction import State, Transaction
from mpbroker.coordinator.transactions.transaction_shard import TransactionShard
from mpbroker.errors import ErrorCode
from mpbroker.protocol.messages import describe_transactions, list_transactions
from mpbroker.protocol.messages.describe_transactions import TopicData
from mpbroker.protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse

_LABELS = {state.label: state for state in State}


def described(shard: TransactionShard | None, transactional_id: str) -> describe_transactions.TransactionState:
    """One id."""
    entry = shard.entries.get(transactional_id) if shard is not None else None
    if entry is None or entry.found.state is State.DEAD:
        code = ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
        if not transactional_id:
            code = ErrorCode.INVALID_REQUEST
        elif shard is None:
            code = ErrorCode.NOT_COORDINATOR
        elif shard.is_loading:
            code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        return describe_transactions.TransactionState(error_code=code, transactional_id=transactional_id)
    found = entry.found
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(found.partitions):
        topics.setdefault(topic, []).append(partition)
    return describe_transactions.TransactionState(
        transactional_id=found.id,
        transaction_state=found.state.label,
        transaction_timeout_ms=found.timeout_ms,
        transaction_start_time_ms=found.start_ms,
        producer_id=found.producer_id,
        producer_epoch=found.epoch,
        topics=[TopicData(topic, partitions) for topic, partitions in topics.items()],
    )


def listed(shards: Iterable[TransactionShard], message: ListTransactionsRequest, now: Now) -> ListTransactionsResponse:
    """All ids that pass the filters; names of states that do not exist are told."""
    answer = ListTransactionsResponse()
    wanted = {_LABELS[name] for name in message.state_filters if name in _LABELS}
    answer.unknown_state_filters = [name for name in message.state_filters if name not in _LABELS]
    for shard in shards:
        if shard.is_loading:
            return ListTransactionsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        for entry in shard.entries.values():
            if _passes(entry.found, message, wanted, now):
                found = entry.found
                row = list_transactions.TransactionState(found.id, found.producer_id, found.state.label)
                answer.transaction_states.append(row)
    return answer


def _passes(found: Transaction, message: ListTransactionsRequest, wanted: set[State], now: Now) -> bool:
    if found.state is State.DEAD:
        return False
    if message.producer_id_filters and found.producer_id not in message.producer_id_filters:
        return False
    if message.state_filters and found.state not in wanted:
        return False
    return message.duration_filter < 0 or now.wall_ms - found.start_ms > message.duration_filter
