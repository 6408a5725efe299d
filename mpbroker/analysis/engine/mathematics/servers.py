"""When every server of a queue was busy, from the intervals in which each served. Pure (numpy); exact whole numbers.

All times are int64 nanoseconds of one clock. A server is one process that does one thing at a time.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from mpbroker.analysis.engine.mathematics.histogram import Int64s


class Spells(NamedTuple):
    """A condition that holds from some moments on and not from others: `at` ascending, `holds` from each on,
    `elapsed` ns for which it held before each."""

    at: Int64s
    holds: npt.NDArray[np.bool_]
    elapsed: Int64s

    def until(self, moments: Int64s) -> Int64s:
        """For how long it held before each moment."""
        if not len(self.at):
            return np.zeros(len(moments), np.int64)
        place = np.maximum(np.searchsorted(self.at, moments, side="right") - 1, 0)
        running = np.where(self.holds[place], np.maximum(moments - self.at[place], 0), 0)
        total: Int64s = self.elapsed[place] + running
        return total

    def within(self, begins: Int64s, ends: Int64s) -> Int64s:
        """For how long it held in each interval."""
        return self.until(ends) - self.until(begins)


def at_least(begins: Int64s, ends: Int64s, number: int) -> Spells:
    """When at least so many of the intervals ran at once."""
    at, place = np.unique(np.concatenate([begins, ends]), return_inverse=True)
    change = np.bincount(place[: len(begins)], minlength=len(at)) - np.bincount(place[len(begins) :], minlength=len(at))
    return _spells(at, np.cumsum(change) >= number)


def without(some: Spells, other: Spells) -> Spells:
    """When the first held and the second did not."""
    at = np.union1d(some.at, other.at)
    return _spells(at, _holds_at(some, at) & ~_holds_at(other, at))


def busy_until(server: Int64s, begins: Int64s, ends: Int64s, enqueued: Int64s) -> Int64s:
    """The ends, later where the server's next request waited already when it let go of this one: then it did not rest
    between the two."""
    order = np.lexsort((begins, server))
    this, following = order[:-1], order[1:]
    stays = (server[this] == server[following]) & (enqueued[following] <= ends[this])
    later = ends.copy()
    later[this[stays]] = np.maximum(ends[this[stays]], begins[following[stays]])
    return later


def _holds_at(spells: Spells, moments: Int64s) -> npt.NDArray[np.bool_]:
    if not len(spells.at):
        return np.zeros(len(moments), np.bool_)
    place = np.searchsorted(spells.at, moments, side="right") - 1
    return np.asarray((place >= 0) & spells.holds[np.maximum(place, 0)], np.bool_)


def _spells(at: Int64s, holds: npt.NDArray[np.bool_]) -> Spells:
    lengths = np.where(holds[:-1], np.diff(at), 0) if len(at) else np.empty(0, np.int64)
    elapsed = np.concatenate([np.zeros(min(1, len(at)), np.int64), np.cumsum(lengths, dtype=np.int64)])
    return Spells(at, holds, elapsed)
