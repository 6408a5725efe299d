"""Writes the Parquet files of one part of a compacted trace. Used by compaction alone.

Encodings that every Spark since 3.3, DuckDB and polars read: deltas for what rises or varies little, dictionaries for
what repeats, zstd over both, no unsigned type, no BYTE_STREAM_SPLIT. Statistics and page indexes are on, rows sorted by
time.
"""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from mpbroker.analysis.engine.input.columns import COMPACT
from mpbroker.analysis.engine.input.compact_header import CompactFile

FILE_ROWS = 8_000_000  # about 256 MB
GROUP_ROWS = 1 << 18
_DELTA = {
    "ts",
    "ts_ns",
    "clock_offset_ns",
    "seq",
    "corr_id",
    *(name for name in COMPACT.names if name.endswith("_ticks")),
}
_DICTIONARY = [name for name in COMPACT.names if name not in _DELTA]
_NOTHING = CompactFile("", 0, "", 0, 0, 0, ())


class CompactWriter:
    """One part's file after the other; small tables are gathered into row groups."""

    def __init__(self, root: Path, folder: str) -> None:
        self._root = root
        self._folder = folder
        self._waiting: list[pa.Table] = []
        self._waiting_rows = 0
        self._writer: pq.ParquetWriter | None = None
        self._file = _NOTHING

    def add(self, table: pa.Table) -> list[CompactFile]:
        """Rows later than those before, of one run and broker; returns the file that this has completed, if any."""
        self._waiting.append(table)
        self._waiting_rows += table.num_rows
        if self._waiting_rows >= GROUP_ROWS:
            self._flush()
        return self.close() if self._file.rows >= FILE_ROWS else []

    def close(self) -> list[CompactFile]:
        """End the present file, if there is one; returns what the head says about it."""
        self._flush()
        if self._writer is None:
            return []
        self._writer.close()
        done, self._writer, self._file = self._file, None, _NOTHING
        return [done]

    def _flush(self) -> None:
        if not self._waiting_rows:
            return
        table = pa.concat_tables(self._waiting)
        self._waiting, self._waiting_rows = [], 0
        if self._writer is None:
            self._open(table)
        assert self._writer is not None
        self._writer.write_table(table, row_group_size=max(GROUP_ROWS, table.num_rows))
        first, last = (_epoch_ns(table, row) for row in (0, table.num_rows - 1))
        apis = set(self._file.apis) | set(table.column("api").unique().to_pylist())
        self._file = self._file._replace(
            rows=self._file.rows + table.num_rows,
            epoch_max_ns=last,
            epoch_min_ns=self._file.epoch_min_ns if self._file.rows else first,
            apis=tuple(sorted(apis)),
        )

    def _open(self, table: pa.Table) -> None:
        run, broker, ring, seq = (table.column(name)[0].as_py() for name in ("run", "broker", "ring", "seq"))
        path = f"{self._folder}/part-{run}-r{ring:02d}-{seq:020d}.parquet"
        (self._root / path).parent.mkdir(parents=True, exist_ok=True)
        self._file = CompactFile(path, broker, run, 0, 0, 0, ())
        self._writer = pq.ParquetWriter(
            self._root / path,
            COMPACT,
            compression="zstd",
            compression_level=1,
            use_dictionary=_DICTIONARY,
            column_encoding=dict.fromkeys(_DELTA, "DELTA_BINARY_PACKED"),
            write_statistics=True,
            write_page_index=True,
            sorting_columns=[pq.SortingColumn(COMPACT.get_field_index("ts"))],
        )


def _epoch_ns(table: pa.Table, row: int) -> int:
    return int(table.column("ts")[row].value) * 1000 + int(table.column("ts_ns")[row].as_py())
