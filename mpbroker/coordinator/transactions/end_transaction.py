"""EndTxn, transactions whose time is over, and ids that nobody uses any more. Runs in the coordinator process.

The record of the decision is the point of no return: then the producer is answered, then markers are written.
"""

from __future__ import annotations

from mpbroker.coordinator.effects import GroupRequest, Now
from mpbroker.coordinator.transactions.init_producer import refuse
from mpbroker.coordinator.transactions.transaction_answers import append_error
from mpbroker.coordinator.transactions.transaction_shard import Entry, TransactionShard
from mpbroker.coordinator.transactions.transitions import Producer, end, fence
from mpbroker.errors import ErrorCode
from mpbroker.protocol.messages.end_txn import EndTxnRequest

TOMBSTONES_AT_ONCE = 4000  # about 100 bytes each, and a batch may have 1 MiB


def handle(shard: TransactionShard, request: GroupRequest, message: EndTxnRequest, now: Now) -> None:
    """Answer when the decision is recorded."""
    if not message.transactional_id:
        refuse(shard, request, ErrorCode.INVALID_REQUEST)
        return
    if shard.partition in request.appended:
        refuse(shard, request, ErrorCode.NONE)  # an earlier run decided it
        return
    entry = shard.entries.get(message.transactional_id)
    if entry is None or entry.is_moving:
        code = ErrorCode.INVALID_PRODUCER_ID_MAPPING if entry is None else ErrorCode.CONCURRENT_TRANSACTIONS
        refuse(shard, request, code)
        return
    producer = Producer(message.producer_id, message.producer_epoch)
    step = end(entry.found, producer, message.committed, now.wall_ms)
    if step.next is None:
        refuse(shard, request, step.code)
        return

    def then(code: int, later: Now) -> None:
        refuse(shard, request, append_error(code))
        if code == ErrorCode.NONE:
            shard.send_markers(entry)

    shard.record(entry, step.next, request.token, now, then)


def watch_times(shard: TransactionShard, now: Now) -> None:
    """Look regularly for transactions whose time is over, and for ids to forget."""
    settings = shard.env.settings
    shard.env.timers.at(now.ms + settings.abort_check_ms, _abort_late, shard)
    shard.env.timers.at(now.ms + settings.expiration_check_ms, _forget_unused, shard)


def _abort_late(shard: TransactionShard, now: Now) -> None:
    if not shard.is_open:
        return
    for entry in list(shard.entries.values()):
        if entry.found.is_over_time(now.wall_ms) and not entry.is_moving:
            _abort(shard, entry, now)
    shard.env.timers.at(now.ms + shard.env.settings.abort_check_ms, _abort_late, shard)


def _abort(shard: TransactionShard, entry: Entry, now: Now) -> None:
    """Fails: tried again at the next look."""

    def then(code: int, later: Now) -> None:
        if code == ErrorCode.NONE:
            shard.env.counts.timed_out += 1
            shard.send_markers(entry)

    shard.record(entry, fence(entry.found, now.wall_ms), None, now, then)


def _forget_unused(shard: TransactionShard, now: Now) -> None:
    if not shard.is_open:
        return
    settings = shard.env.settings
    unused = [
        entry
        for entry in shard.entries.values()
        if entry.found.is_unused(now.wall_ms, settings.expiration_ms) and not entry.is_moving
    ]
    while unused:
        shard.append_tombstones(unused[:TOMBSTONES_AT_ONCE], now)
        unused = unused[TOMBSTONES_AT_ONCE:]
    shard.env.timers.at(now.ms + settings.expiration_check_ms, _forget_unused, shard)
