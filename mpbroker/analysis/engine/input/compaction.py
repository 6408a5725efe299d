"""Turns raw segments into Parquet files: sorted by time, a quarter of the size, read by any engine. `mpbroker trace
compact`.

    DST/dt=YYYY-MM-DD/hour=HH/node=<broker>/api_class=<class>/part-<boot>-r<ring>-<seq>.parquet   columns.COMPACT
    DST/events.arrow, DST/dict-*.jsonl, DST/compact.json                                          everything else

Everything is written into DST.partial, which becomes DST in one step at the end: a compaction that was killed leaves
nothing that could be taken for a trace. Runs in a command's process. Memory: one slice of time, about 262,144 requests.
"""

import shutil
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mpbroker.analysis.engine.input import compact_header
from mpbroker.analysis.engine.input.column_set import compact_table
from mpbroker.analysis.engine.input.columns import COMPACT
from mpbroker.analysis.engine.input.compact_file import CompactWriter
from mpbroker.analysis.engine.input.compact_header import CompactError, CompactFile, CompactHeader
from mpbroker.analysis.engine.input.decode import RawColumns, requests_of
from mpbroker.analysis.engine.input.trace_input import TraceInput
from mpbroker.trace import segment

SLICE_REQUESTS = 1 << 18
CHUNK_RECORDS = 16384
_NS = 1_000_000_000
API_CLASSES = {"Produce": "produce", "Fetch": "fetch"}
_SORT = [("ts", "ascending"), ("ts_ns", "ascending"), ("ring", "ascending"), ("seq", "ascending")]


class _Part(NamedTuple):
    """Where rows go: one file at a time for each."""

    run: str
    broker: int
    hour: int
    api_class: str

    def folder(self) -> str:
        moment = datetime.fromtimestamp(self.hour * 3600, UTC)
        return f"dt={moment:%Y-%m-%d}/hour={moment:%H}/node={self.broker}/api_class={self.api_class}"


class _Piece(NamedTuple):
    """Some records of a segment, and the first and last second since 1970 that its requests began in."""

    info: segment.SegmentInfo
    first: int
    from_s: int
    to_s: int


def compact(source: TraceInput, destination: Path, slice_requests: int = SLICE_REQUESTS) -> CompactHeader:
    """Write the trace to `destination`, which must not exist or be an empty folder. CompactError, OSError: nothing is
    there."""
    if source.parquet:
        raise CompactError(f"{source.parquet[0]} is compacted already")
    if destination.exists() and (not destination.is_dir() or any(destination.iterdir())):
        raise CompactError(f"{destination} exists and is not empty; a compaction needs a folder of its own")
    partial = destination.with_name(destination.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True, mode=0o700)
    files = _write_requests(source, partial, slice_requests)
    _write_events(source, partial)
    _write_dictionaries(source, partial)
    boots = tuple((boot.broker, boot.boot_id, tuple(line.samples)) for boot, line in source.clocks.items())
    header = CompactHeader(tuple(files), boots, source.loss, source.is_sampled, tuple(source.sources))
    compact_header.write(partial, header)
    partial.replace(destination)
    return header


def _write_requests(source: TraceInput, root: Path, slice_requests: int) -> list[CompactFile]:
    seconds, pieces = _survey(source)
    writers: dict[_Part, CompactWriter] = {}
    files: list[CompactFile] = []
    hour = None
    for from_s, to_s in _slices(seconds, slice_requests):
        if from_s // 3600 != hour:
            files += [file for writer in writers.values() for file in writer.close()]
            writers.clear()
            hour = from_s // 3600
        for part, table in _slice_tables(source, pieces, from_s, to_s):
            if part not in writers:
                writers[part] = CompactWriter(root, part.folder())
            files += writers[part].add(table)
    return files + [file for writer in writers.values() for file in writer.close()]


def _survey(source: TraceInput) -> tuple[Counter[int], list[_Piece]]:
    """Requests per second since 1970, and where they stand."""
    seconds: Counter[int] = Counter()
    pieces = []
    for info in source.segments:
        context = source.context(info)
        for place, data in enumerate(segment.read_chunks(info, CHUNK_RECORDS)):
            records = requests_of(data, context, source.rows)
            at, counts = np.unique(context.clock.epoch_ns(records["t0_ns"].astype(np.int64)) // _NS, return_counts=True)
            if len(at):
                seconds.update(dict(zip(at.tolist(), counts.tolist(), strict=True)))
                pieces.append(_Piece(info, place * CHUNK_RECORDS, int(at[0]), int(at[-1])))
    return seconds, pieces


def _slices(seconds: Counter[int], most: int) -> Iterator[tuple[int, int]]:
    """Ranges of whole seconds within an hour, each with about `most` requests (more only if a single second has
    more)."""
    begin, rows, last = None, 0, 0
    for second in sorted(seconds):
        if begin is not None and (rows + seconds[second] > most or second // 3600 != begin // 3600):
            yield begin, last + 1
            begin = None
        if begin is None:
            begin, rows = second, 0
        rows, last = rows + seconds[second], second
    if begin is not None:
        yield begin, last + 1


def _slice_tables(source: TraceInput, pieces: list[_Piece], from_s: int, to_s: int) -> Iterator[tuple[_Part, pa.Table]]:
    """The requests of a slice of time, sorted, by where they go."""
    rows = source.rows._replace(
        from_ns=max(from_s * _NS, source.rows.from_ns or 0), to_ns=min(to_s * _NS, source.rows.to_ns or to_s * _NS)
    )
    tables: dict[tuple[str, int], list[pa.Table]] = {}
    for piece in pieces:
        if piece.from_s < to_s and piece.to_s >= from_s:
            context = source.context(piece.info)
            data = next(segment.read_chunks(piece.info, CHUNK_RECORDS, piece.first), b"")
            found = compact_table(RawColumns(requests_of(data, context, rows), context))
            tables.setdefault((context.run, context.broker), []).append(found)
    for (run, broker), mine in tables.items():
        whole = pa.concat_tables(mine).sort_by(_SORT)
        classes = _classes(whole)
        for api_class in sorted(set(classes)):
            yield _Part(run, broker, from_s // 3600, api_class), whole.filter(pa.array(classes == api_class))


def _classes(table: pa.Table) -> np.ndarray:
    """control (whatever its API), produce, fetch or other."""
    apis = pc.dictionary_encode(table.column("api")).combine_chunks()
    names = np.array([API_CLASSES.get(name, "other") for name in apis.dictionary.to_pylist()] or ["other"])
    control = pc.equal(table.column("plane"), "control").to_numpy()
    return np.where(control, "control", names[apis.indices.to_numpy()])


def _write_events(source: TraceInput, root: Path) -> None:
    compact_header.write_events(root, source.raw_events())


def _write_dictionaries(source: TraceInput, root: Path) -> None:
    for path in source.dictionaries:
        with open(path, "rb") as old, open(root / path.name, "ab") as new:  # two copies of one boot's: both, in order
            shutil.copyfileobj(old, new)
            new.write(b"\n")
        (root / path.name).chmod(0o600)


assert set(COMPACT.names) >= {name for name, _ in _SORT}
