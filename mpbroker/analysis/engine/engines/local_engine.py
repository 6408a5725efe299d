"""The engine on one machine: numpy and pyarrow, one chunk of 65,536 requests after the other, in bounded memory.

Runs in a command's process. Gives the same integers as the Spark engine (tests/integration compares them).
"""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from mpbroker.analysis.engine.engines.accumulate import AskSums, needed
from mpbroker.analysis.engine.engines.engine import Ask, Engine, EngineError, Where
from mpbroker.analysis.engine.input.column_set import ColumnSet, CompactColumns, frame_table, needed_compact
from mpbroker.analysis.engine.input.columns import FRAME
from mpbroker.analysis.engine.input.decode import RawColumns, RowFilter, requests_of, within
from mpbroker.analysis.engine.input.durations import FRAME_DURATIONS
from mpbroker.analysis.engine.mathematics.histogram import Int64s
from mpbroker.trace import segment
from mpbroker.trace.record import TICK_SHIFT

CHUNK_RECORDS = 65536
#: Ties of an order, and what makes `requests` with a limit the same in every engine.
TIES = ("epoch_ns", "run", "broker", "ring", "seq")
_STRINGS = ("run", "client", "topic", "listener", "plane", "api", "purg_kind")


class LocalEngine(Engine):
    """Reads the files of its input once for every call."""

    name = "local"

    def tables(self, asks: Sequence[Ask]) -> list[pa.Table]:
        sums = AskSums(asks)
        for chunk in self.chunks(needed(asks)):
            sums.add(chunk)
        return sums.tables()

    def requests(self, columns: Sequence[str] | None = None, where: Where = Where()) -> pa.Table:
        wanted = Wanted.of(columns, where)
        return wanted.first([wanted.found(self.chunks(wanted.read))])

    def chunks(self, compact_columns: set[str]) -> Iterator[ColumnSet]:
        """The input's requests; of compacted files these columns of COMPACT."""
        return self._compact_chunks(compact_columns) if self.input.parquet else self._raw_chunks()

    def _raw_chunks(self) -> Iterator[ColumnSet]:
        for info in self.input.segments:
            context = self.input.context(info)
            for data in segment.read_chunks(info, CHUNK_RECORDS):
                yield RawColumns(requests_of(data, context, self.input.rows), context)

    def _compact_chunks(self, columns: set[str]) -> Iterator[ColumnSet]:
        for path in self.input.parquet_files:
            yield from compact_chunks(path, columns, self.input.rows)


def compact_chunks(
    path: Path | str, columns: set[str], rows: RowFilter, part: int = 0, parts: int = 1
) -> Iterator[ColumnSet]:
    """These columns of a compacted file's requests, as far as the filter lets them through; of its row groups only the
    share `part` of `parts`."""
    limited = rows.from_ns is not None or rows.to_ns is not None
    names = sorted(columns | ({"ts", "ts_ns"} if limited else set()) | ({"api"} if rows.apis else set()))
    with pq.ParquetFile(path, read_dictionary=list(_STRINGS)) as file:
        groups = file.metadata.num_row_groups
        mine = list(range(groups * part // parts, groups * (part + 1) // parts))
        for batch in file.iter_batches(CHUNK_RECORDS, row_groups=mine, columns=names):
            chunk = CompactColumns(batch)
            wanted = Where(rows.from_ns, rows.to_ns, rows.apis)
            yield chunk.only(_mask(chunk, wanted)) if limited or rows.apis else chunk


def _greatest(values: Int64s, limit: int | None) -> Int64s:
    return np.partition(values, -limit)[-limit:] if limit is not None and len(values) > limit else values


def _mask(chunk: ColumnSet, where: Where) -> np.ndarray:
    keep = np.ones(chunk.rows, np.bool_)
    if where.from_ns is not None or where.to_ns is not None:
        keep &= within(chunk.numbers("epoch_ns"), where.from_ns, where.to_ns)
    for name, wanted in (("api", where.apis), ("plane", where.planes)):
        if wanted is not None:
            codes, labels = chunk.labels(name)
            keep &= np.array([label in wanted for label in labels], np.bool_)[codes]
    if where.min_total_ns is not None:
        total = chunk.ticks("total")
        keep &= (total >= 0) & (total << TICK_SHIFT >= where.min_total_ns)
    return keep


class Wanted(NamedTuple):
    """Which requests, with which columns: of chunks anywhere, and of what several places have found. `least`: fewer
    ticks of the duration that is ordered by has none of those wanted."""

    names: tuple[str, ...]
    order: tuple[tuple[str, str], ...]
    where: Where
    least: int | None = None

    @classmethod
    def of(cls, columns: Sequence[str] | None, where: Where) -> "Wanted":
        """EngineError: there is no such column."""
        names = tuple(FRAME.names if columns is None else columns)
        return cls(names, tuple(_order_of(names, where)), where)

    @property
    def columns(self) -> list[str]:
        """Of FRAME, those that the order goes by included."""
        return [*self.names, *(name for name, _ in self.order if name not in self.names)]

    @property
    def read(self) -> set[str]:
        """Of COMPACT."""
        return {*needed_compact([*self.columns, "epoch_ns"]), "api", "plane", "total_ticks"}

    def found(self, chunks: Iterable[ColumnSet]) -> pa.Table:
        """What these chunks have; with a limit hardly more than that."""
        limit, found, rows = self.where.limit, [FRAME.empty_table().select(self.columns)], 0
        least = self.least
        for chunk in chunks:
            kept, least = self._foremost(chunk.only(_mask(chunk, self.where)), least)
            if kept.rows == 0:
                continue
            found.append(frame_table(kept, self.columns))
            rows += kept.rows
            if limit is not None and rows > limit + CHUNK_RECORDS:
                found = [self._sorted(pa.concat_tables(found)).slice(0, limit)]
                rows = found[0].num_rows
                if not self.order:
                    break
        return pa.concat_tables(found)

    @property
    def longest_of(self) -> str | None:
        """The duration of which the `limit` longest are wanted, if it is that."""
        name = (self.where.order or "").removeprefix("-").removesuffix("_ns")
        falls = self.where.order == f"-{name}_ns" and name in FRAME_DURATIONS
        return name if falls and self.where.limit else None

    def longest(self, chunks: Iterable[ColumnSet]) -> Int64s:
        """Ticks of the longest of these chunks, in no order."""
        found = np.empty(0, np.int64)
        for chunk in chunks:
            ticks = chunk.only(_mask(chunk, self.where)).ticks(str(self.longest_of))
            found = _greatest(np.concatenate((found, ticks)), self.where.limit)
        return found

    def _foremost(self, chunk: ColumnSet, least: int | None) -> tuple[ColumnSet, int | None]:
        """Without rows that cannot be among the longest, and the least that such a row has: most of a trace goes before
        its columns are made."""
        if self.longest_of is None:
            return chunk, least
        ticks = chunk.ticks(self.longest_of)
        if len(ticks) >= (self.where.limit or 0):
            reached = int(_greatest(ticks, self.where.limit).min())
            least = reached if least is None else max(least, reached)
        return (chunk, least) if least is None else (chunk.only(ticks >= least), least)

    def first(self, found: Sequence[pa.Table]) -> pa.Table:
        """In order, no more than the limit, without columns that were not asked for."""
        return self._sorted(pa.concat_tables(found)).slice(0, self.where.limit).select(list(self.names))

    def _sorted(self, table: pa.Table) -> pa.Table:
        return table.take(pc.sort_indices(table, sort_keys=list(self.order))) if self.order else table


def _order_of(names: Sequence[str], where: Where) -> list[tuple[str, str]]:
    """Sort keys with the ties after them; empty: no order."""
    if unknown := set(names) - set(FRAME.names):
        raise EngineError(f"requests have no column {', '.join(sorted(unknown))}; there are: {', '.join(FRAME.names)}")
    if where.order is None:
        return []
    name = where.order.removeprefix("-")
    if name not in FRAME.names:
        raise EngineError(f"requests have no column {name} to order by")
    direction = "descending" if where.order.startswith("-") else "ascending"
    return [(name, direction), *((tie, "ascending") for tie in TIES if tie != name)]
