"""What all shards of transactions share: settings, counts, producer ids, and what a Workbench has. Coordinator process.

Nothing here does I/O or reads a clock.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import msgspec

from mpbroker.coordinator.effects import AskCoordinator, Now, TakeProducerIds
from mpbroker.coordinator.transactions.transaction import State, Transaction
from mpbroker.coordinator.transactions.transaction_settings import TransactionSettings
from mpbroker.coordinator.workbench import Workbench
from mpbroker.metadata.producer_ids import ProducerIds

#: Whether a partition of a topic exists: (topic, partition).
HasPartition: TypeAlias = Callable[[str, int], bool]
#: Who waits for markers that were asked for by name: (codes by partition, now).
MarkersWritten: TypeAlias = Callable[[dict[tuple[str, int], int], Now], None]
PRODUCER_ID_PATIENCE_MS = 10_000


class TransactionCounts(msgspec.Struct):
    """Present amounts, then events since the start; the shell copies them into its counters."""

    transactional_ids: int = 0
    partitions: int = 0  # of ongoing transactions
    committed: int = 0
    aborted: int = 0
    timed_out: int = 0
    ids_expired: int = 0
    ids_refused: int = 0
    partitions_refused: int = 0
    loading_refused: int = 0
    records_skipped: int = 0


class TransactionEnvironment(Workbench):
    """Made once for a coordinator.

    `offsets_partition(group)`: where in `__consumer_offsets` a group's offsets are. `feature_level()`: the finalized
    level of `transaction.version`. `in_cluster`: ids whose shard is not here have their coordinator elsewhere.
    """

    def __init__(
        self,
        settings: TransactionSettings,
        has_partition: HasPartition,
        offsets_partition: Callable[[str], int],
        feature_level: Callable[[], int] = lambda: 0,
        in_cluster: bool = False,
    ) -> None:
        super().__init__(settings.max_parked)
        self.settings = settings
        self.has_partition = has_partition
        self.offsets_partition = offsets_partition
        self.feature_level = feature_level
        self.in_cluster = in_cluster
        self.counts = TransactionCounts()
        self.producer_ids = ProducerIds()
        self.asked_markers: dict[int, MarkersWritten] = {}  # by number of the effect
        self._asked: dict[int, Callable[[int, Now], None]] = {}  # likewise
        self._wanting: list[tuple[int, Callable[[int | None, Now], None]]] = []  # until when, whom

    def value_version(self) -> int:
        """In which version states are recorded."""
        return 1 if self.feature_level() >= 1 else 0

    def count_end(self, found: Transaction) -> None:
        """A transaction is over."""
        if found.state is State.COMPLETE_COMMIT:
            self.counts.committed += 1
        else:
            self.counts.aborted += 1

    def take_producer_id(self, now: Now, then: Callable[[int | None, Now], None]) -> None:
        """Call `then` with a new producer id, now or later; None: none came in time."""
        producer_id = self.producer_ids.take()
        if producer_id is not None:
            then(producer_id, now)
            return
        if not self._wanting:
            self.ask(TakeProducerIds())
        until_ms = now.ms + PRODUCER_ID_PATIENCE_MS
        self._wanting.append((until_ms, then))
        self.timers.at(until_ms, self._give_up)

    def ask_coordinator(
        self,
        transactional_id: str,
        producer: tuple[int, int],
        partitions: frozenset[tuple[str, int]],
        verify_only: bool,
        then: Callable[[int, Now], None],
    ) -> None:
        """Ask the coordinator on another broker; `then(code, now)` when it has answered and partitions know it."""
        number = self.next_number()
        self._asked[number] = then
        self.ask(AskCoordinator(number, transactional_id, *producer, partitions, verify_only))

    def asked(self, number: int, code: int, now: Now) -> None:
        """It has answered."""
        then = self._asked.pop(number, None)
        if then is not None:
            then(code, now)

    def add_producer_ids(self, first_id: int, count: int, now: Now) -> None:
        """A block of ids; 0: there are none to be had."""
        self.producer_ids.add_block(first_id, count)
        wanting, self._wanting = self._wanting, []
        for until_ms, then in wanting:
            producer_id = self.producer_ids.take()
            if producer_id is None and count:
                if not self._wanting:
                    self.ask(TakeProducerIds())
                self._wanting.append((until_ms, then))
            else:
                then(producer_id, now)

    def _give_up(self, now: Now) -> None:
        late = [then for until_ms, then in self._wanting if until_ms <= now.ms]
        self._wanting = [one for one in self._wanting if one[0] > now.ms]
        for then in late:
            then(None, now)
