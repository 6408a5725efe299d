"""The logic of transactions: requests, reports and time go in, effects come out. In the coordinator process.

As that of groups (`group_coordinator`), beside which it stands. For every partition of `__transaction_state` that this
broker leads: `open`, then `load` with its records, then `loaded`: markers of decided transactions are sent once more,
partitions of ongoing ones verified once more, and only then are its ids served.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec

from mpbroker.coordinator.effects import Effect, GroupRequest, Now, PassOn
from mpbroker.coordinator.loading_queue import LoadingQueue
from mpbroker.coordinator.offsets_loader import RecordPairs
from mpbroker.coordinator.transactions.add_partitions import Addition, handle_offsets, transactions_of
from mpbroker.coordinator.transactions.end_transaction import handle as end_transaction
from mpbroker.coordinator.transactions.init_producer import handle as init_producer
from mpbroker.coordinator.transactions.transaction import PREPARED, State
from mpbroker.coordinator.transactions.transaction_admin import described, listed
from mpbroker.coordinator.transactions.transaction_answers import ABORTABLE_COMMIT, KNOWS_LOADING, failure
from mpbroker.coordinator.transactions.transaction_environment import (
    HasPartition,
    TransactionCounts,
    TransactionEnvironment,
)
from mpbroker.coordinator.transactions.transaction_records import partition_of, read_key, read_transaction
from mpbroker.coordinator.transactions.transaction_settings import TransactionSettings
from mpbroker.coordinator.transactions.transaction_shard import TransactionShard
from mpbroker.coordinator.transactions.transaction_times import watch_times
from mpbroker.coordinator.transactions.transitions import Producer, verify
from mpbroker.coordinator.transactions.write_markers import AskedMarkers
from mpbroker.coordinator.transactions.written_partitions import add_written
from mpbroker.coordinator.transactions.written_partitions import handle as add_produced
from mpbroker.errors import ErrorCode
from mpbroker.metadata.topic_names import OFFSETS_TOPIC
from mpbroker.protocol.api_keys import ApiKey
from mpbroker.protocol.messages.describe_transactions import DescribeTransactionsResponse

ADDS_GROUPS_SINCE = 5  # the version of TxnOffsetCommit
MAX_ID_BYTES = 32_000  # a record has 16 bits for a length

#: What TxnOffsetCommit hears as COORDINATOR_NOT_AVAILABLE: the transaction's coordinator was not to be had.
_NOT_REACHED: Final = frozenset(
    {ErrorCode.NOT_COORDINATOR, ErrorCode.NETWORK_EXCEPTION, ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_ENOUGH_REPLICAS}
)
#: Requests about one transactional id, by API key.
_HANDLERS: Final[dict[int, Callable[[TransactionShard, GroupRequest, Any, Now], None]]] = {
    ApiKey.INIT_PRODUCER_ID: init_producer,
    ApiKey.ADD_OFFSETS_TO_TXN: handle_offsets,
    ApiKey.END_TXN: end_transaction,
}


class TransactionCoordinator:
    """All transactional ids of this broker. Every method that returns effects returns them in the order to carry them
    out."""

    def __init__(
        self,
        settings: TransactionSettings,
        has_partition: HasPartition,
        offsets_partition: Callable[[str], int],
        feature_level: Callable[[], int] = lambda: 0,
        in_cluster: bool = False,
    ) -> None:
        self._env = TransactionEnvironment(settings, has_partition, offsets_partition, feature_level, in_cluster)
        self._shards: dict[int, TransactionShard] = {}
        self._newest: dict[int, dict[bytes, bytes | None]] = {}
        self._queue = LoadingQueue(self._env, self._is_loading, self._answer, self._refuse_loading)

    @property
    def counts(self) -> TransactionCounts:
        """Amounts and events, for the shell's counters."""
        return self._env.counts

    def partition_of(self, transactional_id: str) -> int:
        """The partition of `__transaction_state` that holds an id."""
        return partition_of(transactional_id, self._env.settings.partitions)

    def _shard_of(self, transactional_id: str) -> TransactionShard | None:
        return self._shards.get(self.partition_of(transactional_id))

    # partitions

    def open(self, partition: int, leader_epoch: int, now: Now) -> list[Effect]:
        """This broker leads the partition from this epoch on. A present or older epoch changes nothing."""
        shard = self._shards.get(partition)
        if shard is not None and shard.leader_epoch >= leader_epoch:
            return []
        if shard is not None:
            self._close(shard, now)
        self._shards[partition] = TransactionShard(partition, leader_epoch, self._env)
        self._newest[partition] = {}
        return self._env.take_effects()

    def load(self, partition: int, records: RecordPairs) -> None:
        """Records of a partition that was opened, in the order of the log, in as many calls as the shell likes."""
        self._newest[partition].update(records)

    def load_transactional(self, partition: int, producer_id: int, offset: int, records: RecordPairs) -> None:
        """There are none; whoever wrote them, they count like others."""
        self.load(partition, records)

    def load_marker(self, partition: int, producer_id: int, committed: bool) -> None:
        """There are none."""

    def loaded(self, partition: int, now: Now) -> list[Effect]:
        """All its records were given."""
        shard = self._shards[partition]
        for key, value in self._newest.pop(partition).items():
            if value is not None:
                self._restore(shard, key, value)
        unverified = [entry for entry in shard.entries.values() if entry.found.state is State.ONGOING]
        left = len(unverified)

        def verified(code: int, later: Now) -> None:
            nonlocal left
            left -= 1
            if not left:
                self._begin(shard, later)

        for entry in unverified:
            shard.verify(entry, entry.found.partitions, verified)
        if not left:
            self._begin(shard, now)
        return self._env.take_effects()

    def _restore(self, shard: TransactionShard, key: bytes, value: bytes) -> None:
        transactional_id = read_key(key)
        found = read_transaction(transactional_id, value) if transactional_id is not None else None
        if found is None:
            self._env.counts.records_skipped += 1
        else:
            shard.restore(found)

    def _begin(self, shard: TransactionShard, now: Now) -> None:
        """Serve the shard from now on."""
        if not shard.is_open:
            return
        shard.is_loading = False
        for entry in list(shard.entries.values()):
            if entry.found.state in PREPARED:
                shard.send_markers(entry)
        watch_times(shard, now)
        self._queue.serve(now)

    def is_ready(self, partitions: int) -> bool:
        """Whether so many partitions are all loaded, and what they hold verified."""
        shards = self._shards.values()
        return len(shards) >= partitions and not any(shard.is_loading for shard in shards)

    def close(self, partition: int, leader_epoch: int, now: Now) -> list[Effect]:
        """This broker does not lead the partition any more: those who wait get error 16."""
        shard = self._shards.get(partition)
        if shard is not None and shard.leader_epoch <= leader_epoch:
            self._close(shard, now)
            self._queue.serve(now)
        return self._env.take_effects()

    def _close(self, shard: TransactionShard, now: Now) -> None:
        del self._shards[shard.partition]
        self._newest.pop(shard.partition, None)
        shard.close(now)

    # requests

    def handle(self, request: GroupRequest, now: Now) -> list[Effect]:
        """One request, in a version that is served."""
        if any(len(one.encode()) > MAX_ID_BYTES for one in ids_of(request)):
            self._env.answer(request.token, failure(request, ErrorCode.INVALID_REQUEST))
        else:
            self._queue.answer_or_wait(request, now)
        return self._env.take_effects()

    def _answer(self, request: GroupRequest, now: Now) -> None:
        message: Any = request.message
        handler = _HANDLERS.get(request.api_key)
        if handler is not None:
            shard = self._shard_of(message.transactional_id)
            if shard is None:
                self._env.answer(request.token, failure(request, ErrorCode.NOT_COORDINATOR))
            else:
                handler(shard, request, message, now)
        elif request.api_key == ApiKey.ADD_PARTITIONS_TO_TXN:
            self._add_partitions(request, now)
        elif request.api_key == ApiKey.TXN_OFFSET_COMMIT and request.version >= ADDS_GROUPS_SINCE:
            self._add_offsets(request, now)
        elif request.api_key == ApiKey.TXN_OFFSET_COMMIT:
            self._check_offsets(request, now)
        elif request.api_key == ApiKey.PRODUCE:
            add_produced(self._env, self._shard_of, request, message, now)
        elif request.api_key == ApiKey.WRITE_TXN_MARKERS:
            AskedMarkers(self._env, request, message).begin()
        elif request.api_key == ApiKey.DESCRIBE_TRANSACTIONS:
            rows = [described(self._shard_of(one), one) for one in message.transactional_ids]
            self._env.answer(request.token, DescribeTransactionsResponse(transaction_states=rows))
        else:
            self._env.answer(request.token, listed(self._shards.values(), message, now))

    def _add_partitions(self, request: GroupRequest, now: Now) -> None:
        message: Any = request.message
        env = self._env
        Addition(
            request, message, self._shard_of, env.has_partition, lambda answer: env.answer(request.token, answer)
        ).go_on(now)

    def _add_offsets(self, request: GroupRequest, now: Now) -> None:
        """TxnOffsetCommit that adds its group to the transaction by itself, before groups answer it."""
        message: Any = request.message
        partition = self._env.offsets_partition(message.group_id)

        def then(code: int, later: Now) -> None:
            self._pass_on(request, code, is_elsewhere)

        if partition in request.appended:
            self._env.ask(PassOn(request))
            return
        is_elsewhere = self._is_elsewhere(message.transactional_id)
        producer = Producer(message.producer_id, message.producer_epoch)
        partitions = frozenset({(OFFSETS_TOPIC, partition)})
        add_written(self._env, self._shard_of, message.transactional_id, producer, partitions, now, then)

    def _pass_on(self, request: GroupRequest, code: int, is_verified: bool) -> None:
        """Groups answer, or the code says why not. `is_verified`: the partition has been told already."""
        if code == ErrorCode.NONE:
            self._env.ask(PassOn(msgspec.structs.replace(request, is_verified=True) if is_verified else request))
            return
        code = ErrorCode.COORDINATOR_NOT_AVAILABLE if code in _NOT_REACHED else code
        if code == ErrorCode.TRANSACTION_ABORTABLE and request.version < ABORTABLE_COMMIT:
            code = ErrorCode.INVALID_TXN_STATE
        self._env.answer(request.token, failure(request, code))

    def _is_elsewhere(self, transactional_id: str) -> bool:
        return self._env.in_cluster and self._shard_of(transactional_id) is None

    def _check_offsets(self, request: GroupRequest, now: Now) -> None:
        """TxnOffsetCommit: groups answer it if the transaction takes it. Who appended already may have been told by the
        marker since."""
        message: Any = request.message
        partition = self._env.offsets_partition(message.group_id)
        if partition in request.appended:
            self._env.ask(PassOn(request))
        elif self._is_elsewhere(message.transactional_id):
            producer = Producer(message.producer_id, message.producer_epoch)
            partitions = frozenset({(OFFSETS_TOPIC, partition)})

            def then(code: int, later: Now) -> None:
                self._pass_on(request, code, True)

            add_written(self._env, self._shard_of, message.transactional_id, producer, partitions, now, then, True)
        else:
            self._pass_on(request, self._offsets_error(request, message, partition), False)

    def _offsets_error(self, request: GroupRequest, message: Any, partition: int) -> int:
        shard = self._shard_of(message.transactional_id)
        if shard is None:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        entry = shard.entries.get(message.transactional_id)
        if entry is None:
            return ErrorCode.INVALID_PRODUCER_ID_MAPPING
        code = verify(entry.found, Producer(message.producer_id, message.producer_epoch))
        if code == ErrorCode.NONE and entry.is_moving:
            return ErrorCode.CONCURRENT_TRANSACTIONS
        if code == ErrorCode.PRODUCER_FENCED:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if code != ErrorCode.NONE or (OFFSETS_TOPIC, partition) in entry.found.partitions:
            return code
        if request.version >= ABORTABLE_COMMIT:
            return ErrorCode.TRANSACTION_ABORTABLE
        return ErrorCode.INVALID_TXN_STATE

    # requests for a partition that is being loaded

    def _is_loading(self, request: GroupRequest) -> bool:
        if request.api_key == ApiKey.LIST_TRANSACTIONS:
            return any(shard.is_loading for shard in self._shards.values())
        shards = (self._shard_of(one) for one in ids_of(request))
        return any(shard is not None and shard.is_loading for shard in shards)

    def _refuse_loading(self, request: GroupRequest, now: Now, has_waited: bool) -> None:
        self._env.counts.loading_refused += 1
        code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        if request.api_key == ApiKey.TXN_OFFSET_COMMIT and request.version < KNOWS_LOADING:
            code = ErrorCode.COORDINATOR_NOT_AVAILABLE
        if has_waited and request.api_key == ApiKey.DESCRIBE_TRANSACTIONS:
            self._answer(request, now)  # those that can be described are
        else:
            self._env.answer(request.token, failure(request, code))

    # reports and time

    def appended(self, partition: int, number: int, code: int, now: Now) -> list[Effect]:
        """An append is acknowledged (code 0), or will never be."""
        return self._done(partition, number, code, now)

    def verified(self, partition: int, number: int, code: int, now: Now) -> list[Effect]:
        """All partitions of a Verify are, or one of them cannot be."""
        return self._done(partition, number, code, now)

    def asked(self, number: int, code: int, now: Now) -> list[Effect]:
        """The coordinator on another broker has answered, and partitions know it."""
        self._env.asked(number, code, now)
        return self._env.take_effects()

    def marked(self, partition: int, number: int, codes: dict[tuple[str, int], int], now: Now) -> list[Effect]:
        """All markers of a SendMarkers are written, those that can be."""
        asked = self._env.asked_markers.pop(number, None)
        if asked is not None:
            asked(codes, now)
            return self._env.take_effects()
        return self._done(partition, number, ErrorCode.NONE, now)

    def _done(self, partition: int, number: int, code: int, now: Now) -> list[Effect]:
        shard = self._shards.get(partition)
        if shard is not None:
            shard.done(number, code, now)
        return self._env.take_effects()

    def add_producer_ids(self, first_id: int, count: int, now: Now) -> list[Effect]:
        """A block of producer ids; a count of 0: there are none to be had."""
        self._env.add_producer_ids(first_id, count, now)
        return self._env.take_effects()

    def deadline_ms(self) -> int | None:
        """When `pass_time` has something to do, in monotonic milliseconds; None: never."""
        return self._env.timers.deadline_ms()

    def pass_time(self, now: Now) -> list[Effect]:
        """Do what is due."""
        self._env.timers.run(now)
        return self._env.take_effects()


def ids_of(request: GroupRequest) -> list[str]:
    """The transactional ids a request is about; none for ListTransactions and WriteTxnMarkers."""
    message: Any = request.message
    if request.api_key == ApiKey.ADD_PARTITIONS_TO_TXN:
        return [one.transactional_id for one in transactions_of(message, request.version)]
    if request.api_key == ApiKey.DESCRIBE_TRANSACTIONS:
        return list(message.transactional_ids)
    if request.api_key in (ApiKey.LIST_TRANSACTIONS, ApiKey.WRITE_TXN_MARKERS):
        return []
    return [message.transactional_id]
