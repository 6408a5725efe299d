"""AddPartitionsToTxn and AddOffsetsToTxn: what a transaction is going to write to. Runs in the coordinator process.

Recorded first, then verified (the partitions let the producer write), then answered: whatever a partition takes in
stands in the record that says where markers go.
"""

from __future__ import annotations

from collections.abc import Callable

from mpbroker.coordinator.effects import GroupRequest, Now
from mpbroker.coordinator.transactions.init_producer import refuse
from mpbroker.coordinator.transactions.transaction import RAISES_EPOCHS, Partition, Transaction
from mpbroker.coordinator.transactions.transaction_answers import (
    SEVERAL_TRANSACTIONS,
    append_error,
    code_for,
    topic_results,
)
from mpbroker.coordinator.transactions.transaction_shard import TransactionShard
from mpbroker.coordinator.transactions.transaction_times import watch_end
from mpbroker.coordinator.transactions.transitions import Producer, Step, add_partitions, verify
from mpbroker.errors import ErrorCode
from mpbroker.metadata.topic_names import OFFSETS_TOPIC
from mpbroker.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from mpbroker.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)

ABORTABLE = 5  # the version of AddPartitionsToTxn that knows TRANSACTION_ABORTABLE


def transactions_of(message: AddPartitionsToTxnRequest, version: int) -> list[AddPartitionsToTxnTransaction]:
    """The transactions a request is about."""
    if version >= SEVERAL_TRANSACTIONS:
        return message.transactions
    one = AddPartitionsToTxnTransaction(
        message.v3_and_below_transactional_id,
        message.v3_and_below_producer_id,
        message.v3_and_below_producer_epoch,
        False,
        message.v3_and_below_topics,
    )
    return [one]


def add(
    shard: TransactionShard | None,
    transactional_id: str,
    producer: Producer,
    partitions: frozenset[Partition],
    now: Now,
    then: Callable[[int, Now], None],
    version: int = 0,
) -> None:
    """Add partitions to one transaction; `then(code, now)` when they are recorded and verified, or not. `version`: of
    transactions, that of the producer."""
    if not transactional_id:
        then(ErrorCode.INVALID_REQUEST, now)
        return
    if shard is None:
        then(ErrorCode.NOT_COORDINATOR, now)
        return
    entry = shard.entries.get(transactional_id)
    if entry is None or entry.is_moving:
        code = ErrorCode.INVALID_PRODUCER_ID_MAPPING if entry is None else ErrorCode.CONCURRENT_TRANSACTIONS
        then(code, now)
        return
    step = add_partitions(entry.found, producer, partitions, now.wall_ms, version)
    if step.next is not None and _too_many(shard, entry.found, step.next):
        step = Step(ErrorCode.CONCURRENT_TRANSACTIONS)
    if step.code != ErrorCode.NONE:
        then(step.code, now)
    elif step.next is None:
        shard.verify(entry, partitions, then)
    else:

        def recorded(code: int, later: Now) -> None:
            if code == ErrorCode.NONE:
                watch_end(shard, entry.found, later)
                shard.verify(entry, partitions, then)
            else:
                then(append_error(code), later)

        shard.record(entry, step.next, None, now, recorded)


def verify_added(
    shard: TransactionShard | None,
    transactional_id: str,
    producer: Producer,
    partitions: frozenset[Partition],
    now: Now,
    then: Callable[[int, Now], None],
) -> None:
    """The same for partitions that were added before: those led here are told; `then` with TRANSACTION_ABORTABLE if one
    was not."""
    entry = shard.entries.get(transactional_id) if shard is not None else None
    if shard is None or entry is None or entry.is_moving:
        missing = ErrorCode.NOT_COORDINATOR if shard is None else ErrorCode.INVALID_PRODUCER_ID_MAPPING
        then(missing if entry is None else ErrorCode.CONCURRENT_TRANSACTIONS, now)
        return
    code = verify(entry.found, producer)
    if code == ErrorCode.NONE and not partitions <= entry.found.partitions:
        code = ErrorCode.TRANSACTION_ABORTABLE
    if code == ErrorCode.NONE:
        shard.verify(entry, partitions, then)
    else:
        then(code, now)


def _too_many(shard: TransactionShard, before: Transaction, after: Transaction) -> bool:
    counts = shard.env.counts
    is_so = counts.partitions + len(after.partitions) - len(before.partitions) > shard.env.settings.max_partitions
    counts.partitions_refused += is_so
    return is_so


def handle_offsets(shard: TransactionShard, request: GroupRequest, message: AddOffsetsToTxnRequest, now: Now) -> None:
    """AddOffsetsToTxn: the group's partition of `__consumer_offsets`."""

    def then(code: int, later: Now) -> None:
        shard.env.answer(request.token, AddOffsetsToTxnResponse(error_code=code_for(request, code)))

    if not message.transactional_id:
        refuse(shard, request, ErrorCode.INVALID_REQUEST)
        return
    producer = Producer(message.producer_id, message.producer_epoch)
    partition = (OFFSETS_TOPIC, shard.env.offsets_partition(message.group_id))
    add(shard, message.transactional_id, producer, frozenset((partition,)), now, then)


class Addition:
    """One AddPartitionsToTxn: its transactions, one after the other, and the answer after the last."""

    def __init__(
        self,
        request: GroupRequest,
        message: AddPartitionsToTxnRequest,
        shard_of: Callable[[str], TransactionShard | None],
        has_partition: Callable[[str, int], bool],
        answer: Callable[[AddPartitionsToTxnResponse], None],
    ) -> None:
        self._request = request
        self._transactions = transactions_of(message, request.version)
        self._shard_of = shard_of
        self._has_partition = has_partition
        self._answer = answer
        self._rows: list[AddPartitionsToTxnResult] = []

    def go_on(self, now: Now) -> None:
        """Do the next transaction, or answer."""
        if len(self._rows) < len(self._transactions):
            self._do(self._transactions[len(self._rows)], now)
        elif self._request.version >= SEVERAL_TRANSACTIONS:
            self._answer(AddPartitionsToTxnResponse(results_by_transaction=self._rows))
        else:
            self._answer(AddPartitionsToTxnResponse(results_by_topic_v3_and_below=self._rows[0].topic_results))

    def _do(self, one: AddPartitionsToTxnTransaction, now: Now) -> None:
        partitions = frozenset((topic.name, number) for topic in one.topics for number in topic.partitions)
        unknown = {partition for partition in partitions if not self._has_partition(*partition)}
        if unknown:
            missing, spared = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.OPERATION_NOT_ATTEMPTED
            self._finish(one, lambda topic, number: missing if (topic, number) in unknown else spared, now)
        elif one.verify_only:
            self._finish(one, self._verified(one), now)
        else:
            producer = Producer(one.producer_id, one.producer_epoch)
            shard = self._shard_of(one.transactional_id)

            def then(code: int, later: Now) -> None:
                known = code_for(self._request, code)
                self._finish(one, lambda topic, number: known, later)

            version = RAISES_EPOCHS if self._request.version >= SEVERAL_TRANSACTIONS else 0
            add(shard, one.transactional_id, producer, partitions, now, then, version)

    def _verified(self, one: AddPartitionsToTxnTransaction) -> Callable[[str, int], int]:
        """Another broker asks whether partitions were added (KIP-890)."""
        shard = self._shard_of(one.transactional_id)
        entry = shard.entries.get(one.transactional_id) if shard is not None else None
        if not one.transactional_id:
            code = ErrorCode.INVALID_REQUEST
        elif shard is None:
            code = ErrorCode.NOT_COORDINATOR
        elif entry is None:
            code = ErrorCode.INVALID_PRODUCER_ID_MAPPING
        else:
            code = verify(entry.found, Producer(one.producer_id, one.producer_epoch))
        if entry is None or code != ErrorCode.NONE:
            return lambda topic, number: code
        added = entry.found.partitions
        is_abortable = self._request.version >= ABORTABLE
        missing = ErrorCode.TRANSACTION_ABORTABLE if is_abortable else ErrorCode.INVALID_TXN_STATE
        return lambda topic, number: ErrorCode.NONE if (topic, number) in added else missing

    def _finish(self, one: AddPartitionsToTxnTransaction, code: Callable[[str, int], int], now: Now) -> None:
        topics: list[AddPartitionsToTxnTopic] = one.topics
        self._rows.append(AddPartitionsToTxnResult(one.transactional_id, topic_results(topics, code)))
        self.go_on(now)
