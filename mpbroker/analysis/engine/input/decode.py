"""Raw trace records into columns. Pure (numpy, pyarrow); also runs in Spark's Python workers.

What a record means depends on its segment's header and its boot's clock and names: the DecodeContext, which may be
pickled.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mpbroker.analysis.engine.input.clock_line import ClockLine
from mpbroker.analysis.engine.input.column_set import NONE, Bools, Codes, ColumnSet, frame_table
from mpbroker.analysis.engine.input.columns import RECORD_DTYPE
from mpbroker.analysis.engine.input.durations import BACKWARDS, MAX_TICKS, MISSING_TICKS, SPANS
from mpbroker.analysis.engine.mathematics.histogram import Int64s
from mpbroker.trace.record import (
    ACKS_MASK,
    HAS_SATURATED,
    NOT_REACHED,
    PURGATORY_NAMES,
    REQUEST,
    SAMPLE_SHIFT,
    SATURATED,
    STAGES,
)

Records = npt.NDArray[Any]
PLANE_NAMES = ("data", "control")
NO_HANDLER = 0xFFFF
_STAGE_PLACE = {name: place for place, name in enumerate(STAGES)}


@dataclass(frozen=True)
class DecodeContext:
    """Of one segment. `first_seq`: the lane's number of the segment's first request."""

    run: str
    broker: int
    ring: int
    first_seq: int
    clock: ClockLine
    apis: Mapping[int, str] = field(default_factory=dict)
    listeners: Sequence[str] = ()
    clients: Mapping[int, str] = field(default_factory=dict)
    topics: Mapping[int, str] = field(default_factory=dict)


class RowFilter(NamedTuple):
    """Which requests of an input count: from_ns <= epoch_ns < to_ns, names of APIs (None: all), broker ids (None:
    all)."""

    from_ns: int | None = None
    to_ns: int | None = None
    apis: tuple[str, ...] | None = None
    brokers: tuple[int, ...] | None = None


def decode(
    records: bytes | memoryview,
    context: DecodeContext,
    columns: Sequence[str] | None = None,
    rows: RowFilter = RowFilter(),
) -> pa.Table:
    """The requests among whole records, as columns of FRAME (None: all)."""
    return frame_table(RawColumns(requests_of(records, context, rows), context), columns)


def requests_of(records: bytes | memoryview, context: DecodeContext, rows: RowFilter = RowFilter()) -> Records:
    """The records of kind request that the filter lets through, as an array of RECORD_DTYPE."""
    found = np.frombuffer(records, RECORD_DTYPE)
    keep = found["kind"] == REQUEST
    if rows.brokers is not None and context.broker not in rows.brokers:
        keep[:] = False
    if rows.apis is not None:
        keys = [key for key in np.unique(found["api_key"]).tolist() if api_name(context, key) in rows.apis]
        keep &= np.isin(found["api_key"], keys)
    if rows.from_ns is not None or rows.to_ns is not None:
        epoch_ns = context.clock.epoch_ns(found["t0_ns"].astype(np.int64))
        keep &= within(epoch_ns, rows.from_ns, rows.to_ns)
    return found if keep.all() else found[keep]


def within(epoch_ns: Int64s, from_ns: int | None, to_ns: int | None) -> Bools:
    """from_ns <= epoch_ns < to_ns; None: no limit."""
    keep = np.ones(len(epoch_ns), np.bool_)
    if from_ns is not None:
        keep &= epoch_ns >= from_ns
    if to_ns is not None:
        keep &= epoch_ns < to_ns
    return keep


def api_name(context: DecodeContext, key: int) -> str:
    """As the segment's header names the API."""
    return context.apis.get(key, f"Api{key}")


class RawColumns(ColumnSet):
    """Requests of one segment; a column is computed when it is asked for."""

    def __init__(self, records: Records, context: DecodeContext) -> None:
        self._records = records
        self._context = context
        self.rows = len(records)

    def numbers(self, name: str) -> npt.NDArray[Any]:
        if name in _CONSTANT:
            return np.full(self.rows, getattr(self._context, name), np.int64)
        if name in _COMPUTED:
            return _COMPUTED[name](self)
        if name.endswith("_ticks"):
            return self._spans[0][name.removesuffix("_ticks")]
        return self._records[name].astype(np.int64)

    def labels(self, name: str) -> tuple[Codes, list[str | None]]:
        if name == "run":
            return np.zeros(self.rows, np.int64), [self._context.run]
        source, label = _LABELS[name]
        values, codes = np.unique(self._records[source], return_inverse=True)
        strings = [label(self._context, int(value)) for value in values]
        unique = list(dict.fromkeys(strings))
        if len(unique) < len(strings):
            codes = np.array([unique.index(one) for one in strings], np.int64)[codes]
        return codes, unique

    def only(self, rows: Bools | Int64s) -> ColumnSet:
        return RawColumns(self._records[rows], self._context)

    @cached_property
    def epoch(self) -> Int64s:
        """Nanoseconds since 1970."""
        return self._context.clock.epoch_ns(self._records["t0_ns"].astype(np.int64))

    @cached_property
    def _spans(self) -> tuple[dict[str, Int64s], Int64s]:
        """Every stored duration in ticks, and what its computation adds to the flags."""
        stages = self._records["stage"].astype(np.int64)
        flags = np.zeros(self.rows, np.int64)
        found = {"rx_wait": _clipped(self._records["rx_wait"].astype(np.int64), flags)}
        for name, (starts, end) in SPANS.items():
            begin = _first_reached(stages, starts)
            finish = stages[:, _STAGE_PLACE[end]]
            there = (begin != NOT_REACHED) & (finish != NOT_REACHED) & ~((begin == SATURATED) & (finish == SATURATED))
            ticks = np.where(finish == SATURATED, SATURATED, finish - begin)
            flags |= np.where(there & (ticks < 0), BACKWARDS, 0)
            found[name] = _clipped(np.where(there, np.maximum(ticks, 0), NOT_REACHED), flags)
        return found, flags

    @property
    def flags(self) -> Int64s:
        """The record's, and what its durations show."""
        return self._records["flags"].astype(np.int64) | self._spans[1]


def _first_reached(stages: Int64s, names: Sequence[str | None]) -> Int64s:
    if names[0] is None:
        return np.zeros(len(stages), np.int64)
    begin = stages[:, _STAGE_PLACE[names[0]]]
    for name in names[1:]:
        assert name is not None
        begin = np.where(begin == NOT_REACHED, stages[:, _STAGE_PLACE[name]], begin)
    return begin


def _clipped(ticks: Int64s, flags: Int64s) -> Int64s:
    """Into signed 32 bits; NOT_REACHED becomes missing, what is too long sets the flag."""
    missing = ticks == NOT_REACHED
    flags |= np.where(~missing & (ticks > MAX_TICKS), HAS_SATURATED, 0)
    return np.where(missing, MISSING_TICKS, np.minimum(ticks, MAX_TICKS))


def _sequence(one: RawColumns) -> Int64s:
    first = one._context.first_seq
    return first + ((one._records["seq_lo"].astype(np.int64) - first) & 0xFFFFFFFF)


def _acks(one: RawColumns) -> Int64s:
    acks = one._records["flags"].astype(np.int64) & ACKS_MASK
    return np.where(acks == ACKS_MASK, -1, acks)


def _handler(one: RawColumns) -> Int64s:
    handler = one._records["handler_id"].astype(np.int64)
    return np.where(handler == NO_HANDLER, NONE, handler)


def _handler_cpu(one: RawColumns) -> Int64s:
    cpu = one._records["handler_cpu"].astype(np.int64)
    return np.where(cpu == 0, MISSING_TICKS, np.minimum(cpu, MAX_TICKS))


_CONSTANT = {"broker", "ring"}
_COMPUTED: dict[str, Callable[[RawColumns], Int64s]] = {
    "epoch_ns": lambda one: one.epoch,
    "ts": lambda one: one.epoch // 1000,
    "ts_ns": lambda one: one.epoch % 1000,
    "clock_offset_ns": lambda one: one.epoch - one._records["t0_ns"].astype(np.int64),
    "seq": _sequence,
    "acks": _acks,
    "flags": lambda one: one.flags,
    "weight": lambda one: np.int64(1) << (one._records["flags"].astype(np.int64) >> SAMPLE_SHIFT),
    "prio": lambda one: one._records["plane_prio"].astype(np.int64) >> 2 & 7,
    "processor": lambda one: one._records["proc_id"].astype(np.int64),
    "handler": _handler,
    "handler_cpu_ticks": _handler_cpu,
}
_LABELS: dict[str, tuple[str, Callable[[DecodeContext, int], str | None]]] = {
    "api": ("api_key", api_name),
    "client": ("client_hash", lambda context, value: context.clients.get(value)),
    "topic": ("topic_hash", lambda context, value: context.topics.get(value)),
    "listener": (
        "listener",
        lambda context, value: context.listeners[value] if value < len(context.listeners) else f"listener-{value}",
    ),
    "plane": (
        "plane_prio",
        lambda context, value: PLANE_NAMES[value & 3] if value & 3 < len(PLANE_NAMES) else f"plane-{value & 3}",
    ),
    "purg_kind": (
        "purg_kind",
        lambda context, value: PURGATORY_NAMES[value] if value < len(PURGATORY_NAMES) else f"kind-{value}",
    ),
}
