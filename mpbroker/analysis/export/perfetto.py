"""A slice of a trace as Chrome trace events, which ui.perfetto.dev and chrome://tracing open.

Runs in the process of a command. Per broker four groups of tracks: processors and handlers with a slice for everything
they did (its arguments say for which request, and arrows lead from receiving to working to sending), requests with
their stages one after the other, and the rings' depths and processes' use of a core as counters. Markers and process
events are instants. Times are microseconds since the first event; a track shows the time of day. At most MAX_EVENTS
events are written; the rest is counted and said.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from mpbroker.analysis.engine.engines.engine import Where
from mpbroker.analysis.engine.mathematics import moments
from mpbroker.analysis.export import perfetto_context, perfetto_tracks
from mpbroker.analysis.export.perfetto_tracks import COLUMNS, Busy, Event, wall_clock
from mpbroker.analysis.export.written import Written, opened

if TYPE_CHECKING:
    import pyarrow as pa

    from mpbroker.analysis.engine.engines.engine import Engine

#: About what the viewer holds without effort.
MAX_EVENTS = 1_000_000
#: Kept back for counters, markers and names of tracks.
_RESERVED_EVENTS = 100_000
_MIN_EVENTS_PER_REQUEST = 4
_BATCH_ROWS = 4096
_SLOWEST = "-active_total_ns"


class Export(NamedTuple):
    """What was written. `sentences` say what was left out."""

    path: Path
    events: int
    requests: int
    sentences: list[str]

    def written(self) -> Written:
        """As all exports say it."""
        return Written(str(self.path), f"{self.events:,} events of {self.requests:,} requests", self.sentences)


def export(
    engine: "Engine", out: Path, where: Where = Where(), most_events: int = MAX_EVENTS, slowest: int | None = None
) -> Export:
    """Write the requests that `where` allows, the earliest first, to `out` (compressed if its name ends with .gz).
    `slowest`: only so many of them, those that took longest (without waiting that their clients asked for).

    OSError: `out` cannot be written. ValueError: `most_events` leaves no room for requests.
    """
    room = most_events - min(_RESERVED_EVENTS, most_events // 2)
    if room < 100:
        raise ValueError(f"{most_events} events are too few for a trace")
    limit = min(slowest or room, room // _MIN_EVENTS_PER_REQUEST)
    table = engine.requests(COLUMNS, where._replace(order=_SLOWEST if slowest else "epoch_ns", limit=limit))
    if slowest:
        table = table.sort_by("epoch_ns")
    rows = (row for batch in table.to_batches(max_chunksize=_BATCH_ROWS) for row in batch.to_pylist())
    zero_ns = _first_moment(table)
    with opened(out) as file:
        writer = _Writer(file)
        shown, last_ns, busy = _requests(writer, rows, room, zero_ns)
        around, said = (
            _around(engine, table.slice(0, shown), (zero_ns, last_ns), most_events - room) if shown else ([], [])
        )
        for event in (*busy.names(), *busy.events(zero_ns), *around):
            writer.write(event)
        writer.close(zero_ns)
    is_cut = shown < table.num_rows or table.num_rows == room // _MIN_EVENTS_PER_REQUEST
    said = [*_sentences(engine, where, shown, is_cut, most_events, slowest), *said]
    return Export(out, writer.events, shown, said)


def _first_moment(table: "pa.Table") -> int:
    """The earliest arrival in the kernel; 0 without requests."""
    if not table.num_rows:
        return 0
    return int((table["epoch_ns"].to_numpy() - moments.column(table, "rx_wait_ns")).min())


class _Writer:
    """JSON, one event a line, so that no list of a million events is ever in memory."""

    def __init__(self, file: IO[str]) -> None:
        self._file, self.events = file, 0
        file.write('{"traceEvents":[')

    def write(self, event: Event) -> None:
        self._file.write((",\n" if self.events else "\n") + json.dumps(event, separators=(",", ":")))
        self.events += 1

    def close(self, zero_ns: int) -> None:
        self._file.write(
            '\n],"displayTimeUnit":"ns","otherData":'
            + json.dumps({"zero_epoch_ns": str(zero_ns), "zero": wall_clock(zero_ns), "made_by": "mpbroker"})
            + "}\n"
        )


def _requests(writer: _Writer, rows: Iterator[dict[str, Any]], room: int, zero_ns: int) -> tuple[int, int, Busy]:
    """Write requests until there is no more room: how many, when the last ended, what processes did."""
    busy, shown, last_ns = Busy(), 0, 0
    for row in rows:
        events = perfetto_tracks.request_events(row, shown, zero_ns, busy)
        if writer.events + len(events) + (shown + 1) * perfetto_tracks.MAX_BUSY_EVENTS_PER_REQUEST > room:
            break
        for event in events:
            writer.write(event)
        shown += 1
        last_ns = max(last_ns, row["epoch_ns"] + (row["total_ns"] or 0))
    return shown, last_ns, busy


def _around(
    engine: "Engine", requests: "pa.Table", span_ns: tuple[int, int], most: int
) -> tuple[list[Event], list[str]]:
    """Clock, markers, process events and counters of this time, at most `most` or a few more; and what is left out."""
    source, (first_ns, last_ns) = engine.input, span_ns
    instants = [
        *perfetto_context.marker_events(source.markers().to_pylist(), first_ns, last_ns),
        *perfetto_context.process_events(source.process_events().to_pylist(), first_ns, last_ns),
    ]
    samples = [
        *perfetto_context.counter_events(source.gauges().to_pylist(), first_ns, last_ns),
        *perfetto_context.depth_events(requests, first_ns),
    ]
    said, seen, kept = [], dict[str, int](), []
    room = max(1, (most - perfetto_context.MAX_CLOCK_TICKS) // 2)
    if len(instants) > room:
        said.append(f"{len(instants) - room:,} markers and process events are left out.")
    one_in = max(1, -(-len(samples) // room))
    if one_in > 1:
        said.append(f"Counters show one in {one_in} samples.")
    for event in samples:
        seen[event["name"]] = seen.get(event["name"], -1) + 1
        if seen[event["name"]] % one_in == 0:
            kept.append(event)
    around = sorted([*instants[:room], *kept], key=lambda event: event["ts"])
    return [*perfetto_context.clock_events(first_ns, last_ns), *around], said


def _sentences(
    engine: "Engine", where: Where, shown: int, is_cut: bool, most_events: int, slowest: int | None
) -> list[str]:
    rows = engine.activity(0).to_pylist()
    whole = f" of {rows[0]['n']:,}" if rows and where == Where() else ""
    said = []
    if slowest and shown:
        said.append(f"These are the {shown:,} slowest{whole} requests: processes look idle where they served others.")
    if is_cut:
        said.append(
            f"Cut after the first {shown:,}{whole} requests, because a file has at most {most_events:,} events: "
            "choose a shorter time with --from and --to, one API with --api, or the slowest with --slowest N."
        )
    if engine.input.is_sampled:
        said.append("The trace is sampled: processes look idle where they served requests that were left out.")
    return said
