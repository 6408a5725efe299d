"""From rows of the requests frame to Chrome trace events: which track, which slice, which arrow.

Runs in the process of a command; pure. A processor is busy while it checks a frame and while it sends (before the frame
is whole it may do something else), a handler from handler start to local done. A request's durations are laid end to
end from its beginning; what follows purgatory is laid from its end backwards, because nothing says how long it was
between local work and purgatory. A flow leads from the slice in which a processor received a request to the one in
which a handler worked on it, and on to the one in which the answer was sent.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from mpbroker.analysis.engine.measures.errors_over_time import error_name
from mpbroker.analysis.engine.running.wording import STAGE_NAMES

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
#: What one request adds to Busy: slices, and the arrows between them.
MAX_SLICES_PER_REQUEST = 3
MAX_BUSY_EVENTS_PER_REQUEST = 2 * MAX_SLICES_PER_REQUEST
MAX_NAMED_IN_SLICE = 10


class Span(NamedTuple):
    """Part of a request, nanoseconds since 1970."""

    name: str
    start_ns: int
    end_ns: int


class Work(NamedTuple):
    """What a process did for one request: when, and the request's arguments."""

    span: Span
    arguments: dict[str, Any]


class Busy:
    """What processes did: slices per process, those that overlap made one (a processor sends many answers at once)."""

    def __init__(self) -> None:
        self._work: dict[tuple[int, str, int], list[Work]] = {}
        self._groups: dict[int, str] = {}
        self._flows: dict[int, list[tuple[int, int, int]]] = {}  # request → (moment ns, group, track)

    def group(self, row: Mapping[str, Any], kind: int) -> int:
        """The number that stands for a broker's group of tracks."""
        number = group_number(row["broker"], kind)
        self._groups[number] = f"broker {row['broker']}: {_GROUP_NAMES[kind]}"
        return number

    def add(self, group: int, doing: str, index: int, work: Work, number: int) -> None:
        """One thing that process `index` did for request `number`; `doing` is empty or what sets this track of the
        process apart."""
        span = work.span
        if span.end_ns > span.start_ns:
            self._work.setdefault((group, doing, index), []).append(work)
            middle = span.start_ns + (span.end_ns - span.start_ns) // 2
            self._flows.setdefault(number, []).append((middle, group, _track(index, doing)))

    def events(self, zero_ns: int) -> Iterator[Event]:
        """Slices, track by track; then the arrows of each request."""
        for (group, doing, index), done in sorted(self._work.items(), key=lambda item: item[0]):
            base = {"ph": "X", "cat": "process", "pid": group, "tid": _track(index, doing)}
            for together in _overlapping(sorted(done, key=lambda work: work.span.start_ns)):
                start_ns, end_ns = together[0].span.start_ns, max(work.span.end_ns for work in together)
                yield {
                    **base,
                    "name": _called(together),
                    "ts": us(start_ns, zero_ns),
                    "dur": (end_ns - start_ns) / 1000,
                    "args": _together(together),
                }
        for number, points in self._flows.items():
            yield from _flow(number, points, zero_ns)

    def names(self) -> list[Event]:
        """Metadata events: what groups and tracks are called, in which order they stand."""
        events = []
        for group, name in sorted(self._groups.items()):
            events += [
                meta("process_name", group, 0, {"name": name}),
                meta("process_sort_index", group, 0, {"sort_index": group}),
            ]
        for group, doing, index in sorted(self._work):
            role, track = ("processor" if doing else "handler"), _track(index, doing)
            events += [
                meta("thread_name", group, track, {"name": f"{role} {index} {doing}".strip()}),
                meta("thread_sort_index", group, track, {"sort_index": track}),
            ]
        return events


def _flow(number: int, points: list[tuple[int, int, int]], zero_ns: int) -> Iterator[Event]:
    """Arrows from slice to slice: start, steps, end, each bound to the slice around it."""
    for place, (at_ns, group, track) in enumerate(points if len(points) > 1 else ()):
        phase = "s" if place == 0 else "f" if place == len(points) - 1 else "t"
        event = {"ph": phase, "cat": "flow", "name": "request", "id": number + 1, "pid": group, "tid": track}
        yield {**event, "ts": us(at_ns, zero_ns), **({"bp": "e"} if phase == "f" else {})}


def _overlapping(done: Iterable[Work]) -> Iterator[list[Work]]:
    """Work by start, in bunches that overlap."""
    bunch: list[Work] = []
    end_ns = 0
    for work in done:
        if bunch and work.span.start_ns >= end_ns:
            yield bunch
            bunch, end_ns = [], 0
        bunch.append(work)
        end_ns = max(end_ns, work.span.end_ns)
    if bunch:
        yield bunch


def _called(bunch: Sequence[Work]) -> str:
    names = {work.span.name for work in bunch}
    name = names.pop() if len(names) == 1 else "requests"
    return name if len(bunch) == 1 else f"{name} × {len(bunch)}"


def _together(bunch: Sequence[Work]) -> dict[str, Any]:
    """The arguments of one request; of several what they have in common and which they are."""
    if len(bunch) == 1:
        return bunch[0].arguments
    clients = list(dict.fromkeys(str(work.arguments.get("client", "?")) for work in bunch))
    named = [
        f"connection {work.arguments['connection']}, correlation id {work.arguments['correlation_id']}"
        for work in bunch[:MAX_NAMED_IN_SLICE]
    ]
    return {
        "requests": len(bunch),
        "errors": sum("error" in work.arguments for work in bunch),
        "request_bytes": sum(work.arguments.get("request_bytes", 0) for work in bunch),
        "response_bytes": sum(work.arguments.get("response_bytes", 0) for work in bunch),
        "clients": ", ".join(clients[:MAX_NAMED_IN_SLICE]),
        "first": "; ".join(named),
    }


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
    spans, arguments = stages(row), _arguments(row)
    by_name = {span.name: span for span in spans}
    processors, handlers, name = busy.group(row, PROCESSORS), busy.group(row, HANDLERS), str(row["api"])
    framed_ns = row["epoch_ns"] + (row["read_ns"] or 0)
    received = Span(name, framed_ns, framed_ns + (row["parse_ns"] or 0))
    busy.add(processors, "receives", row["processor"], Work(received, arguments), number)
    worked = [by_name[stage] for stage in ("io", "local") if stage in by_name]
    if row["handler"] is not None and worked:
        handled = Span(name, worked[0].start_ns, worked[-1].end_ns)
        busy.add(handlers, "", row["handler"], Work(handled, arguments), number)
    if "send" in by_name:
        sent = Span(name, *by_name["send"][1:])
        busy.add(processors, "sends", row["processor"], Work(sent, arguments), number)
    return _async_events(row, number, zero_ns, spans, busy.group(row, REQUESTS))


def _async_events(row: Mapping[str, Any], number: int, zero_ns: int, spans: Sequence[Span], group: int) -> list[Event]:
    first = min([row["epoch_ns"], *(span.start_ns for span in spans)])
    last = max([row["epoch_ns"] + (row["total_ns"] or 0), *(span.end_ns for span in spans)])
    base = {"cat": "request", "id": f"0x{number + 1:x}", "pid": group, "tid": 0}
    events = [{"ph": "b", "name": str(row["api"]), "ts": us(first, zero_ns), **base, "args": _arguments(row)}]
    for span in spans:
        events += [
            {"ph": "b", "name": STAGE_NAMES[span.name], "ts": us(span.start_ns, zero_ns), **base},
            {"ph": "e", "name": STAGE_NAMES[span.name], "ts": us(span.end_ns, zero_ns), **base},
        ]
    return [*events, {"ph": "e", "name": str(row["api"]), "ts": us(last, zero_ns), **base}]


def _track(index: int, doing: str) -> int:
    """Stands where the format has a thread id."""
    return index * len(_DOING) + _DOING.index(doing)


def group_number(broker: int, kind: int) -> int:
    """Stands where the format has a process id."""
    return broker * 10 + kind


def _arguments(row: Mapping[str, Any]) -> dict[str, Any]:
    shown = {
        "api": row["api"],
        "client": row["client"],
        "topic": row["topic"],
        "connection": row["conn_id"],
        "correlation_id": row["corr_id"],
        "version": row["api_version"],
        "error": row["error"] and f"{row['error']} {error_name(row['error'])}",
        "plane": row["plane"],
        "request_bytes": row["req_bytes"],
        "response_bytes": row["resp_bytes"],
        "queued_ahead": row["req_q"],
        "purgatory": row["purg_kind"],
        "attempts": row["attempts"],
        "time": wall_clock(row["epoch_ns"]),
    }
    return {
        name: value[:_LONGEST_TEXT] if isinstance(value, str) else value
        for name, value in shown.items()
        if value not in (None, "", "none") and (name, value) != ("error", 0)
    }


def meta(name: str, group: int, track: int, arguments: dict[str, Any]) -> Event:
    """What a group or a track is called, or where it stands."""
    return {"ph": "M", "name": name, "pid": group, "tid": track, "args": arguments}


def wall_clock(epoch_ns: int) -> str:
    """`2026-11-21 17:00:00.123456 UTC`."""
    seconds, rest = divmod(epoch_ns, 1_000_000_000)
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S") + f".{rest // 1000:06d} UTC"


def us(epoch_ns: int, zero_ns: int) -> float:
    """Microseconds since the first event."""
    return (epoch_ns - zero_ns) / 1000
