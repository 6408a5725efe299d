"""Numbers for the groups that requests fall into, chunk by chunk. Pure (numpy, pyarrow)."""

from collections.abc import Sequence
from math import gcd
from typing import Any

import numpy as np
import pyarrow as pa

from mpbroker.analysis.engine.engines.engine import GROUPS, Ask
from mpbroker.analysis.engine.input.column_set import NONE, ColumnSet
from mpbroker.analysis.engine.input.columns import FRAME
from mpbroker.analysis.engine.mathematics.histogram import Int64s


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
            mine, labels = coded(chunk, name)
            values.append(labels)
            codes = codes * len(labels) + mine
        present, places = np.unique(codes, return_inverse=True)
        numbers = [self._number_of(int(code), values) for code in present]
        return np.array(numbers, np.int64)[places] if numbers else places

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


def coded(chunk: ColumnSet, name: str) -> tuple[Int64s, list[Any]]:
    """A column as an index per row, and the values."""
    if pa.types.is_string(FRAME.field(name).type):
        return chunk.labels(name)
    found, codes = np.unique(chunk.numbers(name), return_inverse=True)
    return codes, [None if name == "handler" and value == NONE else value for value in found.tolist()]


class JointGroups:
    """The finest groups that several tables need: what is counted by them once adds up to each of the tables."""

    def __init__(self, asks: Sequence[Ask]) -> None:
        self._window_ns = gcd(*(ask.window_ms for ask in asks)) * 1_000_000
        self._by = [name for name in GROUPS if any(name in ask.by for ask in asks)]

    def of(self, chunk: ColumnSet) -> tuple[Int64s, Int64s]:
        """A row of each group in the chunk, and the group of each row."""
        codes = np.zeros(chunk.rows, np.int64)
        if self._window_ns:
            windows = chunk.numbers("epoch_ns") // self._window_ns
            codes += windows - windows.min()
        for name in self._by:
            mine, labels = coded(chunk, name)
            _, codes = np.unique(codes, return_inverse=True) if codes.max() >> 32 else (None, codes)
            codes = codes * len(labels) + mine
        _, first, group = np.unique(codes, return_index=True, return_inverse=True)
        return first, group
