"""Adds up chunks of requests into the tables of an engine, in whole numbers and in bounded memory. Pure (numpy,
pyarrow).

A chunk becomes rows (group, key, sums…) at once; what is kept are such rows, merged whenever they have become many. So
memory follows the result's size, not the trace's.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from mpbroker.analysis.engine.input.column_set import NONE, ColumnSet, sorted_table
from mpbroker.analysis.engine.input.columns import FRAME
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


class Groups:
    """Numbers for the groups met so far: (window, values of `by`) → 0, 1, 2 …"""

    def __init__(self, window_ms: int, by: Sequence[str]) -> None:
        self._window_ns = window_ms * 1_000_000
        self._window_ms = window_ms
        self.by = tuple(by)
        self._number: dict[tuple[Any, ...], int] = {}

    def of(self, chunk: ColumnSet) -> Int64s:
        """The group of each row."""
        if self._window_ms:
            windows, codes = np.unique(chunk.numbers("epoch_ns") // self._window_ns, return_inverse=True)
            values: list[list[Any]] = [(windows * self._window_ms).tolist()]
        else:
            codes, values = np.zeros(chunk.rows, np.int64), [[0]]
        for name in self.by:
            mine, labels = self._coded(chunk, name)
            values.append(labels)
            codes = codes * len(labels) + mine
        present, places = np.unique(codes, return_inverse=True)
        numbers = [self._number_of(int(code), values) for code in present]
        return np.array(numbers, np.int64)[places] if numbers else places

    def _coded(self, chunk: ColumnSet, name: str) -> tuple[Int64s, list[Any]]:
        if pa.types.is_string(FRAME.field(name).type):
            return chunk.labels(name)
        found, codes = np.unique(chunk.numbers(name), return_inverse=True)
        return codes, [None if name == "handler" and value == NONE else value for value in found.tolist()]

    def _number_of(self, code: int, values: list[list[Any]]) -> int:
        key = []
        for one in reversed(values):
            code, place = divmod(code, len(one))
            key.append(one[place])
        return self._number.setdefault(tuple(reversed(key)), len(self._number))

    def columns(self, numbers: Int64s) -> dict[str, pa.Array]:
        """window_ms and `by` for rows of these groups."""
        keys = list(zip(*self._number, strict=True)) or [()] * (1 + len(self.by))
        kinds = [pa.int64(), *(FRAME.field(name).type for name in self.by)]
        places = pa.array(numbers)
        return {
            name: pa.array(column, kind).take(places)
            for name, column, kind in zip(("window_ms", *self.by), keys, kinds, strict=True)
        }


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
    """The rollup of the chunks added."""

    def __init__(self, window_ms: int, by: Sequence[str]) -> None:
        self._groups = Groups(window_ms, by)
        self._sums = SparseSums(sums=2, maxima=1)

    def add(self, chunk: ColumnSet) -> None:
        """Count a chunk in."""
        if chunk.rows == 0:
            return
        present, group = np.unique(self._groups.of(chunk), return_inverse=True)
        weight = chunk.numbers("weight").astype(np.int64)
        for number, stage in enumerate(ROLLUP_STAGES):
            ticks = chunk.ticks(stage)
            there = ticks >= 0
            if there.all():
                cell, counts, sums, greatest = _histogram(group, ticks, weight, len(present))
            else:
                cell, counts, sums, greatest = _histogram(group[there], ticks[there], weight[there], len(present))
            row, bucket = np.divmod(cell, BUCKETS)
            key = (present[row] * len(ROLLUP_STAGES) + number) * BUCKETS + bucket
            self._sums.add(key, counts, sums << TICK_SHIFT, greatest << TICK_SHIFT)

    def table(self) -> pa.Table:
        """As Engine.rollup gives it."""
        key, n, sum_ns, max_ns = self._sums.merged()
        rest, bucket = np.divmod(key, BUCKETS)
        group, stage = np.divmod(rest, len(ROLLUP_STAGES))
        columns = self._groups.columns(group)
        columns["stage"] = pa.array(ROLLUP_STAGES, pa.string()).take(pa.array(stage))
        columns["bucket"] = pa.array(bucket, pa.int32())
        columns |= {"n": pa.array(n), "sum_ns": pa.array(sum_ns), "max_ns": pa.array(max_ns)}
        return sorted_table(pa.table(columns), ("window_ms", *self._groups.by, "stage", "bucket"))


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


class ActivitySums:
    """The activity of the chunks added."""

    def __init__(self, window_ms: int, by: Sequence[str]) -> None:
        self._groups = Groups(window_ms, by)
        self._sums = SparseSums(sums=len(ACTIVITY_SUMS), maxima=2)

    def add(self, chunk: ColumnSet) -> None:
        """Count a chunk in."""
        if chunk.rows == 0:
            return
        present, group = np.unique(self._groups.of(chunk), return_inverse=True)
        epoch_ns = chunk.numbers("epoch_ns")
        sums = [_add_up(group, values, len(present)) for values in _activity_values(chunk)]
        ends = []
        for values in (-epoch_ns, epoch_ns):  # the least, as the greatest of the negative
            greatest = np.full(len(present), np.iinfo(np.int64).min)
            np.maximum.at(greatest, group, values)
            ends.append(greatest)
        self._sums.add(present, *sums, *ends)

    def table(self) -> pa.Table:
        """As Engine.activity gives it."""
        group, *values = self._sums.merged()
        values[-2] = -values[-2]
        columns = self._groups.columns(group)
        columns |= {name: pa.array(one) for name, one in zip(ACTIVITY_COLUMNS, values, strict=True)}
        return sorted_table(pa.table(columns), ("window_ms", *self._groups.by))


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
