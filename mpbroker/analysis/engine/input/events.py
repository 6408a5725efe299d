"""What a trace holds beside requests: gauges, processes, roles, connections, markers, notices of loss, as tables.

They are few, so they are read one by one by the trace package's own readers. Times are nanoseconds since 1970.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from mpbroker.analysis.engine.input.boot import Boot
from mpbroker.analysis.engine.input.clock_line import ClockLine
from mpbroker.analysis.engine.input.losses import Gap
from mpbroker.trace import gauge, process_event, record, role_change, segment
from mpbroker.trace.dictionary import Dictionary
from mpbroker.trace.record import RECORD_BYTES

_KIND_OFFSET = 44
_WHERE = [("run", pa.string()), ("broker", pa.int32())]
EVENTS = pa.schema([*_WHERE, ("ring", pa.int32()), ("record", pa.binary(RECORD_BYTES))])
#: `type` "ring": depth, capacity, peak (requests) of the ring `name`; "process": totals since the process began.
GAUGES = pa.schema(
    [
        *_WHERE,
        ("epoch_ns", pa.int64()),
        ("type", pa.string()),
        ("name", pa.string()),
        ("slot", pa.int32()),
        ("plane", pa.string()),
        ("depth", pa.int64()),
        ("capacity", pa.int64()),
        ("peak", pa.int64()),
        ("role", pa.string()),
        ("index", pa.int64()),
        ("pid", pa.int64()),
        ("incarnation", pa.int64()),
        ("cpu_ns", pa.int64()),
        ("runqueue_wait_ns", pa.int64()),
    ]
)
PROCESSES = pa.schema(
    [
        *_WHERE,
        ("epoch_ns", pa.int64()),
        ("event", pa.string()),
        ("name", pa.string()),
        ("role", pa.string()),
        ("index", pa.int64()),
        ("slot", pa.int32()),
        ("pid", pa.int64()),
        ("incarnation", pa.int64()),
        ("exit", pa.string()),
        ("restarts", pa.int64()),
    ]
)
#: Partitions whose role changed at a broker. `mono_ns`: CLOCK_MONOTONIC, one for all brokers of a machine.
ROLES = pa.schema(
    [
        *_WHERE,
        ("epoch_ns", pa.int64()),
        ("mono_ns", pa.int64()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("leader_epoch", pa.int64()),
        ("old_role", pa.string()),
        ("new_role", pa.string()),
        ("log_end", pa.int64()),
        ("high_watermark", pa.int64()),
        ("controller_epoch", pa.int64()),
        ("leader", pa.int64()),
    ]
)
CONNECTIONS = pa.schema(
    [
        *_WHERE,
        ("conn_id", pa.int64()),
        ("peer", pa.string()),
        ("software", pa.string()),
        ("listener", pa.int32()),
        ("processor", pa.int32()),
        ("opened_epoch_ns", pa.int64()),
        ("closed_epoch_ns", pa.int64()),
        ("requests", pa.int64()),
        ("close_reason", pa.int32()),
    ]
)
MARKERS = pa.schema([("epoch_ns", pa.int64()), *_WHERE, ("number", pa.int64()), ("text", pa.string())])
LOSSES = pa.schema([("epoch_ns", pa.int64()), ("broker", pa.int32()), ("dropped", pa.int64()), ("missing", pa.int64())])

Clocks = Mapping[Boot, ClockLine]


def scan(info: segment.SegmentInfo, kinds: Collection[int] | None = None) -> Iterator[bytes]:
    """Records of other kinds than request (only `kinds`, if given). Stops where the header says there are no more."""
    left = info.record_count
    if info.closed is not None:
        left = info.closed.record_count - (info.closed.next_seq - info.opened.first_seq)
    chunks = segment.read_chunks(info, 65536)
    while left > 0 and (chunk := next(chunks, None)) is not None:
        found = np.frombuffer(chunk, np.uint8)[_KIND_OFFSET::RECORD_BYTES]
        places = np.flatnonzero(found != record.REQUEST).tolist()
        left -= len(places) if info.closed is not None else 0
        for place in places:
            if kinds is None or found[place] in kinds:
                yield chunk[place * RECORD_BYTES : (place + 1) * RECORD_BYTES]


def collect(segments: Iterable[segment.SegmentInfo]) -> pa.Table:
    """All of them, as EVENTS, in the order of the segments."""
    rows: list[tuple[str, int, int, bytes]] = []
    for info in segments:
        run, broker, ring = f"{info.opened.boot_id:016x}", info.opened.broker_id, info.opened.ring
        rows += [(run, broker, ring, data) for data in scan(info)]
    return _table(EVENTS, rows)


def gauges(events: pa.Table, clocks: Clocks) -> pa.Table:
    """As GAUGES, by time; types of a later version are left out."""
    rows: list[tuple[Any, ...]] = []
    for run, broker, epoch_of, data in _of_kind(events, clocks, {record.GAUGE}):
        one = gauge.unpack(data)
        if isinstance(one, gauge.RingGauge):
            rows.append(
                (
                    run,
                    broker,
                    epoch_of(one.t0_ns),
                    "ring",
                    one.name,
                    one.ring,
                    one.plane,
                    one.depth,
                    one.capacity,
                    one.peak,
                    None,
                    None,
                    None,
                    None,
                    None,
                    None,
                )
            )
        elif one is not None:
            rows.append(
                (
                    run,
                    broker,
                    epoch_of(one.t0_ns),
                    "process",
                    one.name,
                    one.slot,
                    None,
                    None,
                    None,
                    None,
                    _role(one.role),
                    one.index,
                    one.pid,
                    one.incarnation,
                    one.cpu_ns,
                    one.runqueue_wait_ns,
                )
            )
    return _table(GAUGES, rows).sort_by("epoch_ns")


def process_events(events: pa.Table, clocks: Clocks) -> pa.Table:
    """As PROCESSES, by time."""
    rows = []
    for run, broker, epoch_of, data in _of_kind(events, clocks, {record.PROCESS_EVENT}):
        one = process_event.unpack(data)
        rows.append(
            (
                run,
                broker,
                epoch_of(one.t0_ns),
                process_event.EVENT_NAMES.get(one.event, str(one.event)),
                one.name,
                _role(one.role),
                one.index,
                one.slot,
                one.pid,
                one.incarnation,
                one.exit_text,
                one.restarts,
            )
        )
    return _table(PROCESSES, rows).sort_by("epoch_ns")


def role_changes(events: pa.Table, names: Dictionary, clocks: Clocks) -> pa.Table:
    """As ROLES, by time; a topic whose name the trace does not have is its hash."""
    topics = {(boot.run, boot.broker): dict(names.of(boot.broker, boot.boot_id).topics) for boot in clocks}
    rows = []
    for run, broker, epoch_of, data in _of_kind(events, clocks, {record.ROLE_CHANGE}):
        one = role_change.unpack(data)
        rows.append(
            (
                run,
                broker,
                epoch_of(one.t0_ns),
                one.t0_ns,
                topics[run, broker].get(one.topic_hash, f"{one.topic_hash:08x}"),
                one.partition,
                one.leader_epoch,
                role_change.ROLE_NAMES.get(one.old_role, str(one.old_role)),
                role_change.ROLE_NAMES.get(one.new_role, str(one.new_role)),
                one.log_end,
                one.high_watermark,
                one.controller_epoch,
                one.leader,
            )
        )
    return _table(ROLES, rows).sort_by("epoch_ns")


def connections(events: pa.Table, names: Dictionary, clocks: Clocks) -> pa.Table:
    """As CONNECTIONS, by connection: from the dictionary and from records of opening and closing."""
    found: dict[tuple[str, int, int], dict[str, Any]] = {}
    for boot, line in clocks.items():
        for one in names.of(boot.broker, boot.boot_id).connections.values():
            software = f"{one.software} {one.version}".strip() or None
            found[boot.run, boot.broker, one.conn_id] = {
                "peer": one.peer,
                "software": software,
                "listener": one.listener,
                "processor": one.processor,
                "opened_epoch_ns": line.epoch_of(one.opened_ns),
            }
    for run, broker, epoch_of, data in _of_kind(events, clocks, {record.CONNECTION_OPEN, record.CONNECTION_CLOSE}):
        seen = record.unpack(data)
        row = found.setdefault((run, broker, seen.conn_id), {})
        row |= {"listener": seen.listener, "processor": seen.proc_id}
        if seen.kind == record.CONNECTION_OPEN:
            row["opened_epoch_ns"] = epoch_of(seen.t0_ns)
        else:
            row |= {"closed_epoch_ns": epoch_of(seen.t0_ns), "requests": seen.aux, "close_reason": seen.error}
    columns = CONNECTIONS.names[3:]
    return _table(CONNECTIONS, [(*key, *(found[key].get(name) for name in columns)) for key in sorted(found)])


def markers(names: Dictionary, clocks: Clocks) -> pa.Table:
    """As MARKERS, by time."""
    rows = [
        (line.epoch_of(one.t0_ns), boot.run, boot.broker, one.number, one.text)
        for boot, line in clocks.items()
        for one in names.of(boot.broker, boot.boot_id).markers.values()
    ]
    return _table(MARKERS, sorted(rows))


def losses(events: pa.Table, gaps: Iterable[Gap], clocks: Clocks) -> pa.Table:
    """As LOSSES, by time: notices of dropped requests, and gaps."""
    rows = [(gap.epoch_ns, gap.broker, 0, gap.missing) for gap in gaps]
    for _, broker, epoch_of, data in _of_kind(events, clocks, {record.DROP_NOTICE}):
        one = record.unpack(data)
        rows.append((epoch_of(one.t0_ns), broker, one.aux, 0))
    return _table(LOSSES, sorted(rows))


def sum_losses(table: pa.Table, window_ms: int) -> pa.Table:
    """Per window and broker: window_ms, broker, dropped, missing."""
    window = table.column("epoch_ns").to_numpy() // (window_ms * 1_000_000) * window_ms
    grouped = table.append_column("window_ms", pa.array(window, pa.int64())).group_by(["window_ms", "broker"])
    summed = grouped.aggregate([("dropped", "sum"), ("missing", "sum")]).rename_columns(
        ["window_ms", "broker", "dropped", "missing"]
    )
    return summed.sort_by([("window_ms", "ascending"), ("broker", "ascending")])


def _of_kind(
    events: pa.Table, clocks: Clocks, kinds: Collection[int]
) -> Iterator[tuple[str, int, Callable[[int], int], bytes]]:
    by_run = {(boot.run, boot.broker): line for boot, line in clocks.items()}
    for run, broker, data in zip(
        *(events.column(name).to_pylist() for name in ("run", "broker", "record")), strict=True
    ):
        if data[_KIND_OFFSET] in kinds and (run, broker) in by_run:
            yield run, broker, by_run[run, broker].epoch_of, data


def _role(number: int) -> str:
    return process_event.ROLE_NAMES.get(number, str(number))


def _table(schema: pa.Schema, rows: Sequence[tuple[Any, ...]]) -> pa.Table:
    """Rows as a table; without those whose numbers no column holds, which damage alone can write."""
    try:
        columns = list(zip(*rows, strict=True)) or [()] * len(schema)
        return pa.table(
            [pa.array(values, field.type) for values, field in zip(columns, schema, strict=True)], schema=schema
        )
    except (OverflowError, pa.ArrowInvalid):
        widths = [field.type.bit_width - 1 if pa.types.is_integer(field.type) else None for field in schema]
        fitting = [
            row
            for row in rows
            if all(
                bits is None or value is None or -1 << bits <= value < 1 << bits
                for bits, value in zip(widths, row, strict=True)
            )
        ]
        if len(fitting) == len(rows):
            raise
        return _table(schema, fitting)
