"""`mpbtrace`: raw trace segments as a Spark data source, batch and stream.

    spark.dataSource.register(MpbTraceSource)
    spark.read.format("mpbtrace").option("apis", "Produce,Fetch").schema("api string, total_ns bigint").load("D/traces")

Options: path; from, to (2026-01-31T12:00:00Z, or nanoseconds since 1970; from <= t < to); apis, brokers, kinds (comma
separated); for streams maxRecordsPerTrigger. Files that cannot hold such rows are not opened, by their headers. Without
a schema all columns of mpbroker.analysis.engine.input.columns.FRAME are read; name the few you need in a schema, Spark
cannot prune those of a Python source. Columns of compacted files (`queue_ticks` …) may be named, too.

There is no pushFilters, on purpose: in Spark 4.1 to 4.3 a filter pushed into a Python source stays with the DataFrame,
and later queries silently give wrong rows (tests/unit/analysis/spark/test_push_filters.py fails when that is mended).

Planning runs beside the driver, reading in Spark's Python workers; nothing is written. What a damaged file has that
cannot be believed is left out, with a warning where the read is planned. A stream gives each record once, a trace that
is being written included; epoch times of a stream use the clock samples there are when a batch is planned.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from mpbroker.analysis.engine.engines.accumulate import AskSums
from mpbroker.analysis.engine.input.column_set import frame_table
from mpbroker.analysis.engine.input.columns import COMPACT, FRAME, RECORD_DTYPE
from mpbroker.analysis.engine.input.decode import RawColumns, Records, requests_of, within
from mpbroker.analysis.engine.input.trace_input import NoTrace
from mpbroker.analysis.spark.arrow_types import EVENT, REQUEST_COLUMNS, arrow_of, struct_of
from mpbroker.analysis.spark.partial_sums import PARTIAL, parts_of
from mpbroker.analysis.spark.read_limits import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from mpbroker.analysis.spark.source_plan import (
    Piece,
    SourceOptions,
    cut,
    may_hold_apis,
    open_paths,
    parse_options,
    pieces,
    shared_out,
)
from mpbroker.trace.record import KIND_NAMES, RECORD_BYTES
from mpbroker.trace.segment import read_chunks

FORMAT = "mpbtrace"
BATCH_RECORDS = 65536
Offsets = dict[str, int]


class MpbTraceSource(DataSource):
    """The data source; Spark makes one for every read."""

    @classmethod
    def name(cls) -> str:
        """What `format` takes."""
        return FORMAT

    def schema(self) -> StructType:
        """All columns of requests, or of events when other kinds are asked for."""
        return struct_of(FRAME if self._parsed().requests_only else EVENT)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Of a batch."""
        return TraceReader(self._parsed(), schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Of a stream."""
        return TraceStreamReader(self._parsed(), schema)

    def _parsed(self) -> SourceOptions:
        return parse_options({name.lower(): value for name, value in self.options.items()})


class Task(InputPartition):
    """What one Spark task reads."""

    def __init__(self, pieces: list[Piece]) -> None:
        super().__init__(None)
        self.pieces = pieces


class _PieceReader:
    """Turns pieces into record batches of a schema; sent to Spark's workers."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self._options = options
        known = PARTIAL if options.asks else REQUEST_COLUMNS if options.requests_only else EVENT
        self._schema = arrow_of(schema, known)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a task; one of no trace at all is an InputPartition without pieces."""
        chunks = self._chunks(getattr(partition, "pieces", ()))
        if self._options.asks:
            yield from self._counted(chunks)
        else:
            yield from (self._batch(data, piece) for data, piece in chunks)

    def _counted(self, chunks: Iterable[tuple[bytes, Piece]]) -> Iterator[pa.RecordBatch]:
        sums = AskSums(self._options.asks)
        for data, piece in chunks:
            sums.add(RawColumns(requests_of(data, piece.context, self._options.rows), piece.context))
        yield from parts_of(sums).select(self._schema.names).to_batches()

    def _chunks(self, pieces: Iterable[Piece]) -> Iterator[tuple[bytes, Piece]]:
        for piece in pieces:
            whole = piece.info._replace(record_count=piece.first + piece.records)
            left = piece.records
            for data in read_chunks(whole, BATCH_RECORDS, piece.first):
                left -= len(data) // RECORD_BYTES
                yield data, piece
            if left:
                raise EOFError(f"{piece.info.path} has become shorter while it was read")

    def _batch(self, data: bytes, piece: Piece) -> pa.RecordBatch:
        rows = self._options.rows
        if self._options.requests_only:
            records = requests_of(data, piece.context, rows)
        else:
            records = self._events_of(data, piece)
        columns = RawColumns(records, piece.context)
        arrays = [_array(columns, records, field) for field in self._schema]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _events_of(self, data: bytes, piece: Piece) -> Records:
        rows = self._options.rows
        found = np.frombuffer(data, RECORD_DTYPE)
        keep = np.isin(found["kind"], self._options.kinds)
        keep &= within(piece.context.clock.epoch_ns(found["t0_ns"].astype(np.int64)), rows.from_ns, rows.to_ns)
        return found[keep]


def _array(columns: RawColumns, records: Records, field: pa.Field) -> pa.Array:
    if field.name == "record":
        size = pa.binary(RECORD_BYTES)
        return pa.Array.from_buffers(size, len(records), [None, pa.py_buffer(records.tobytes())]).cast(pa.binary())
    if field.name == "kind":
        names = pa.array([KIND_NAMES[kind] if kind < len(KIND_NAMES) else f"kind-{kind}" for kind in range(256)])
        return names.take(pa.array(records["kind"]))
    if field.name in FRAME.names:
        return frame_table(columns, [field.name]).column(0).combine_chunks()
    return pa.array(columns.numbers(field.name), COMPACT.field(field.name).type, safe=False)


class TraceReader(_PieceReader, DataSourceReader):
    """Plans when it is made: Spark sends it to the workers before it asks for partitions."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        super().__init__(options, schema)
        self._tasks = shared_out(pieces(open_paths(options), options))

    def partitions(self) -> list[InputPartition]:
        """64 to 128 MiB of files each."""
        return [Task(each) for each in self._tasks]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_tasks": []}  # a worker gets its own task only


class TraceStreamReader(_PieceReader, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """An offset is the number of records read of each segment, by path. Segments that retention deletes drop out."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        super().__init__(options, schema)
        self._target: Offsets | None = None

    def initialOffset(self) -> Offsets:
        """Nothing read yet."""
        return {}

    def getDefaultReadLimit(self) -> ReadLimit:
        """maxRecordsPerTrigger."""
        most = self._options.max_records_per_trigger
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def prepareForTriggerAvailableNow(self) -> None:
        """What is there now is all that this query will read."""
        self._target = self._present()

    def latestOffset(self, start: Offsets | None = None, limit: ReadLimit | None = None) -> Offsets:
        """As far as the limit lets go from `start`, oldest segments first."""
        start = start or {}
        target = self._present() if self._target is None else self._target
        room = limit.max_rows if isinstance(limit, ReadMaxRows) else sum(target.values())
        reached: Offsets = {}
        for path, count in target.items():
            begin = min(start.get(path, 0), count)
            reached[path] = min(count, begin + room)
            room -= reached[path] - begin
        return reached

    def partitions(self, start: Offsets, end: Offsets) -> list[InputPartition]:
        """The records between two offsets."""
        wanted = {path: (start.get(path, 0), count) for path, count in end.items() if count > start.get(path, 0)}
        if not wanted:
            return []
        trace = open_paths(self._options)
        known = {str(info.path): info for info in trace.segments}
        found: list[Piece] = []
        for path, (first, count) in wanted.items():
            if path not in known:
                continue  # of another time than asked for; what retention has deleted cannot be read again
            info, context = known[path], trace.context(known[path])
            if not self._options.requests_only or may_hold_apis(info, context, self._options.rows.apis):
                found += cut(info, context, first, min(count, info.record_count))
        return [Task(each) for each in shared_out(found)]

    def _present(self) -> Offsets:
        try:
            infos = open_paths(self._options).segments
        except NoTrace:
            return {}  # a broker that has not yet served anything: the stream waits
        infos.sort(key=lambda info: (info.opened.clock.realtime_ns, info.path.name))
        return {str(info.path): info.record_count for info in infos}
