"""A process that does nothing but sleep for milliseconds: where it wakes late, the machine stood still or had no time
for anybody, and a gap that something else measured then says nothing about what it measured."""

from __future__ import annotations

import multiprocessing
import time
from multiprocessing.connection import Connection
from typing import Final

NAP_S: Final = 0.005
LATE_S: Final = 0.1


class Witness:
    """`with Witness() as witness: …`, then `lateness_s(from, to)`, both of time.monotonic()."""

    def __enter__(self) -> Witness:
        self._line, theirs = multiprocessing.Pipe()
        self._process = multiprocessing.get_context("fork").Process(target=_watch, args=(theirs,), daemon=True)
        self._process.start()
        self._late: list[tuple[float, float]] = []
        return self

    def __exit__(self, *raised: object) -> None:
        self._line.send("over")
        self._late = self._line.recv()
        self._process.join()

    def lateness_s(self, began_s: float, ended_s: float) -> float:
        """How much of a time was lost, in naps that took a tenth of a second longer than they should."""
        return sum(max(0.0, min(ended_s, to) - max(began_s, since)) for since, to in self._late)


def _watch(line: Connection) -> None:
    late = []
    before = time.monotonic()
    while not line.poll(NAP_S):
        now = time.monotonic()
        if now - before > NAP_S + LATE_S:
            late.append((before + NAP_S, now))
        before = now
    line.send(late)
