"""One Produce request served twice: by a broker whose native path knows the topics, and by one whose handler is Python.

Both are in-process brokers with the same topics. What a request leaves behind is compared in everything a client, an
operator or a later run could see: the answer's bytes, the trace record, the counters and the result cells.
"""

from __future__ import annotations

import struct
import time
from typing import NamedTuple

from mpbroker.shm import layout
from mpbroker.shm.counters import Counter
from mpbroker.shm.layout import SLOT_HANDLERS, SLOT_PROCESSORS
from mpbroker.trace.record import NOT_REACHED, STAGES, TraceRecord
from tests.harness.in_process_broker import InProcessBroker

CELL_BYTES = 64
WAYS = ("PRODUCE_NATIVE", "PRODUCE_LEFT_", "FETCH_NATIVE", "FETCH_LEFT_")  # counters of which way was taken
PYTHON_ONLY = ("handler_start",)  # what is served natively begins when it is dequeued (docs/trace-format.md)
_FILL_NUMBER_AT, _CELLS_OFFSET_AT, _CELL_COUNT_AT, _FIRST_CELL_AT = 8, 96, 104, 256  # native/shm/layout.h: mpb_entry
_CELL = struct.Struct("<QqqqqiIh")  # tag, base, end, append time, log start, leader epoch, ordinal, error


class Outcome(NamedTuple):
    """What a request came to. `kind`: of the answer, as the processor gets it; None for cells that were not filled."""

    kind: int
    frame: bytes | None
    trace: dict[str, object]
    counted: dict[str, int]
    cells: list[tuple[int, ...] | None]


def cells_of(broker: InProcessBroker, entry: int) -> list[tuple[int, ...] | None]:
    """(base offset, end offset, append time, log start, leader epoch, ordinal, error) of each result cell."""
    core, arena = broker.shared.memory[0], broker.shared.memory[2]
    region = next(
        region for region in layout.read_regions(memoryview(core)).values() if region.name.startswith("entries")
    )
    at = region.offset + entry * region.stride
    (fill_number,) = struct.unpack_from("<Q", core, at + _FILL_NUMBER_AT)
    (more_at,) = struct.unpack_from("<Q", core, at + _CELLS_OFFSET_AT)
    (count,) = struct.unpack_from("<I", core, at + _CELL_COUNT_AT)
    found = []
    for number in range(count):
        where = (core, at + _FIRST_CELL_AT) if number == 0 else (arena, more_at + (number - 1) * CELL_BYTES)
        tag, *values = _CELL.unpack_from(*where)
        found.append(tuple(values) if tag == fill_number else None)
    return found


def counters_of(broker: InProcessBroker) -> dict[str, int]:
    """All but those that tell which way a request took."""
    rows = {"handler": broker.core.row(SLOT_HANDLERS), "processor": broker.core.row(SLOT_PROCESSORS)}
    same = [counter for counter in Counter if not counter.name.startswith(WAYS)]
    return {f"{who}.{counter.name}": row.counter(counter) for who, row in rows.items() for counter in same}


def traced_as(record: TraceRecord) -> dict[str, object]:
    """Everything in a trace record that is not a time or a number of the boot."""
    told = ("aux", "topic_hash", "client_hash", "req_bytes", "resp_bytes", "kind", "plane_prio", "api_key")
    told += ("api_version", "error", "nparts", "purg_kind", "attempts", "flags")
    stages = [name for name, ticks in zip(STAGES, record.stage, strict=True) if ticks != NOT_REACHED]
    return {name: getattr(record, name) for name in told} | {"stages": [s for s in stages if s not in PYTHON_ONLY]}


class Ways:
    """The two brokers. `both` sends a frame to each and returns what it came to; it differs: AssertionError."""

    def __init__(self, directory, make_topics) -> None:
        self.brokers: list[InProcessBroker] = []
        for name in ("native", "python"):
            (directory / name).mkdir()
            broker = InProcessBroker(directory / name, is_traced=True)
            broker.handler.context.native_topics._enabled = name == "native"
            make_topics(broker)
            broker.traced()
            self.brokers.append(broker)
        self.native, self.python = self.brokers

    def served_natively(self) -> int:
        """Requests that the native path served, of all so far; the Python broker's has none."""
        assert self.python.handler.context.native_topics.native.served == 0
        return self.native.handler.context.native_topics.native.served

    def both(self, frame: bytes) -> Outcome:
        """Each broker's outcome of a request frame without its length."""
        native, python = (self._outcome(broker, frame) for broker in self.brokers)
        for what in Outcome._fields:
            mine, other = getattr(native, what), getattr(python, what)
            assert mine == other, f"{what}: native {mine}, Python {other}"
        return native

    def _outcome(self, broker: InProcessBroker, frame: bytes) -> Outcome:
        before = counters_of(broker)
        entry = broker.processor.submit(0, 1, 1, 0, frame, time.monotonic_ns())
        assert entry >= 0
        broker.step()
        [(entry, _connection, _generation, kind, view)] = broker.processor.collect(100)
        cells, answer = cells_of(broker, entry), None if view is None else bytes(view)
        broker.processor.sent(entry, time.monotonic_ns())
        after = counters_of(broker)
        counted = {name: after[name] - before[name] for name in after if after[name] != before[name]}
        [record] = broker.traced()
        return Outcome(kind, answer, traced_as(record), counted, cells)
