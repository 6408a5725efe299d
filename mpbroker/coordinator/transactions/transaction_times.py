"""Transactions whose time is over, and ids that nobody uses any more. Runs in the coordinator process.

All transactions of a shard are looked at when the time of one is over, and besides as often as Kafka's setting says. By
that alone a transaction would end late, or never while coordinators die before their next look.
"""

from __future__ import annotations

from typing import Final

from mpbroker.coordinator.effects import Now
from mpbroker.coordinator.transactions.transaction import State, Transaction
from mpbroker.coordinator.transactions.transaction_shard import Entry, TransactionShard
from mpbroker.coordinator.transactions.transitions import fence
from mpbroker.errors import ErrorCode

TOMBSTONES_AT_ONCE: Final = 4000  # about 100 bytes each, and a batch may have 1 MiB
LEAST_BETWEEN_LOOKS_MS: Final = 100  # each goes over all ids


def watch_times(shard: TransactionShard, now: Now) -> None:
    """Look for transactions whose time is over and for ids to forget, from now on and again and again."""
    settings = shard.env.settings
    _look_at(shard, now.ms)
    shard.env.timers.at(now.ms + settings.expiration_check_ms, _forget_unused, shard)


def watch_end(shard: TransactionShard, found: Transaction, now: Now) -> None:
    """A transaction has begun: the next look is made when its time is over, unless an earlier one is due."""
    _look_at(shard, max(now.ms + found.over_time_ms - now.wall_ms, now.ms + LEAST_BETWEEN_LOOKS_MS))


def _look_at(shard: TransactionShard, due_ms: int) -> None:
    if shard.look_ms is None or due_ms < shard.look_ms:
        shard.look_ms = due_ms
        shard.env.timers.at(due_ms, _abort_late, shard)


def _abort_late(shard: TransactionShard, now: Now) -> None:
    if not shard.is_open or shard.look_ms is None or now.ms < shard.look_ms:
        return  # another look is due by now
    ongoing = [entry for entry in shard.entries.values() if entry.found.state is State.ONGOING]
    next_ms = shard.env.settings.abort_check_ms
    for entry in ongoing:
        if not entry.found.is_over_time(now.wall_ms):
            next_ms = min(next_ms, entry.found.over_time_ms - now.wall_ms)
        elif entry.is_moving:
            next_ms = 0
        else:
            _abort(shard, entry, now)
    shard.look_ms = None
    _look_at(shard, now.ms + max(next_ms, LEAST_BETWEEN_LOOKS_MS))


def _abort(shard: TransactionShard, entry: Entry, now: Now) -> None:
    """Fails: tried again at the next look, which is soon."""

    def then(code: int, later: Now) -> None:
        if code == ErrorCode.NONE:
            shard.env.counts.timed_out += 1
            shard.send_markers(entry)
        else:
            _look_at(shard, later.ms + LEAST_BETWEEN_LOOKS_MS)

    shard.record(entry, fence(entry.found, now.wall_ms, shard.env.feature_level()), None, now, then)


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
