"""A chunk of requests as numpy columns, whatever it was read from, and the tables made of it. Pure (numpy, pyarrow).

Raw records (decode.py) and compacted files (CompactColumns) fill the same columns, so everything after them is one
code.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from mpbroker.analysis.engine.input.columns import COMPACT, FRAME, SHARED, TIMESTAMP
from mpbroker.analysis.engine.input.durations import ASKED_KINDS, ASKED_WAIT, MISSING_TICKS, SPANS, STORED, SUMS, Sum
from mpbroker.analysis.engine.mathematics.histogram import Int64s
from mpbroker.trace.record import TICK_SHIFT

Bools = npt.NDArray[np.bool_]
Codes = npt.NDArray[Any]
NONE = -1  # in a column of numbers that a frame shows as null


class ColumnSet(ABC):
    """Columns of COMPACT, and `epoch_ns`. `numbers` are signed, missing is -1; strings are codes into a list."""

    rows: int

    @abstractmethod
    def numbers(self, name: str) -> npt.NDArray[Any]:
        """A numeric column."""

    @abstractmethod
    def labels(self, name: str) -> tuple[Codes, list[str | None]]:
        """A column of strings: an index per row, and the strings."""

    @abstractmethod
    def only(self, rows: Bools | Int64s) -> "ColumnSet":
        """Some of the rows, by mask or by place."""

    def ticks(self, name: str) -> Int64s:
        """A stored duration or one derived from such, in ticks; -1 when missing."""
        if name in SUMS:
            return self.sum_of(SUMS[name])
        if name == ASKED_WAIT:
            codes, kinds = self.labels("purg_kind")
            asked = np.array([kind in ASKED_KINDS for kind in kinds], np.bool_)
            return np.where(asked[codes], self.ticks("purgatory"), MISSING_TICKS)
        return self.numbers(f"{name}_ticks").astype(np.int64, copy=False)

    def sum_of(self, wanted: Sum) -> Int64s:
        """Ticks, -1 when a part that must be there is missing."""
        total = np.zeros(self.rows, np.int64)
        there = np.ones(self.rows, np.bool_)
        for sign, names in ((1, wanted.parts), (-1, wanted.less)):
            for name in names:
                part = self.ticks(name)
                there &= part >= 0
                total += sign * part
        for sign, names in ((1, wanted.optional), (-1, wanted.less_optional)):
            for name in names:
                total += sign * np.maximum(self.ticks(name), 0)
        # `less` is a part of the whole, unless a stage lies before its predecessor (flag BACKWARDS).
        return np.where(there, np.maximum(total, 0), MISSING_TICKS)


class CompactColumns(ColumnSet):
    """A record batch of a compacted file (any columns of COMPACT)."""

    def __init__(self, batch: pa.RecordBatch | pa.Table) -> None:
        self._batch = batch
        self.rows = batch.num_rows

    def numbers(self, name: str) -> npt.NDArray[Any]:
        if name == "epoch_ns":
            epoch_ns: npt.NDArray[Any] = self.numbers("ts") * 1000 + self.numbers("ts_ns")
            return epoch_ns
        if name == "t0_ns":
            t0_ns: npt.NDArray[Any] = self.numbers("epoch_ns") - self.numbers("clock_offset_ns")
            return t0_ns
        column = self._column(name)
        if name == "ts":
            column = column.cast(pa.int64())
        found: npt.NDArray[Any] = (column.fill_null(NONE) if column.null_count else column).to_numpy(
            zero_copy_only=False
        )
        return found

    def labels(self, name: str) -> tuple[Codes, list[str | None]]:
        column = self._column(name)
        if not pa.types.is_dictionary(column.type):
            column = column.dictionary_encode()
        strings = column.dictionary.to_pylist()
        codes = column.indices
        if codes.null_count == 0:
            return codes.to_numpy(), strings
        return codes.fill_null(len(strings)).to_numpy(zero_copy_only=False), [*strings, None]

    def only(self, rows: Bools | Int64s) -> ColumnSet:
        wanted = pa.array(rows)
        return CompactColumns(self._batch.filter(wanted) if rows.dtype == np.bool_ else self._batch.take(wanted))

    def _column(self, name: str) -> pa.Array:
        column = self._batch.column(name)
        return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def compact_table(source: ColumnSet) -> pa.Table:
    """All columns of COMPACT."""
    arrays = {name: _shared(source, name, kind) for name, kind in SHARED.items()}
    for name in COMPACT.names[len(SHARED) :]:
        arrays[name] = pa.array(source.numbers(name), COMPACT.field(name).type, safe=False)
    return pa.table([arrays[name] for name in COMPACT.names], schema=COMPACT)


def frame_table(source: ColumnSet, columns: Sequence[str] | None = None) -> pa.Table:
    """Columns of FRAME (None: all), in the order asked for. KeyError for an unknown name."""
    schema = FRAME if columns is None else pa.schema([FRAME.field(name) for name in columns])
    return pa.table([_frame_column(source, field) for field in schema], schema=schema)


def needed_compact(frame_columns: Sequence[str]) -> list[str]:
    """The columns of COMPACT that these columns of a frame are made from."""
    found: set[str] = set()
    for name in frame_columns:
        found |= _NEEDED.get(name, {name})
        if name.endswith("_ns") and name not in _NEEDED:
            found.discard(name)
            found |= stored_of(name.removesuffix("_ns"))
    return [name for name in COMPACT.names if name in found]


def stored_of(duration: str) -> set[str]:
    """The columns of COMPACT that a duration is made from."""
    if duration == ASKED_WAIT:
        return {"purgatory_ticks", "purg_kind"}
    parts = SUMS.get(duration)
    return (
        {f"{duration}_ticks"} if parts is None else set().union(*(stored_of(part) for each in parts for part in each))
    )


_NEEDED = {"epoch_ns": {"ts", "ts_ns"}, "t0_ns": {"ts", "ts_ns", "clock_offset_ns"}}
_DURATIONS = {f"{name}_ns": name for name in (*STORED, ASKED_WAIT, *SUMS)}
assert set(SPANS) < set(STORED)


def _frame_column(source: ColumnSet, field: pa.Field) -> pa.Array:
    if field.name in SHARED:
        return _shared(source, field.name, field.type)
    if field.name in _DURATIONS:
        return _nanoseconds(source.ticks(_DURATIONS[field.name]))
    if field.name == "handler_cpu_ns":
        return _nanoseconds(source.numbers("handler_cpu_ticks").astype(np.int64))
    return pa.array(source.numbers(field.name), field.type)


def _nanoseconds(ticks: Int64s) -> pa.Array:
    return pa.array(ticks << TICK_SHIFT, pa.int64(), mask=ticks < 0)


def _shared(source: ColumnSet, name: str, kind: pa.DataType) -> pa.Array:
    make: Callable[..., pa.Array] = pa.array
    if pa.types.is_string(kind):
        codes, strings = source.labels(name)
        return make(strings, pa.string()).take(make(codes))
    numbers = source.numbers(name)
    if name == "ts":
        return make(numbers, pa.int64()).cast(TIMESTAMP)
    return make(numbers, kind, mask=numbers == NONE if name == "handler" else None)


def sorted_table(table: pa.Table, keys: Sequence[str]) -> pa.Table:
    """Rows rising by these columns, null last: the order both engines give their tables in."""
    order = [(name, "ascending") for name in keys]
    return table.take(pc.sort_indices(table, sort_keys=order))
