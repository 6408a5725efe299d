"""`mpbroker trace ls`, `stats`, `tail`: look at trace segments, those of a running broker too. Runs in the command's
process, with nothing but the standard library."""

import argparse
import json
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from mpbroker.cli import trace_arguments, trace_text
from mpbroker.trace import dictionary, manifest, record, segment, statistics
from mpbroker.trace.record_filter import RecordFilter

DESCRIPTION = "Look at trace segments, those of a running broker too."
EXAMPLES = (("mpbroker trace stats", "percentiles of each stage, per API"),)
#: What the help of each part says instead.
PARTS = {
    "ls": (
        """\
List the segments: whether a broker still writes them, when they were opened, how many records of
all kinds they hold, and how many requests were dropped or sampled out.""",
        (
            ("mpbroker trace ls", "those of the broker that runs here"),
            ("mpbroker trace ls --in traces --json", "the same for a program"),
        ),
    ),
    "stats": (
        """\
Show, per API, how many requests there were, with which errors, and percentiles of each stage.
Begins with how much of the truth the trace holds: requests finished, recorded, dropped.""",
        (
            ("mpbroker trace stats", "queue, local, purgatory, response queue, send and total per API"),
            ("mpbroker trace stats --api Fetch --client shop", "the fetches of one client"),
            ("mpbroker trace stats --from 2026-11-21T17:00:00 --to 2026-11-21T17:05:00", "five minutes"),
            (
                "mpbroker trace stats --in traces --json",
                "the same for a program; with finished = records + dropped + sampled_out",
            ),
        ),
    ),
    "tail": (
        """\
Show the last requests, one a line: when it came, API and version, connection and correlation id,
client, topic, bytes, time in each stage, error. With --follow, go on with those that come.""",
        (
            ("mpbroker trace tail --follow", "watch requests as they finish (up to a fifth of a second later)"),
            ("mpbroker trace tail --follow --api Produce --client shop", "only the produce requests of one client"),
        ),
    ),
}
_FOLLOW_PAUSE_S = 0.2


def define(parser: argparse.ArgumentParser, part: str) -> None:
    """The arguments of one of the three."""
    trace_arguments.define_input(parser)
    if part != "ls":
        trace_arguments.define_requests(parser)
    parser.add_argument("--json", action="store_true", help="JSON instead of a table (tail: one object a line)")
    if part == "tail":
        parser.add_argument(
            "--count",
            type=trace_arguments.whole_number(1, 1_000_000),
            default=20,
            metavar="N",
            help="how many records (default: %(default)s)",
        )
        parser.add_argument("--follow", action="store_true", help="go on with what comes, until interrupted")


def run(arguments: argparse.Namespace) -> int:
    """List, sum up or tail."""
    places = [Path(path) for path in trace_arguments.paths_of(arguments)]
    if not arguments.paths and trace_arguments.tracing_is_off(trace_arguments.broker_directory(arguments)):
        if not places[0].is_dir():
            raise trace_arguments.NoTraces(trace_arguments.why_no_traces(arguments))
        trace_text.warn(f"{trace_arguments.why_no_traces(arguments)}; these are traces of earlier starts")
    infos, complaints = read_segments(places)
    for sentence in complaints:
        trace_text.warn(sentence)
    while arguments.what == "tail" and arguments.follow and not infos:  # a broker that has just started has none yet
        time.sleep(_FOLLOW_PAUSE_S)
        infos, _ = read_segments(places)
    if not infos:
        raise trace_arguments.NoTraces(trace_arguments.why_no_traces(arguments))
    if arguments.what == "ls":
        print(
            json.dumps([_segment_json(info) for info in infos]) if arguments.json else trace_text.segment_table(infos)
        )
    elif arguments.what == "stats":
        _stats(places, infos, complaints, arguments)
    else:
        _tail(places, infos, arguments)
    return 0


def read_segments(places: Sequence[Path]) -> tuple[list[segment.SegmentInfo], list[str]]:
    """Headers of all segments in folders (searched downwards) and of files; a sentence for each file that is
    damaged."""
    complaints: list[str] = []
    infos: dict[tuple[object, ...], segment.SegmentInfo] = {}
    for place in places:
        if place.is_file():
            found = manifest.segments(place.parent, place.name, complaints=complaints)
        elif place.is_dir():
            found = manifest.segments(place, f"**/*{segment.SUFFIX}", complaints=complaints)
        else:
            raise trace_arguments.NoTraces(
                f"{place} is no directory; --data-dir names the broker's data directory, --in a directory of traces"
            )
        for info in found:  # a copy of the same segment in a second folder counts once: the better one
            key = (info.path.name, *info.opened[:4])
            if key not in infos or infos[key].worth < info.worth:
                infos[key] = info
    return list(infos.values()), complaints


def _stats(
    places: Sequence[Path], infos: list[segment.SegmentInfo], complaints: list[str], arguments: argparse.Namespace
) -> None:
    read = dictionary.read(_dictionaries(places))
    wanted = trace_arguments.record_filter(arguments)
    result = statistics.collect(infos, None if wanted.is_open else lambda info: _chooser(wanted, info, read))
    for sentence in result.damage:
        trace_text.warn(sentence)
    result.damage = complaints + result.damage
    lost_notices = sum(names.lost_notices for _, names in read.boots())
    names = api_names(infos)
    print(
        json.dumps(result.to_json(names) | {"lost_notices": lost_notices})
        if arguments.json
        else trace_text.statistics_table(result, names, lost_notices, is_chosen=not wanted.is_open)
    )


def _chooser(wanted: RecordFilter, info: segment.SegmentInfo, names: dictionary.Dictionary) -> statistics.Choose:
    clients = names.of(info.opened.broker_id, info.opened.boot_id).clients
    return lambda records: wanted.kept(records, info, clients)


def _dictionaries(places: Sequence[Path]) -> list[Path]:
    return list({path: None for place in places for path in dictionary.find(place)})


def api_names(infos: list[segment.SegmentInfo]) -> dict[int, str]:
    """API key → name, as the segments themselves say."""
    names: dict[int, str] = {}
    for info in infos:
        for key, name in info.opened.extra.get("apis", {}).items():
            names[int(key)] = name
    return names


def _segment_json(info: segment.SegmentInfo) -> dict[str, object]:
    finished, written, dropped, sampled_out = info.progress.share()
    return {
        "file": info.path.name,
        "broker": info.opened.broker_id,
        "boot": f"{info.opened.boot_id:016x}",
        "processor": info.opened.ring,
        "closed": info.closed is not None,
        "records": info.record_count,
        "finished": finished,
        "written": written,
        "dropped": dropped,
        "sampled_out": sampled_out,
        "opened_ms": info.opened.clock.realtime_ns // 1_000_000,
        "bytes": info.file_bytes,
    }


def _tail(places: Sequence[Path], infos: list[segment.SegmentInfo], arguments: argparse.Namespace) -> None:
    """Print the last records by time; then, if asked, what is added to any segment."""
    printer = _Printer(places, api_names(infos), arguments.json)
    wanted = trace_arguments.record_filter(arguments)

    def choose(info: segment.SegmentInfo) -> statistics.Choose | None:
        return None if wanted.is_open else _chooser(wanted, info, printer.names)

    offsets = {info.path: info.opened.clock.offset_ns for info in infos}
    last = sorted(
        (
            (one.t0_ns + offsets[info.path], one, info)
            for info in infos
            for one in _last_requests(info, arguments.count, choose(info))
        ),
        key=lambda found: found[:2],
    )
    seen = {info.path: info.record_count for info in infos}
    for epoch_ns, one, info in last[len(last) - arguments.count if len(last) > arguments.count else 0 :]:
        printer.show(one, epoch_ns, info)
    while arguments.follow:
        time.sleep(_FOLLOW_PAUSE_S)
        printer.read_names()
        for info in read_segments(places)[0]:
            for one in _requests(info, seen.get(info.path, 0), choose(info)):
                printer.show(one, one.t0_ns + info.opened.clock.offset_ns, info)
            seen[info.path] = info.record_count


def _last_requests(
    info: segment.SegmentInfo, count: int, choose: statistics.Choose | None
) -> Iterable[record.TraceRecord]:
    """The last `count` requests of a segment. No more than its last 4 * count + 64 records are looked at, unless only
    some requests are wanted."""
    first = max(0, info.record_count - 4 * count - 64) if choose is None else 0
    return deque(_requests(info, first, choose), count)


def _requests(info: segment.SegmentInfo, first: int, choose: statistics.Choose | None) -> Iterator[record.TraceRecord]:
    for data in segment.read_chunks(info, first=first):
        chunk = choose(data) if choose else data
        for at in range(0, len(chunk), record.RECORD_BYTES):
            one = record.unpack(chunk, at)
            if one.kind == record.REQUEST:
                yield one


class _Printer:
    """Prints requests with the names that the dictionaries have."""

    def __init__(self, places: Sequence[Path], apis: dict[int, str], as_json: bool) -> None:
        self._places = places
        self._apis = apis
        self._as_json = as_json
        self._state: object = None
        self.names = dictionary.Dictionary()
        self.read_names()

    def read_names(self) -> None:
        """Again, if a dictionary has changed."""
        paths = _dictionaries(self._places)
        state = [(path, path.stat().st_size) for path in paths if path.exists()]
        if state != self._state:
            self._state = state
            self.names = dictionary.read(paths)

    def show(self, one: record.TraceRecord, epoch_ns: int, info: segment.SegmentInfo) -> None:
        """One line."""
        names = self.names.of(info.opened.broker_id, info.opened.boot_id)
        client, topic = names.clients.get(one.client_hash), names.topics.get(one.topic_hash)
        if self._as_json:
            told = trace_text.record_json(one, epoch_ns, self._apis)
            print(json.dumps(told | {"client": client, "topic": topic}), flush=True)
        else:
            print(trace_text.record_line(one, epoch_ns, self._apis, client, topic), flush=True)
