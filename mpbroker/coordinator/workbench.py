"""What the logic of groups and that of transactions work with alike: effects of the call in progress, deadlines, how
many requests wait. Runs in the coordinator process; nothing here does I/O or reads a clock."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any

from mpbroker.coordinator.effects import Answer, Effect, Now, Token
from mpbroker.protocol.types import Struct


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


LEFT_ENTRIES = 2048


def most_parked(entries: int) -> int:
    """How many requests of a processor may wait that has room for so many: the others are what it serves with."""
    return max(entries // 2, entries - LEFT_ENTRIES)


class Workbench:
    """`max_parked`: how many requests of one processor may wait."""

    def __init__(self, max_parked: int) -> None:
        self.timers = Timers()
        self._max_parked = max_parked
        self._effects: list[Effect] = []
        self._number = 0
        self._parked: Counter[int] = Counter()

    def take_effects(self) -> list[Effect]:
        """The effects since the last call, in order."""
        taken, self._effects = self._effects, []
        return taken

    def answer(self, token: Token, message: Struct) -> None:
        """Answer a request that is not parked."""
        self._effects.append(Answer(token, message))

    def ask(self, effect: Effect) -> None:
        """Ask the shell for something."""
        self._effects.append(effect)

    def next_number(self) -> int:
        """A number for an append, or for another effect that is reported back; later ones have higher ones."""
        self._number += 1
        return self._number

    def may_park(self, lane: int) -> bool:
        """Whether one more request of this processor may wait."""
        return self._parked[lane] < self._max_parked

    def count_parked(self, lane: int, difference: int) -> None:
        """One more request of this processor waits (1), or one fewer (-1)."""
        self._parked[lane] += difference
