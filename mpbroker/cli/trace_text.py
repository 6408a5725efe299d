"""How `mpbroker trace` words what it found; a command's process, standard library alone."""

import sys
import time
from typing import TYPE_CHECKING, Any

from mpbroker.errors import error_name
from mpbroker.trace import record, segment, statistics

if TYPE_CHECKING:
    from mpbroker.analysis.engine.input.losses import Loss

_HEADINGS = {
    "queue": "queue",
    "local": "local",
    "purgatory": "purgatory",
    "response_queue": "response queue",
    "send": "send",
    "total": "total",
}
MAX_GAPS_SHOWN = 10


def warn(sentence: str) -> None:
    """One line on stderr."""
    print(f"mpbroker: {sentence}", file=sys.stderr)


def warn_of_damage(loss: "Loss") -> None:
    """A line for each file that cannot be believed, or not whole: what is made of the trace does not show it."""
    for sentence in loss.damage:
        warn(sentence)


def segment_table(infos: list[segment.SegmentInfo]) -> str:
    """One line per segment. Its records are requests, connections, gauges, clocks, markers and process events."""
    rows: list[tuple[str, ...]] = [("file", "state", "opened", "all records", "dropped", "sampled out")]
    for info in infos:
        _, _, dropped, sampled_out = info.progress.share()
        rows.append(
            (
                info.path.name,
                "closed" if info.closed else "damaged" if info.is_doubtful else "open",
                _moment(info.opened.clock.realtime_ns),
                str(info.record_count),
                str(dropped),
                str(sampled_out),
            )
        )
    return _align(rows, left=3)


def statistics_table(
    result: statistics.TraceStatistics, names: dict[int, str], lost_notices: int = 0, is_chosen: bool = False
) -> str:
    """Losses first, then for every API a line per stage. `is_chosen`: of some of the requests."""
    rows: list[tuple[str, ...]] = [("api", "stage", "count", "p50 µs", "p90 µs", "p99 µs", "max µs")]
    for key in sorted(result.apis):
        rows += _api_rows(names.get(key, f"api {key}"), result.apis[key])
    lines = _loss_lines(result, lost_notices)
    if is_chosen:
        lines.append(f"below are only those asked for: {result.weighted} requests")
    parts = ["\n".join(lines), _align(rows, left=2), *_error_table(result, names)]
    return "\n\n".join(parts)


def _error_table(result: statistics.TraceStatistics, names: dict[int, str]) -> list[str]:
    """Error codes of every API, most frequent first; nothing when there was no error."""
    rows = [
        (names.get(key, f"api {key}"), f"{error_name(code)} ({code})", str(count))
        for key in sorted(result.apis)
        for code, count in result.apis[key].errors_by_code.most_common()
    ]
    return [_align([("api", "error", "requests"), *rows], left=2)] if rows else []


def _loss_lines(result: statistics.TraceStatistics, lost_notices: int) -> list[str]:
    loss = 100 * result.dropped / result.finished if result.finished else 0.0
    lines = [
        f"{result.finished} requests finished: {result.records} records, {result.dropped} dropped ({loss:.2f} %), "
        f"{result.sampled_out} sampled out; {result.segments} segments"
    ]
    if result.sampled_out:
        lines.append(
            f"the trace is a sample: its records stand for {result.weighted} requests; counts below are weighted"
        )
    gaps = result.gaps()
    if gaps:
        lines.append(
            f"{sum(gap.missing for gap in gaps)} requests are missing in {len(gaps)} gaps: "
            "files between others are gone, cut or damaged"
        )
        lines += [
            f"  broker {gap.broker} boot {gap.boot} processor {gap.processor}: {gap.missing} from number "
            f"{gap.first_seq} on"
            for gap in gaps[:MAX_GAPS_SHOWN]
        ]
    if result.damage:
        lines.append(f"{len(result.damage)} damaged files, named above")
    if lost_notices:
        lines.append(
            f"{lost_notices} notices of connections and clients did not reach the tracer: some names are missing"
        )
    return lines


def _api_rows(name: str, api: statistics.ApiStatistics) -> list[tuple[str, ...]]:
    label = f"{name} ({api.errors} errors)" if api.errors else name
    rows = []
    for span, histogram in api.spans.items():
        if histogram.count:
            points = [f"{histogram.percentile(percent) / 1000:.1f}" for percent in statistics.PERCENTILES]
            rows.append((label, _HEADINGS[span], str(histogram.count), *points, f"{histogram.greatest_ns / 1000:.1f}"))
            label = ""
    return rows


def record_json(one: record.TraceRecord, epoch_ns: int, names: dict[int, str]) -> dict[str, Any]:
    """One request with its stages in microseconds since its first byte (stages it did not reach are left out);
    `rx_wait_us`: how long that lay in its socket before."""
    stages = {
        name: ticks * record.TICK_NS / 1000
        for name, ticks in zip(record.STAGES, one.stage, strict=True)
        if ticks != record.NOT_REACHED
    }
    waited_us = None if one.rx_wait == record.NOT_REACHED else one.rx_wait * record.TICK_NS / 1000
    return {
        "time_us": epoch_ns // 1000,
        "api_key": one.api_key,
        "api": names.get(one.api_key, str(one.api_key)),
        "api_version": one.api_version,
        "correlation_id": one.corr_id,
        "connection": one.conn_id,
        "error": one.error,
        "error_name": error_name(one.error),
        "listener": one.listener,
        "plane": one.plane,
        "processor": one.proc_id,
        "handler": None if one.handler_id == 0xFFFF else one.handler_id,
        "request_bytes": one.req_bytes,
        "response_bytes": one.resp_bytes,
        "partitions": one.nparts,
        "attempts": one.attempts,
        "purgatory": record.PURGATORY_NAMES[min(one.purg_kind, 4)],
        "flags": one.flag_names(),
        "weight": one.weight,
        "rx_wait_us": waited_us,
        "stages_us": stages,
    }


def record_line(
    one: record.TraceRecord, epoch_ns: int, names: dict[int, str], client: str | None = None, topic: str | None = None
) -> str:
    """One request in one line; names that are not known are left out."""
    times: dict[str | None, int] = {None: 0}
    times.update(zip(record.STAGES, one.stage, strict=True))
    parts = [] if one.rx_wait == record.NOT_REACHED else [f"socket {one.rx_wait * record.TICK_NS / 1000:.1f}"]
    for name, (first, last) in statistics.SPANS.items():
        begin, end = times[first], times[last]
        if record.NOT_REACHED not in (begin, end):
            parts.append(f"{_HEADINGS[name]} {max(0, end - begin) * record.TICK_NS / 1000:.1f}")
    notes = [f"error {one.error} {error_name(one.error)}"] * (one.error != 0) + one.flag_names()
    name = names.get(one.api_key, f"api {one.api_key}")
    known = "".join(
        f"{what} {text!r} " for what, text in (("client", client), ("topic", topic)) if text
    )  # repr: no control characters
    return (
        f"{_moment(epoch_ns)} {name} v{one.api_version} c{one.conn_id}#{one.corr_id} "
        f"{known}{one.req_bytes}→{one.resp_bytes} B  "
        f"{', '.join(parts)} µs{'  [' + ', '.join(notes) + ']' if notes else ''}"
    )


def _moment(epoch_ns: int) -> str:
    seconds, rest = divmod(epoch_ns, 1_000_000_000)
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds)) + f".{rest // 1_000_000:03d}"


def _align(rows: list[tuple[str, ...]], left: int) -> str:
    """Columns of equal width, the first `left` of them to the left, numbers to the right."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if column < left else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    )
