"""One partition of `__transaction_state` and the transactional ids it holds. Runs in the coordinator process.

A shard is loading, then open, then closed for ever. What it holds of an id is what was recorded and acknowledged; while
a record is on its way, partitions are being verified, or nothing is known of how an append ended, the id is *moving*:
requests get CONCURRENT_TRANSACTIONS, which every client tries again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import msgspec

from mpbroker.coordinator.effects import Append, Now, SendMarkers, Token, Verify
from mpbroker.coordinator.transactions.transaction import PREPARED, Partition, Transaction
from mpbroker.coordinator.transactions.transaction_environment import TransactionEnvironment
from mpbroker.coordinator.transactions.transaction_records import transaction_key, transaction_value
from mpbroker.coordinator.transactions.transitions import complete
from mpbroker.errors import ErrorCode
from mpbroker.metadata.topic_names import OFFSETS_TOPIC, TRANSACTIONS_TOPIC

COMPLETE_RETRY_MS = 100
Codes: TypeAlias = dict[Partition, int]


class Entry(msgspec.Struct):
    """One transactional id: its state, and whether that is about to change."""

    found: Transaction
    is_moving: bool = False


class TransactionShard:
    """Transactional ids, and what is on its way for them."""

    def __init__(self, partition: int, leader_epoch: int, environment: TransactionEnvironment) -> None:
        self.partition = partition
        self.leader_epoch = leader_epoch
        self.env = environment
        self.entries: dict[str, Entry] = {}
        self.is_loading = True
        self.is_open = True
        self.look_ms: int | None = None  # when transactions are looked at next whose time is over
        self._then: dict[int, Callable[[int, Now], None]] = {}  # by number of an effect

    def add(self, found: Transaction) -> Entry | None:
        """Take an id in; None if there are too many."""
        if self.env.counts.transactional_ids >= self.env.settings.max_ids:
            self.env.counts.ids_refused += 1
            return None
        return self.restore(found)

    def restore(self, found: Transaction) -> Entry:
        """Take in an id that is in the log, however many there are."""
        entry = self.entries[found.id] = Entry(found)
        self.env.counts.transactional_ids += 1
        self.env.counts.partitions += len(found.partitions)
        return entry

    def forget(self, transactional_id: str) -> None:
        """Let go of an id."""
        entry = self.entries.pop(transactional_id, None)
        if entry is not None:
            self.env.counts.transactional_ids -= 1
            self.env.counts.partitions -= len(entry.found.partitions)

    # effects that are reported back

    def done(self, number: int, code: int, now: Now) -> None:
        """An append or another effect is through; unknown numbers are those of a shard that was closed."""
        then = self._then.pop(number, None)
        if then is not None:
            then(code, now)

    def record(
        self, entry: Entry, found: Transaction, token: Token | None, now: Now, then: Callable[[int, Now], None]
    ) -> None:
        """Append the new state; it is in force when `then(NONE, now)` is called. With another code it may be in the log
        all the same: whatever is appended next replaces it."""
        value = transaction_value(found, self.env.value_version())
        entry.is_moving = True

        def settled(code: int, later: Now) -> None:
            entry.is_moving = False
            if code == ErrorCode.NONE:
                self.env.counts.partitions += len(found.partitions) - len(entry.found.partitions)
                entry.found = found
            then(code, later)

        self._append([(transaction_key(found.id), value)], token, now, settled)

    def append_tombstones(self, entries: list[Entry], now: Now) -> None:
        """Forget ids that nobody used for long."""
        for entry in entries:
            entry.is_moving = True

        def settled(code: int, later: Now) -> None:
            for entry in entries:
                entry.is_moving = False
                if code == ErrorCode.NONE:
                    self.forget(entry.found.id)
                    self.env.counts.ids_expired += 1

        self._append([(transaction_key(entry.found.id), None) for entry in entries], None, now, settled)

    def _append(
        self,
        records: list[tuple[bytes, bytes | None]],
        token: Token | None,
        now: Now,
        then: Callable[[int, Now], None],
    ) -> None:
        number = self._await(then)
        batch = Append(
            self.partition, self.leader_epoch, number, token, now.wall_ms, tuple(records), TRANSACTIONS_TOPIC
        )
        self.env.ask(batch)

    def verify(self, entry: Entry, partitions: frozenset[Partition], then: Callable[[int, Now], None]) -> None:
        """Let the producer write there: once more where it may already, for a broker forgets it at its end. Offsets are
        verified when they are committed."""
        entry.is_moving = True

        def settled(code: int, later: Now) -> None:
            entry.is_moving = False
            then(code, later)

        wanted = frozenset(one for one in partitions if one[0] != OFFSETS_TOPIC)
        found = entry.found
        self.env.ask(Verify(self.partition, self._await(settled), found.producer_id, found.epoch, wanted))

    def send_markers(self, entry: Entry) -> None:
        """End a prepared transaction in its partitions, then record that."""
        found = entry.found
        assert found.state in PREPARED

        def settled(code: int, later: Now) -> None:
            self._complete(entry, later)

        self.env.ask(
            SendMarkers(
                self.partition,
                self._await(settled),
                found.producer_id,
                found.epoch,
                found.is_committed,
                self.leader_epoch,
                found.partitions,
            )
        )

    def _complete(self, entry: Entry, now: Now) -> None:
        if not self.is_open:
            return

        def then(code: int, later: Now) -> None:
            if code == ErrorCode.NONE:
                self.env.count_end(entry.found)
            else:
                self.env.timers.at(later.ms + COMPLETE_RETRY_MS, self._complete, entry)

        self.record(entry, complete(entry.found, now.wall_ms), None, now, then)

    def _await(self, then: Callable[[int, Now], None]) -> int:
        number = self.env.next_number()
        self._then[number] = then
        return number

    def close(self, now: Now) -> None:
        """The partition is not ours any more: whoever waits hears so, and nothing is kept."""
        self.is_open = False
        waiting, self._then = self._then, {}
        for then in waiting.values():
            then(ErrorCode.NOT_LEADER_OR_FOLLOWER, now)
        for transactional_id in list(self.entries):
            self.forget(transactional_id)
