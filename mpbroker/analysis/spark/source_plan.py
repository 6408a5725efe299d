"""What a read of raw segments covers: options, the segments that can hold such rows, and their share per Spark task.

Runs wherever Spark plans a Python data source: beside the driver, or in a Connect server. Pure but for reading headers.
"""

import json
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from mpbroker.analysis.engine.engines.engine import Ask
from mpbroker.analysis.engine.input.decode import DecodeContext, RowFilter, api_name
from mpbroker.analysis.engine.input.trace_input import TraceInput, open_input
from mpbroker.analysis.spark.partial_sums import from_text
from mpbroker.errors import MpbrokerError
from mpbroker.trace.record import KIND_NAMES, RECORD_BYTES, REQUEST
from mpbroker.trace.segment import API_SLOTS, SegmentInfo

PARTITION_RECORDS = (64 << 20) // RECORD_BYTES  # 64 MiB; two that are smaller share a task
NAMES = ("path", "paths", "from", "to", "apis", "brokers", "kinds", "maxrecordspertrigger", "asks")


class OptionError(MpbrokerError):
    """An option of the data source cannot be understood."""

    exit_code = 2


class SourceOptions(NamedTuple):
    """`kinds`: numbers of record kinds. `rows`: limits on time (nanoseconds since 1970), APIs by name, brokers by id.
    `asks`: tables, of which the rows are parts (partial_sums.py), instead of requests."""

    paths: tuple[str, ...]
    rows: RowFilter
    kinds: tuple[int, ...] = (REQUEST,)
    max_records_per_trigger: int | None = None
    asks: tuple[Ask, ...] = ()

    @property
    def requests_only(self) -> bool:
        """Requests have columns of their own."""
        return self.kinds == (REQUEST,)


class Piece(NamedTuple):
    """`records` records of a segment from number `first` on."""

    info: SegmentInfo
    context: DecodeContext
    first: int
    records: int


def parse_options(options: Mapping[str, str]) -> SourceOptions:
    """Options by their names in lower case; OptionError names the one that is wrong."""
    unknown = sorted(set(options) - set(NAMES))
    if unknown:
        raise OptionError(f"mpbtrace has no option {', '.join(unknown)}; there are: {', '.join(NAMES)}")
    paths = json.loads(options["paths"]) if "paths" in options else [options["path"]] if options.get("path") else []
    if not paths:
        raise OptionError("mpbtrace needs a path: a folder with trace segments, or such a file")
    rows = RowFilter(_time(options, "from"), _time(options, "to"), _words(options, "apis"), _brokers(options))
    most = options.get("maxrecordspertrigger")
    if most is not None and (not most.isdecimal() or int(most) < 1):
        raise OptionError(f"maxRecordsPerTrigger is a whole number from 1 on, not {most!r}")
    return SourceOptions(
        tuple(_local(path) for path in paths),
        rows,
        _kinds(options),
        None if most is None else int(most),
        from_text(options["asks"]) if "asks" in options else (),
    )


def _local(path: str) -> str:
    return str(Path(path.removeprefix("file:").replace("///", "/", 1) if path.startswith("file:") else path).absolute())


def _words(options: Mapping[str, str], name: str) -> tuple[str, ...] | None:
    words = tuple(word for word in map(str.strip, options.get(name, "").split(",")) if word)
    return words or None


def _time(options: Mapping[str, str], name: str) -> int | None:
    text = options.get(name, "").strip()
    if not text:
        return None
    if text.isdecimal():
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise OptionError(
            f"{name} is a time as 2026-01-31T12:00:00Z or nanoseconds since 1970, not {text!r}"
        ) from error
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    whole = moment.replace(microsecond=0)
    return int(whole.timestamp()) * 1_000_000_000 + moment.microsecond * 1000


def _brokers(options: Mapping[str, str]) -> tuple[int, ...] | None:
    words = _words(options, "brokers")
    if words is None:
        return None
    if not all(word.isdecimal() for word in words):
        raise OptionError(f"brokers are ids such as 1,2, not {options['brokers']!r}")
    return tuple(map(int, words))


def _kinds(options: Mapping[str, str]) -> tuple[int, ...]:
    words = _words(options, "kinds") or (KIND_NAMES[REQUEST],)
    unknown = [word for word in words if word not in KIND_NAMES]
    if unknown:
        raise OptionError(f"there is no kind {', '.join(unknown)}; there are: {', '.join(KIND_NAMES)}")
    return tuple(sorted({KIND_NAMES.index(word) for word in words}))


def open_paths(options: SourceOptions) -> TraceInput:
    """The raw trace that the options name. A warning tells of each damaged file, unless `asks` are of an engine, which
    tells it with its results."""
    rows = options.rows
    trace = open_input(options.paths, brokers=rows.brokers, apis=rows.apis, from_ns=rows.from_ns, to_ns=rows.to_ns)
    if trace.parquet:
        raise OptionError(
            f"{trace.parquet[0]} is a compacted trace: read it with mpbroker.analysis.spark.frames.requests, "
            "or its files with spark.read.parquet"
        )
    if not options.asks:
        for sentence in trace.loss.damage:
            warnings.warn(sentence, stacklevel=2)
    return trace


def pieces(trace: TraceInput, options: SourceOptions) -> Iterator[Piece]:
    """Every segment that can hold rows of the options, in pieces of at most PARTITION_RECORDS."""
    for info in trace.segments:
        context = trace.context(info)
        if not options.requests_only or may_hold_apis(info, context, options.rows.apis):
            yield from cut(info, context, 0, info.record_count)


def cut(info: SegmentInfo, context: DecodeContext, first: int, end: int) -> Iterator[Piece]:
    """Records `first` to before `end` in equal pieces."""
    count = end - first
    parts = -(-count // PARTITION_RECORDS)
    for part in range(parts):
        begin, stop = first + count * part // parts, first + count * (part + 1) // parts
        yield Piece(info, context, begin, stop - begin)


def may_hold_apis(info: SegmentInfo, context: DecodeContext, apis: Sequence[str] | None) -> bool:
    """Whether a segment's counts allow requests of these APIs; one that was never closed has none and always may."""
    if apis is None or info.closed is None:
        return True
    counts = info.closed.api_counts
    wanted = {
        key if 0 <= key < API_SLOTS - 1 else API_SLOTS - 1 for key in range(-1, 256) if api_name(context, key) in apis
    }
    return any(counts[slot] for slot in wanted)


def shared_out(found: Iterable[Piece]) -> list[list[Piece]]:
    """Pieces put together until a task has 64 to 128 MiB: a trace of many small segments has few tasks."""
    tasks: list[list[Piece]] = []
    room = 0
    for piece in found:
        if piece.records > room:
            tasks.append([])
            room = PARTITION_RECORDS
        tasks[-1].append(piece)
        room -= piece.records
    return tasks
