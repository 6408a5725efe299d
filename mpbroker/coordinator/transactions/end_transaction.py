"""EndTxn. Runs in the coordinator process.

The record of the decision is the point of no return: then the producer is answered, then markers are written. From
version 5 of EndTxn on the answer names the producer's next epoch (KIP-890), which needs a new producer id when all
epochs are used up.
"""

from __future__ import annotations

from functools import partial

from mpbroker.coordinator.effects import GroupRequest, Now
from mpbroker.coordinator.transactions.init_producer import refuse, with_new_id
from mpbroker.coordinator.transactions.transaction import NO_EPOCH, NO_ID
from mpbroker.coordinator.transactions.transaction_answers import append_error
from mpbroker.coordinator.transactions.transaction_shard import Entry, TransactionShard
from mpbroker.coordinator.transactions.transitions import Producer, end, end_raising
from mpbroker.errors import ErrorCode
from mpbroker.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse

NEXT_EPOCH_SINCE = 5  # the version of EndTxn that tells the producer its next epoch


def handle(shard: TransactionShard, request: GroupRequest, message: EndTxnRequest, now: Now) -> None:
    """Answer when the decision is recorded."""
    if not message.transactional_id:
        refuse(shard, request, ErrorCode.INVALID_REQUEST)
        return
    entry = shard.entries.get(message.transactional_id)
    if shard.partition in request.appended:
        _answer(shard, request, entry)  # an earlier run decided it
    elif entry is None or entry.is_moving:
        code = ErrorCode.INVALID_PRODUCER_ID_MAPPING if entry is None else ErrorCode.CONCURRENT_TRANSACTIONS
        refuse(shard, request, code)
    elif request.version >= NEXT_EPOCH_SINCE and entry.found.is_exhausted:
        with_new_id(shard, request, entry, now, partial(_decide, shard, request, message, entry))
    else:
        _decide(shard, request, message, entry, NO_ID, now)


def _decide(
    shard: TransactionShard, request: GroupRequest, message: EndTxnRequest, entry: Entry, new_id: int, now: Now
) -> None:
    producer = Producer(message.producer_id, message.producer_epoch)
    if request.version >= NEXT_EPOCH_SINCE:
        step = end_raising(entry.found, producer, message.committed, new_id, now.wall_ms)
    else:
        step = end(entry.found, producer, message.committed, now.wall_ms)
    if step.next is None and step.code == ErrorCode.NONE:
        _answer(shard, request, entry)
    elif step.next is None:
        refuse(shard, request, step.code)
    else:

        def then(code: int, later: Now) -> None:
            if code == ErrorCode.NONE:
                _answer(shard, request, entry)
                shard.send_markers(entry)
            else:
                refuse(shard, request, append_error(code))

        shard.record(entry, step.next, request.token, now, then)


def _answer(shard: TransactionShard, request: GroupRequest, entry: Entry | None) -> None:
    """It is decided. `entry` is None if the id was forgotten since."""
    producer_id, epoch = entry.found.successor if entry is not None else (NO_ID, NO_EPOCH)
    shard.env.answer(request.token, EndTxnResponse(producer_id=producer_id, producer_epoch=epoch))
