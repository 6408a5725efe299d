"""A trace as studies find it: its files, what was lost, how good its clocks are, its names and its events.

Runs in a command's process; reads only. Raw segments (`*.mpt`) or compacted files, found in folders (searched
downwards) or named one by one; several brokers and boots together, but raw and compacted not at once.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa

from mpbroker.analysis.engine.input import compact_header, events, soundness
from mpbroker.analysis.engine.input.boot import Boot
from mpbroker.analysis.engine.input.clock_line import ClockLine, ClockQuality, quality_of
from mpbroker.analysis.engine.input.decode import DecodeContext, RowFilter
from mpbroker.analysis.engine.input.losses import Loss, SegmentCounts, count_segment, loss_of, merged
from mpbroker.analysis.engine.input.places import local_path
from mpbroker.errors import MpbrokerError
from mpbroker.trace import clock_sample, dictionary, record, segment

#: A segment that lasts longer than this, or was never closed, is searched for clock samples of its own.
SEARCHED_NS = 120_000_000_000


class NoTrace(MpbrokerError):
    """There is nothing to read in the places named."""

    exit_code = 2


class SampledTrace(MpbrokerError):
    """The study needs every request in its order, and this trace is a sample."""

    exit_code = 2


class TraceInput:
    """What `open_input` found. Exactly one of `segments` and `parquet` is filled.

    segments        headers of raw segments that may hold rows of `rows`
    parquet         folders of compacted traces; parquet_files: their files that may hold such rows (URLs: of
                    another file system)
    places          the folders and files it was found in, as they were named
    clocks, names   boots with the clock line of each; names of clients, topics, connections, markers
    sources         names of the segments all this was made from
    """

    def __init__(
        self,
        rows: RowFilter,
        segments: Sequence[segment.SegmentInfo] = (),
        parquet: Sequence[Path] = (),
        parquet_files: Sequence[Path | str] = (),
        *,
        loss: Loss,
        clocks: dict[Boot, ClockLine],
        dictionaries: Sequence[Path],
        sources: Sequence[str],
        is_sampled: bool,
        places: Sequence[Path] = (),
    ) -> None:
        self.rows = rows
        self.segments = list(segments)
        self.places = list(places)
        self.parquet = list(parquet)
        self.parquet_files = list(parquet_files)
        self.loss = loss
        self.clocks = clocks
        self.dictionaries = list(dictionaries)
        self.names = dictionary.read(self.dictionaries)
        self.sources = sorted(sources)
        self.is_sampled = is_sampled

    @property
    def kind(self) -> str:
        """What it is made of: segments or parquet."""
        return "parquet" if self.parquet else "segments"

    @property
    def files(self) -> int:
        """How many files may hold such rows."""
        return len(self.parquet_files or self.segments)

    @property
    def clock(self) -> ClockQuality:
        """Of all boots together."""
        return quality_of(self.clocks.values())

    @property
    def runs(self) -> list[str]:
        """The boots, as the column `run` names them."""
        return sorted({boot.run for boot in self.clocks})

    def context(self, info: segment.SegmentInfo) -> DecodeContext:
        """What decoding a raw segment's records takes."""
        return _context(info, self.clocks[boot_of(info)], self.names)

    def require_unsampled(self, study_name: str) -> None:
        """Raise SampledTrace when requests were left out of this trace."""
        if self.is_sampled:
            raise SampledTrace(
                f"the study {study_name} follows single requests in their order, and this trace is a sample "
                f"({self.loss.sampled_out} requests left out): what stood before a request in a queue may be missing; "
                "record with mpbroker.trace.sample.shift=0"
            )

    @cached_property
    def _events(self) -> pa.Table:
        if self.parquet:
            return compact_header.read_events(self.parquet)
        return events.collect(self.segments)

    def raw_events(self) -> pa.Table:
        """All records that are no requests: run, broker, ring, record (128 bytes)."""
        return self._events

    def gauges(self) -> pa.Table:
        """Depths of rings and times of processes (events.GAUGES)."""
        return self._within(events.gauges(self._events, self.clocks))

    def markers(self) -> pa.Table:
        """epoch_ns, run, broker, number, text: what `mpbroker trace mark` said."""
        return self._within(events.markers(self.names, self.clocks))

    def process_events(self) -> pa.Table:
        """Processes that began or died (events.PROCESSES)."""
        return self._within(events.process_events(self._events, self.clocks))

    def role_changes(self) -> pa.Table:
        """Partitions whose role changed at a broker (events.ROLES)."""
        return self._within(events.role_changes(self._events, self.names, self.clocks))

    def connections(self) -> pa.Table:
        """Connections, and when they opened and closed (events.CONNECTIONS)."""
        return events.connections(self._events, self.names, self.clocks)

    def losses(self, window_ms: int) -> pa.Table:
        """window_ms, broker, dropped, missing: requests that the trace does not have, by the time this was noticed."""
        return self._within(events.losses(self._events, self.loss.gaps, self.clocks), "epoch_ns", window_ms)

    def _within(self, table: pa.Table, column: str = "epoch_ns", window_ms: int | None = None) -> pa.Table:
        from_ns, to_ns = self.rows.from_ns, self.rows.to_ns
        at = table.column(column).to_numpy()
        keep = np.ones(len(at), np.bool_) if from_ns is None else at >= from_ns
        keep &= True if to_ns is None else at < to_ns
        kept = table.filter(pa.array(keep))
        return kept if window_ms is None else events.sum_losses(kept, window_ms)


def open_input(
    paths: Iterable[Path | str],
    *,
    brokers: Sequence[int] | None = None,
    apis: Sequence[str] | None = None,
    from_ns: int | None = None,
    to_ns: int | None = None,
) -> TraceInput:
    """The trace in these folders and files. NoTrace: there is none; damaged files are told in `loss.sentences`, and
    what cannot be believed of them (soundness.py) is left out."""
    places = [local_path(path) for path in paths]
    rows = RowFilter(from_ns, to_ns, tuple(apis) if apis else None, tuple(brokers) if brokers else None)
    for place in places:
        if not place.exists():
            raise NoTrace(
                f"{place} does not exist; --in names a folder with trace segments or compacted files, or such a file"
            )
    compacted = compact_header.find(places)
    segments = _segment_files(places)
    if compacted and segments:
        raise NoTrace(
            f"{compacted[0][0]} is a compacted trace and {segments[0]} a raw segment: "
            "name one kind at a time, or every request would count twice"
        )
    if compacted:
        return _open_compacted(compacted, rows)
    if not segments:
        raise NoTrace(
            f"no trace in {', '.join(map(str, places))}: neither segments (*{segment.SUFFIX}) nor compacted files; "
            "a broker writes segments when requests finish and mpbroker.trace.enabled is true"
        )
    return _open_raw(places, segments, rows)


def apis_of(info: segment.SegmentInfo) -> dict[int, str]:
    """API key → name, as the segment's header has them."""
    return {int(key): name for key, name in info.opened.extra.get("apis", {}).items()}


def listeners_of(info: segment.SegmentInfo) -> tuple[str, ...]:
    """Names of the listeners, by number."""
    return tuple(
        one.get("name", f"listener-{number}") for number, one in enumerate(info.opened.extra.get("listeners", []))
    )


def _segment_files(places: Iterable[Path]) -> list[Path]:
    found: set[Path] = set()
    for place in places:
        if place.is_dir():
            found |= set(place.rglob(f"*{segment.SUFFIX}"))
        elif place.suffix == segment.SUFFIX:
            found.add(place)
    return sorted(found)


def _open_raw(places: list[Path], files: list[Path], rows: RowFilter) -> TraceInput:
    found: dict[str, segment.SegmentInfo] = {}
    complaints: list[str] = []
    for path in files:
        try:
            info = segment.read_info(path)
        except FileNotFoundError:
            continue  # retention was quicker
        except (segment.SegmentError, OSError, ValueError) as error:
            complaints.append(str(error))
            continue
        if info.damage:
            complaints.append(info.damage)
        known = found.get(path.name)  # a copy of the same segment in a second folder counts once: the better one
        if known is None or known.worth < info.worth or known.opened[:4] != info.opened[:4]:
            found[path.name if known is None or known.opened[:4] == info.opened[:4] else str(path)] = info
    infos = [info for info in found.values() if rows.brokers is None or info.opened.broker_id in rows.brokers]
    if not infos:
        raise NoTrace(
            "; ".join(complaints)
            or "no segment of broker " + ", ".join(map(str, rows.brokers or ())) + " in " + ", ".join(map(str, places))
        )
    clocks = _clock_lines(infos)
    kept = list(_counted((info for info in infos if _may_hold(info, clocks, rows)), complaints))
    loss = loss_of(kept, complaints, lambda info, t0_ns: clocks[boot_of(info)].epoch_of(t0_ns))
    return TraceInput(
        rows,
        [one.info for one in kept],
        loss=loss,
        clocks=clocks,
        dictionaries=_dictionaries(places),
        sources=[one.info.path.name for one in kept],
        is_sampled=loss.sampled_out > 0,
        places=places,
    )


def _counted(infos: Iterable[segment.SegmentInfo], complaints: list[str]) -> Iterator[SegmentCounts]:
    """The requests of each that can be believed; what is wrong with it goes to the complaints."""
    for info in infos:
        try:
            checked = soundness.check(info)
        except FileNotFoundError:
            continue  # retention was quicker
        except OSError as error:
            complaints.append(str(error))
            continue
        if checked.info.damage != info.damage:
            complaints.append(checked.info.damage)
        yield count_segment(checked)


def _open_compacted(found: list[tuple[Path, list[Path]]], rows: RowFilter) -> TraceInput:
    headers = [compact_header.read(root) for root, _ in found]
    files = [
        path
        for (root, paths), header in zip(found, headers, strict=True)
        for path in paths
        if compact_header.may_hold(path, root, header, rows)
    ]
    return _of_heads([root for root, _ in found], headers, files, rows)


def open_heads(found: Iterable[tuple[Path, str]], rows: RowFilter) -> TraceInput:
    """Compacted traces whose heads were copied here: (folder of the head, URL where its files are)."""
    heads = [(root, url, compact_header.read(root)) for root, url in found]
    files = [
        f"{url}/{one.path}" for _, url, head in heads for one in head.files if compact_header.file_may_hold(one, rows)
    ]
    return _of_heads([root for root, _, _ in heads], [head for _, _, head in heads], files, rows)


def _of_heads(
    roots: Sequence[Path], headers: Sequence[compact_header.CompactHeader], files: Sequence[Path | str], rows: RowFilter
) -> TraceInput:
    clocks: dict[Boot, ClockLine] = {}
    for header in headers:
        for broker, boot_id, samples in header.boots:
            boot = Boot(broker, boot_id)
            clocks[boot] = ClockLine([*(clocks[boot].samples if boot in clocks else ()), *samples])
    return TraceInput(
        rows,
        parquet=roots,
        parquet_files=files,
        loss=merged(one.loss for one in headers),
        clocks=clocks,
        dictionaries=_dictionaries(roots),
        sources=[name for one in headers for name in one.sources],
        is_sampled=any(one.is_sampled for one in headers),
    )


def _dictionaries(places: Iterable[Path]) -> list[Path]:
    return list(dict.fromkeys(path for place in places for path in dictionary.find(place)))


def _clock_lines(infos: Iterable[segment.SegmentInfo]) -> dict[Boot, ClockLine]:
    samples: dict[Boot, list[clock_sample.ClockSample]] = {}
    for info in infos:
        samples.setdefault(boot_of(info), []).extend(samples_of(info))
    return {boot: ClockLine(each) for boot, each in samples.items()}


def samples_of(info: segment.SegmentInfo) -> Iterator[clock_sample.ClockSample]:
    """Those of the header; those within too where the header has no second one, or is not enough to place a step."""
    opened, closed = info.opened.clock, info.closed and info.closed.clock
    yield opened
    if info.is_doubtful:
        return
    if closed is not None:
        yield closed
        if closed.monotonic_ns - opened.monotonic_ns <= SEARCHED_NS and not ClockLine([opened, closed]).quality.steps:
            return
    for data in events.scan(info, kinds=(record.CLOCK,)):
        yield clock_sample.unpack_record(data)


def _may_hold(info: segment.SegmentInfo, clocks: dict[Boot, ClockLine], rows: RowFilter) -> bool:
    """Whether a closed segment's times allow rows of the filter; open ones always may."""
    if info.closed is None:
        return True
    line, opened, closed = clocks[boot_of(info)], info.opened.clock.monotonic_ns, info.closed
    least = line.epoch_of(min(closed.t0_min_ns or opened, opened))
    greatest = line.epoch_of(max(closed.t0_max_ns, closed.clock.monotonic_ns))
    return (rows.to_ns is None or least < rows.to_ns) and (rows.from_ns is None or greatest >= rows.from_ns)


def own_context(info: segment.SegmentInfo, names: dictionary.Dictionary) -> DecodeContext:
    """What decoding takes, by the clock samples of this segment alone: it is the same whatever else there is."""
    return _context(info, ClockLine(samples_of(info)), names)


def _context(info: segment.SegmentInfo, clock: ClockLine, names: dictionary.Dictionary) -> DecodeContext:
    opened, boot = info.opened, boot_of(info)
    known = names.of(opened.broker_id, opened.boot_id)
    return DecodeContext(
        boot.run,
        boot.broker,
        opened.ring,
        opened.first_seq,
        clock,
        apis_of(info),
        listeners_of(info),
        known.clients,
        known.topics,
    )


def boot_of(info: segment.SegmentInfo) -> Boot:
    """Whose segment it is."""
    return Boot(info.opened.broker_id, info.opened.boot_id)


__all__ = ["Boot", "Loss", "NoTrace", "RowFilter", "SampledTrace", "SegmentCounts", "TraceInput", "open_input"]
