"""What all shards of one coordinator share: settings, timers, counts, and the effects of the call in progress.

Runs in the coordinator process; nothing here does I/O or reads a clock.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any, TypeAlias

import msgspec

from mpbroker.coordinator.effects import Answer, Append, Effect, Now, Token
from mpbroker.coordinator.group_settings import GroupSettings
from mpbroker.coordinator.group_table import GroupTable
from mpbroker.protocol.types import Struct

#: Whether a partition of a topic exists: (topic, partition).
HasPartition: TypeAlias = Callable[[str, int], bool]


class Counts(msgspec.Struct):
    """Present amounts, then events since the start; the shell copies them into its counters."""

    groups: int = 0
    members: int = 0  # with ids that were issued and not used yet
    offsets: int = 0
    parked: int = 0
    rebalances: int = 0
    members_expired: int = 0
    offsets_expired: int = 0
    groups_refused: int = 0
    members_refused: int = 0
    offsets_refused: int = 0
    parked_refused: int = 0
    loading_refused: int = 0
    records_skipped: int = 0


class Timers:
    """Deadlines and what to do then. There is no cancel: whoever is called looks whether it still matters."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Callable[..., None], tuple[Any, ...]]] = []
        self._number = 0

    def at(self, deadline_ms: int, call: Callable[..., None], *arguments: Any) -> None:
        """Call `call(*arguments, now)` when `deadline_ms` is reached."""
        self._number += 1
        heappush(self._heap, (deadline_ms, self._number, call, arguments))

    def deadline_ms(self) -> int | None:
        """The next deadline."""
        return self._heap[0][0] if self._heap else None

    def run(self, now: Now) -> None:
        """Do everything that is due."""
        while self._heap and self._heap[0][0] <= now.ms:
            _, _, call, arguments = heappop(self._heap)
            call(*arguments, now)


class Environment:
    """Made once for a coordinator. `boot_secret`: bytes of this boot, the same after a restart of the process."""

    def __init__(
        self, settings: GroupSettings, table: GroupTable, has_partition: HasPartition, boot_secret: bytes
    ) -> None:
        self.settings = settings
        self.table = table
        self.has_partition = has_partition
        self.timers = Timers()
        self.counts = Counts()
        self._boot_secret = boot_secret
        self._effects: list[Effect] = []
        self._appends = 0
        self._parked: Counter[int] = Counter()

    def take_effects(self) -> list[Effect]:
        """The effects since the last call, in order."""
        taken, self._effects = self._effects, []
        return taken

    def answer(self, token: Token, message: Struct) -> None:
        """Answer a request that is not parked."""
        self._effects.append(Answer(token, message))

    def next_append(self) -> int:
        """A number for an append; later appends have higher ones."""
        self._appends += 1
        return self._appends

    def append(self, append: Append) -> None:
        """Ask the shell to append."""
        self._effects.append(append)

    def may_park(self, lane: int) -> bool:
        """Whether one more request of this processor may wait."""
        return self._parked[lane] < self.settings.max_parked

    def count_parked(self, lane: int, difference: int) -> None:
        """One more request of this processor waits (1), or one fewer (-1)."""
        self._parked[lane] += difference
        self.counts.parked += difference

    def new_member_id(self, prefix: str, identity: bytes) -> str:
        """An id nobody can guess, the same whenever this request runs: prefix and something that looks like a UUID."""
        digest = hashlib.blake2b(identity, key=self._boot_secret, digest_size=16).hexdigest()
        return f"{prefix}-{digest[:8]}-{digest[8:12]}-{digest[12:16]}-{digest[16:20]}-{digest[20:]}"
