"""The engine on one machine: numpy and pyarrow, one chunk of 65,536 requests after the other, in bounded memory.

Runs in a command's process. Gives the same integers as the Spark engine (tests/integration compares them).
"""

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from mpbroker.analysis.engine.engines.accumulate import AskSums, needed
from mpbroker.analysis.engine.engines.engine import Ask, Engine, EngineError, Where
from mpbroker.analysis.engine.input.column_set import ColumnSet, CompactColumns, frame_table, needed_compact
from mpbroker.analysis.engine.input.columns import FRAME
from mpbroker.analysis.engine.input.decode import RawColumns, requests_of, within
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
        names = list(FRAME.names if columns is None else columns)
        order = _order_of(names, where)
        wanted = [*names, *(name for name, _ in order if name not in names)]
        read = {*needed_compact([*wanted, "epoch_ns"]), "api", "plane", "total_ticks"}
        found, rows = [FRAME.empty_table().select(wanted)], 0
        for chunk in self.chunks(read):
            kept = chunk.only(_mask(chunk, where))
            if kept.rows == 0:
                continue
            found.append(frame_table(kept, wanted))
            rows += kept.rows
            if where.limit is not None and rows > where.limit + CHUNK_RECORDS:
                found = [_first(pa.concat_tables(found), order, where.limit)]
                rows = found[0].num_rows
                if not order:
                    break
        return _first(pa.concat_tables(found), order, where.limit).select(names)

    def chunks(self, compact_columns: set[str]) -> Iterator[ColumnSet]:
        """The input's requests; of compacted files these columns of COMPACT."""
        return self._compact_chunks(compact_columns) if self.input.parquet else self._raw_chunks()

    def _raw_chunks(self) -> Iterator[ColumnSet]:
        for info in self.input.segments:
            context = self.input.context(info)
            for data in segment.read_chunks(info, CHUNK_RECORDS):
                yield RawColumns(requests_of(data, context, self.input.rows), context)

    def _compact_chunks(self, columns: set[str]) -> Iterator[ColumnSet]:
        rows = self.input.rows
        limited = rows.from_ns is not None or rows.to_ns is not None
        names = sorted(columns | ({"ts", "ts_ns"} if limited else set()) | ({"api"} if rows.apis else set()))
        for path in self.input.parquet_files:
            with pq.ParquetFile(path, read_dictionary=list(_STRINGS)) as file:
                for batch in file.iter_batches(CHUNK_RECORDS, columns=names):
                    chunk = CompactColumns(batch)
                    yield (
                        chunk.only(_mask(chunk, Where(rows.from_ns, rows.to_ns, rows.apis)))
                        if limited or rows.apis
                        else chunk
                    )


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


def _first(table: pa.Table, order: list[tuple[str, str]], limit: int | None) -> pa.Table:
    if order:
        table = table.take(pc.sort_indices(table, sort_keys=order))
    return table if limit is None else table.slice(0, limit)
