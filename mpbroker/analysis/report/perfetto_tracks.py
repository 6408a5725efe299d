"""From rows of the requests frame, gauges and markers to Chrome trace events: which track, which slice, which counter.

Runs in the process of a command; pure. A processor is busy while it checks a frame and while it sends (before the frame
is whole it may do something else), a handler from handler start to local done. A request's durations are laid end to
end from its beginning; what follows purgatory is laid from its end backwards, because nothing says how long it was
between local work and purgatory.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

Event = dict[str, Any]

_TO_HANDLER = ("read", "parse", "ring_block", "queue", "dispatch", "io", "local")
_TO_CLIENT = ("resp_prep", "resp_queue", "send_wait", "send")
COLUMNS = (
    "run",
    "broker",
    "epoch_ns",
    "conn_id",
    "client",
    "topic",
    "api",
    "api_version",
    "error",
    "processor",
    "handler",
    "plane",
    "req_bytes",
    "resp_bytes",
    "corr_id",
    "req_q",
    "attempts",
    "purg_kind",
    "rx_wait_ns",
    *(f"{name}_ns" for name in _TO_HANDLER),
    "purgatory_ns",
    *(f"{name}_ns" for name in _TO_CLIENT),
    "total_ns",
)

PROCESSORS, HANDLERS, REQUESTS, COUNTERS = range(1, 5)
_GROUP_NAMES = {PROCESSORS: "processors", HANDLERS: "handlers", REQUESTS: "requests", COUNTERS: "rings and cores"}
_DOING = ("", "receives", "sends")
_LONGEST_TEXT = 200
#: What one request adds to Busy.
MAX_SLICES_PER_REQUEST = 3


class Span(NamedTuple):
    """Part of a request, nanoseconds since 1970."""

    name: str
    start_ns: int
    end_ns: int


class Busy:
    """What processes did: slices per process, those that touch or overlap made one (a processor sends many answers at
    once)."""

    def __init__(self) -> None:
        self._spans: dict[tuple[int, str, int], list[Span]] = {}
        self._groups: dict[int, str] = {}

    def group(self, row: Mapping[str, Any], kind: int) -> int:
        """The number that stands for a broker's group of tracks."""
        number = _group_number(row["broker"], kind)
        self._groups[number] = f"broker {row['broker']}: {_GROUP_NAMES[kind]}"
        return number

    def add(self, group: int, doing: str, index: int, span: Span) -> None:
        """One thing that process `index` did; `doing` is empty or what sets this track of the process apart."""
        if span.end_ns > span.start_ns:
            self._spans.setdefault((group, doing, index), []).append(span)

    def events(self, zero_ns: int) -> Iterator[Event]:
        """Slices, track by track."""
        for (group, doing, index), spans in sorted(self._spans.items()):
            base = {"ph": "X", "cat": "process", "pid": group, "tid": _track(index, doing)}
            for together in _touching(sorted(spans, key=lambda span: span.start_ns)):
                start_ns, end_ns = together[0].start_ns, max(span.end_ns for span in together)
                yield {
                    **base,
                    "name": _called(together),
                    "ts": _us(start_ns, zero_ns),
                    "dur": (end_ns - start_ns) / 1000,
                }

    def names(self) -> list[Event]:
        """Metadata events: what groups and tracks are called, in which order they stand."""
        events = []
        for group, name in sorted(self._groups.items()):
            events += [
                _meta("process_name", group, 0, {"name": name}),
                _meta("process_sort_index", group, 0, {"sort_index": group}),
            ]
        for group, doing, index in sorted(self._spans):
            role, track = ("processor" if doing else "handler"), _track(index, doing)
            events += [
                _meta("thread_name", group, track, {"name": f"{role} {index} {doing}".strip()}),
                _meta("thread_sort_index", group, track, {"sort_index": track}),
            ]
        return events


def _touching(spans: Iterable[Span]) -> Iterator[list[Span]]:
    """Spans by start, in bunches without a pause between them."""
    bunch: list[Span] = []
    end_ns = 0
    for span in spans:
        if bunch and span.start_ns >= end_ns:
            yield bunch
            bunch, end_ns = [], 0
        bunch.append(span)
        end_ns = max(end_ns, span.end_ns)
    if bunch:
        yield bunch


def _called(bunch: Sequence[Span]) -> str:
    names = {span.name for span in bunch}
    name = names.pop() if len(names) == 1 else "requests"
    return name if len(bunch) == 1 else f"{name} × {len(bunch)}"


def stages(row: Mapping[str, Any]) -> list[Span]:
    """The stages that a request spent time in, in their order."""
    spans, at = [], row["epoch_ns"]
    if row["rx_wait_ns"]:
        spans.append(Span("rx_wait", at - row["rx_wait_ns"], at))
    for name in _TO_HANDLER:
        if row[f"{name}_ns"]:
            spans.append(Span(name, at, at := at + row[f"{name}_ns"]))
    if row["total_ns"] is None:
        return spans
    end, after = row["epoch_ns"] + row["total_ns"], []
    for name in reversed(_TO_CLIENT):
        if row[f"{name}_ns"]:
            after.append(Span(name, end - row[f"{name}_ns"], end))
            end = after[-1].start_ns
    if row["purgatory_ns"]:
        spans.append(Span("purgatory", max(at, end - row["purgatory_ns"]), end))
    return spans + after[::-1]


def request_events(row: Mapping[str, Any], number: int, zero_ns: int, busy: Busy) -> list[Event]:
    """A request's own track; what its processor and its handler did for it is added to `busy`."""
    spans = stages(row)
    by_name = {span.name: span for span in spans}
    processors, handlers, name = busy.group(row, PROCESSORS), busy.group(row, HANDLERS), str(row["api"])
    framed_ns = row["epoch_ns"] + (row["read_ns"] or 0)
    busy.add(processors, "receives", row["processor"], Span(name, framed_ns, framed_ns + (row["parse_ns"] or 0)))
    if "send" in by_name:
        busy.add(processors, "sends", row["processor"], Span(name, *by_name["send"][1:]))
    worked = [by_name[stage] for stage in ("io", "local") if stage in by_name]
    if row["handler"] is not None and worked:
        busy.add(handlers, "", row["handler"], Span(name, worked[0].start_ns, worked[-1].end_ns))
    return _async_events(row, number, zero_ns, spans, busy.group(row, REQUESTS))


def _async_events(row: Mapping[str, Any], number: int, zero_ns: int, spans: Sequence[Span], group: int) -> list[Event]:
    first = min([row["epoch_ns"], *(span.start_ns for span in spans)])
    last = max([row["epoch_ns"] + (row["total_ns"] or 0), *(span.end_ns for span in spans)])
    base = {"cat": "request", "id": f"0x{number + 1:x}", "pid": group, "tid": 0}
    events = [{"ph": "b", "name": str(row["api"]), "ts": _us(first, zero_ns), **base, "args": _arguments(row)}]
    for span in spans:
        events += [
            {"ph": "b", "name": span.name, "ts": _us(span.start_ns, zero_ns), **base},
            {"ph": "e", "name": span.name, "ts": _us(span.end_ns, zero_ns), **base},
        ]
    return [*events, {"ph": "e", "name": str(row["api"]), "ts": _us(last, zero_ns), **base}]


def counter_events(gauges: Iterable[Mapping[str, Any]], first_ns: int, last_ns: int) -> Iterator[Event]:
    """Depths of rings, and of each process the share of a core between two samples."""
    before: dict[tuple[Any, ...], tuple[int, int]] = {}
    for row in gauges:
        base = {
            "ph": "C",
            "pid": _group_number(row["broker"], COUNTERS),
            "tid": 0,
            "ts": _us(row["epoch_ns"], first_ns),
        }
        inside = first_ns <= row["epoch_ns"] <= last_ns
        if row["type"] == "ring" and inside:
            yield {**base, "name": f"{row['name']} ring", "args": {"requests": row["depth"]}}
        elif row["type"] == "process":
            key = (row["run"], row["broker"], row["pid"], row["incarnation"])
            at, cpu_ns = before.get(key, (0, 0))
            before[key] = (row["epoch_ns"], row["cpu_ns"])
            if at and inside and row["epoch_ns"] > at:
                share = 100 * (row["cpu_ns"] - cpu_ns) / (row["epoch_ns"] - at)
                yield {**base, "name": f"{row['name']} busy", "args": {"% of a core": round(share, 1)}}


def marker_events(markers: Iterable[Mapping[str, Any]], first_ns: int, last_ns: int) -> Iterator[Event]:
    """What somebody marked, across all tracks."""
    for row in markers:
        if first_ns <= row["epoch_ns"] <= last_ns:
            yield {
                "ph": "i",
                "s": "g",
                "cat": "marker",
                "name": str(row["text"])[:_LONGEST_TEXT],
                "ts": _us(row["epoch_ns"], first_ns),
                "pid": _group_number(row["broker"], COUNTERS),
                "tid": 0,
            }


def process_events(events: Iterable[Mapping[str, Any]], first_ns: int, last_ns: int) -> Iterator[Event]:
    """Processes that began and ended."""
    for row in events:
        if first_ns <= row["epoch_ns"] <= last_ns:
            words = " ".join(str(part) for part in (row["name"], row["event"], row["exit"]) if part)
            yield {
                "ph": "i",
                "s": "g",
                "cat": "process",
                "name": words[:_LONGEST_TEXT],
                "ts": _us(row["epoch_ns"], first_ns),
                "pid": _group_number(row["broker"], COUNTERS),
                "tid": 0,
                "args": {"pid": row["pid"]},
            }


def _track(index: int, doing: str) -> int:
    """Stands where the format has a thread id."""
    return index * len(_DOING) + _DOING.index(doing)


def _group_number(broker: int, kind: int) -> int:
    """Stands where the format has a process id."""
    return broker * 10 + kind


def _arguments(row: Mapping[str, Any]) -> dict[str, Any]:
    shown = {
        "client": row["client"],
        "topic": row["topic"],
        "connection": row["conn_id"],
        "correlation_id": row["corr_id"],
        "version": row["api_version"],
        "error": row["error"],
        "plane": row["plane"],
        "request_bytes": row["req_bytes"],
        "response_bytes": row["resp_bytes"],
        "queued_ahead": row["req_q"],
        "purgatory": row["purg_kind"],
        "attempts": row["attempts"],
    }
    return {
        name: value[:_LONGEST_TEXT] if isinstance(value, str) else value
        for name, value in shown.items()
        if value not in (None, "", "none")
    }


def _meta(name: str, group: int, track: int, arguments: dict[str, Any]) -> Event:
    return {"ph": "M", "name": name, "pid": group, "tid": track, "args": arguments}


def _us(epoch_ns: int, zero_ns: int) -> float:
    return (epoch_ns - zero_ns) / 1000
