"""Adds up chunks of requests into the tables of an engine, in whole numbers and in bounded memory. Pure (numpy,
pyarrow).

A chunk becomes rows (group, key, sums…) at once; what is kept are such rows, merged whenever they have become many. So
memory follows the result's size, not the trace's.
"""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from mpbroker.analysis.engine.engines.engine import Ask
from mpbroker.analysis.engine.engines.groups import Groups, JointGroups
from mpbroker.analysis.engine.input.column_set import ColumnSet, sorted_table, stored_of
from mpbroker.analysis.engine.input.durations import BACKWARDS, HANDLER_TIME, ROLLUP_STAGES
from mpbroker.analysis.engine.mathematics.histogram import BUCKETS, Int64s, buckets_of_ticks
from mpbroker.trace.record import HAS_SATURATED, TICK_SHIFT

MERGE_ROWS = 1 << 18
_EXACT = 1 << 53  # sums of floats below this are exact
_DENSE_CELLS = 1 << 22

ACTIVITY_SUMS = (
    "n",
    "errors",
    "req_bytes",
    "resp_bytes",
    "throttled",
    "aux_sum",
    "handler_ns",
    "saturated",
    "backwards",
)
ACTIVITY_COLUMNS = (*ACTIVITY_SUMS, "first_epoch_ns", "last_epoch_ns")
_ROLLUP_NEEDS = {"weight", *set().union(*map(stored_of, ROLLUP_STAGES))}
_ACTIVITY_NEEDS = {"ts", "ts_ns", "weight", "flags", "error", "req_bytes", "resp_bytes", "throttle_ms", "aux"}
_ACTIVITY_NEEDS |= {f"{name}_ticks" for name in (*HANDLER_TIME.parts, *HANDLER_TIME.optional)}


def needed(asks: Sequence[Ask]) -> set[str]:
    """The columns of COMPACT that these tables are made from."""
    found: set[str] = set()
    for ask in asks:
        found |= {*ask.by, *(_ROLLUP_NEEDS if ask.kind == "rollup" else _ACTIVITY_NEEDS)}
        found |= {"ts", "ts_ns"} if ask.window_ms else set()
    return found


class SparseSums:
    """Rows of (key, sums…, maxima…), keys rising after a merge."""

    def __init__(self, sums: int, maxima: int) -> None:
        self._sums = sums
        self._pieces: list[Int64s] = []  # each of shape (1 + sums + maxima, rows)
        self._rows = 0
        self._limit = MERGE_ROWS
        self._width = 1 + sums + maxima

    def add(self, key: Int64s, *values: Int64s) -> None:
        """Rows; a key may come again."""
        self._pieces.append(np.vstack((key, *values)))
        self._rows += len(key)
        if self._rows > self._limit:
            self._limit = max(MERGE_ROWS, 2 * self.merged().shape[1])

    def merged(self) -> Int64s:
        """All rows, one per key: (1 + sums + maxima, keys)."""
        whole = np.concatenate(self._pieces, axis=1) if self._pieces else np.empty((self._width, 0), np.int64)
        if whole.shape[1]:
            whole = whole[:, np.argsort(whole[0], kind="stable")]
            starts = np.flatnonzero(np.diff(whole[0], prepend=whole[0][0] - 1))
            whole = np.vstack(
                (
                    whole[0][starts],
                    np.add.reduceat(whole[1 : 1 + self._sums], starts, axis=1),
                    np.maximum.reduceat(whole[1 + self._sums :], starts, axis=1),
                )
            )
        self._pieces, self._rows = [whole], whole.shape[1]
        return whole


class RollupSums:
    """One rollup."""

    def __init__(self, ask: Ask) -> None:
        self.groups = Groups(ask.window_ms, ask.by)
        self._sums = SparseSums(sums=2, maxima=1)

    def add(self, stage: int, group: Int64s, bucket: Int64s, n: Int64s, sum_ns: Int64s, max_ns: Int64s) -> None:
        """Cells of one stage; a cell may come again."""
        self._sums.add((group * len(ROLLUP_STAGES) + stage) * BUCKETS + bucket, n, sum_ns, max_ns)

    def table(self) -> pa.Table:
        """As Engine.rollup gives it."""
        key, n, sum_ns, max_ns = self._sums.merged()
        rest, bucket = np.divmod(key, BUCKETS)
        group, stage = np.divmod(rest, len(ROLLUP_STAGES))
        columns = self.groups.columns(group)
        columns["stage"] = pa.array(ROLLUP_STAGES, pa.string()).take(pa.array(stage))
        columns["bucket"] = pa.array(bucket, pa.int32())
        columns |= {"n": pa.array(n), "sum_ns": pa.array(sum_ns), "max_ns": pa.array(max_ns)}
        return sorted_table(pa.table(columns), ("window_ms", *self.groups.by, "stage", "bucket"))


class ActivitySums:
    """One activity."""

    def __init__(self, ask: Ask) -> None:
        self.groups = Groups(ask.window_ms, ask.by)
        self._sums = SparseSums(sums=len(ACTIVITY_SUMS), maxima=2)

    def add(self, group: Int64s, values: Sequence[Int64s]) -> None:
        """Sums, and the negative of the first time, and the last; a group may come again."""
        self._sums.add(group, *values)

    def table(self) -> pa.Table:
        """As Engine.activity gives it."""
        group, *values = self._sums.merged()
        values[-2] = -values[-2]
        columns = self.groups.columns(group)
        columns |= {name: pa.array(one) for name, one in zip(ACTIVITY_COLUMNS, values, strict=True)}
        return sorted_table(pa.table(columns), ("window_ms", *self.groups.by))


class AskSums:
    """All tables asked for, of the chunks added. Each chunk is counted once, by the finest groups; cells are added."""

    def __init__(self, asks: Sequence[Ask]) -> None:
        self._rollups = {place: RollupSums(ask) for place, ask in enumerate(asks) if ask.kind == "rollup"}
        self._activities = {place: ActivitySums(ask) for place, ask in enumerate(asks) if ask.kind == "activity"}
        self._joint = JointGroups(asks)

    def add(self, chunk: ColumnSet) -> None:
        """Count a chunk in."""
        if chunk.rows == 0:
            return
        first, group = self._joint.of(chunk)
        seen = chunk.only(first)
        if self._rollups:
            _add_durations(chunk, group, len(first), [(one, one.groups.of(seen)) for one in self._rollups.values()])
        if self._activities:
            values = _activity_of(chunk, group, len(first))
            for one in self._activities.values():
                one.add(one.groups.of(seen), values)

    def tables(self) -> list[pa.Table]:
        """In the order of the asks."""
        found = {place: one.table() for place, one in self._rollups.items()}
        found |= {place: one.table() for place, one in self._activities.items()}
        return [found[place] for place in sorted(found)]


def _add_durations(chunk: ColumnSet, group: Int64s, groups: int, into: list[tuple[RollupSums, Int64s]]) -> None:
    weight = chunk.numbers("weight").astype(np.int64)
    for stage, name in enumerate(ROLLUP_STAGES):
        ticks = chunk.ticks(name)
        there = ticks >= 0
        if there.all():
            cell, counts, sums, greatest = _histogram(group, ticks, weight, groups)
        else:
            cell, counts, sums, greatest = _histogram(group[there], ticks[there], weight[there], groups)
        row, bucket = np.divmod(cell, BUCKETS)
        for one, numbers in into:
            one.add(stage, numbers[row], bucket, counts, sums << TICK_SHIFT, greatest << TICK_SHIFT)


def _histogram(group: Int64s, ticks: Int64s, weight: Int64s, groups: int) -> tuple[Int64s, Int64s, Int64s, Int64s]:
    """Cells (group * BUCKETS + bucket) that have rows: their weighted number, sum and greatest."""
    cell = group * BUCKETS + buckets_of_ticks(ticks)
    cells = groups * BUCKETS
    if cells > _DENSE_CELLS:
        found, place = np.unique(cell, return_inverse=True)
        counts, sums, greatest = _sums(place, ticks, weight, len(found))
        return found, counts, sums, greatest
    counts, sums, greatest = _sums(cell, ticks, weight, cells)
    found = np.flatnonzero(counts)
    return found, counts[found], sums[found], greatest[found]


def _sums(place: Int64s, ticks: Int64s, weight: Int64s, places: int) -> tuple[Int64s, Int64s, Int64s]:
    greatest = np.zeros(places, np.int64)
    np.maximum.at(greatest, place, ticks)
    return _add_up(place, weight, places), _add_up(place, ticks * weight, places), greatest


def _add_up(place: Int64s, values: Int64s, places: int) -> Int64s:
    """Sums of whole numbers by place; through floats, which is quicker, where they are exact."""
    if len(values) and int(values.max()) * len(values) >= _EXACT:
        sums = np.zeros(places, np.int64)
        np.add.at(sums, place, values)
        return sums
    return np.bincount(place, weights=values, minlength=places).astype(np.int64)


def _activity_of(chunk: ColumnSet, group: Int64s, groups: int) -> list[Int64s]:
    epoch_ns = chunk.numbers("epoch_ns")
    found = [_add_up(group, values, groups) for values in _activity_values(chunk)]
    for values in (-epoch_ns, epoch_ns):  # the least, as the greatest of the negative
        greatest = np.full(groups, np.iinfo(np.int64).min)
        np.maximum.at(greatest, group, values)
        found.append(greatest)
    return found


def _activity_values(chunk: ColumnSet) -> list[Int64s]:
    """In the order of ACTIVITY_SUMS, weighted."""
    weight = chunk.numbers("weight").astype(np.int64)
    flags = chunk.numbers("flags")
    plain = (
        np.ones(chunk.rows, np.int64),
        chunk.numbers("error") != 0,
        chunk.numbers("req_bytes"),
        chunk.numbers("resp_bytes"),
        chunk.numbers("throttle_ms") > 0,
        chunk.numbers("aux"),
        np.maximum(chunk.sum_of(HANDLER_TIME), 0) << TICK_SHIFT,
        flags & HAS_SATURATED != 0,
        flags & BACKWARDS != 0,
    )
    return [values * weight for values in plain]
