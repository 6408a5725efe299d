"""Gauges: what rings held and what processes used, once a second, as records of kind 4. Pure; the tracer writes,
anybody reads.

`aux` is the type, `handler_id` the ring or the process slot, `t0_ns` the moment of reading (the same for all of one
sample). At the place of the stages six u64, by type; see FIELDS for names and units. Totals count from the start of the
process: the difference of two samples with the same pid and incarnation is what was used between them.

While no request is finished and nothing waits, samples are left out, except the last one before requests come again.
"""

import struct
from typing import NamedTuple

from mpbroker.trace import record
from mpbroker.trace.process_event import ROLE_NAMES

RING, PROCESS = 1, 2
TYPE_NAMES = {RING: "ring", PROCESS: "process"}

#: type → (name, unit) of the values; a type that needs fewer leaves the rest 0.
FIELDS = {
    RING: (("depth", "requests"), ("capacity", "requests"), ("peak", "requests, largest since the broker's start")),
    PROCESS: (
        ("cpu_ns", "nanoseconds on a core, total"),
        ("runqueue_wait_ns", "nanoseconds ready and waiting for a core, total; all ones: not known"),
        ("pid", "process id"),
        ("role", "number of the role"),
        ("index", "within the role"),
        ("incarnation", "how often the slot was forked"),
    ),
}
NOT_KNOWN = 0xFFFFFFFFFFFFFFFF

CONTROL_RINGS, DATA_RINGS, CONTROLLER_RING, RESPONSE_RINGS = range(8), range(8, 16), 16, range(32, 64)
_SERVICE_RINGS = {
    CONTROLLER_RING: "controller",
    17: "coordinator",
    18: "coordinator-requeued",
    20: "cluster-controller",
}
_REQUEUED_CLASS = 7
_VALUES = struct.Struct("<6Q")
_VALUES_OFFSET = record.layout()["stage"][0]


class RingGauge(NamedTuple):
    """A ring at a moment. `ring` is its row in shared memory; `name` says what it carries."""

    t0_ns: int
    ring: int
    depth: int
    capacity: int
    peak: int

    @property
    def name(self) -> str:
        """`data`, `control`, `controller`, `response-<processor>`; further classes of a plane as `data-<class>`."""
        return ring_name(self.ring)

    @property
    def plane(self) -> str | None:
        """ "data" or "control" for request rings, None for the others."""
        return "data" if self.ring in DATA_RINGS else "control" if self.ring in CONTROL_RINGS else None

    def pack(self, processor: int) -> bytes:
        """The record, for the segments of a processor's lane."""
        return _pack(self.t0_ns, RING, self.ring, processor, self.depth, self.capacity, self.peak, 0, 0, 0)


class ProcessGauge(NamedTuple):
    """A process at a moment; totals since it began. `runqueue_wait_ns` is None where the system does not tell."""

    t0_ns: int
    slot: int
    cpu_ns: int
    runqueue_wait_ns: int | None
    pid: int
    role: int
    index: int  # type: ignore[assignment]  # hides tuple.index, which nobody calls
    incarnation: int

    @property
    def name(self) -> str:
        """As logs name a process: role and index."""
        return f"{ROLE_NAMES.get(self.role, self.role)} {self.index}"

    def pack(self, processor: int) -> bytes:
        """The record, for the segments of a processor's lane."""
        wait_ns = NOT_KNOWN if self.runqueue_wait_ns is None else self.runqueue_wait_ns
        return _pack(self.t0_ns, PROCESS, self.slot, processor, self.cpu_ns, wait_ns, *self[4:])


Gauge = RingGauge | ProcessGauge


def unpack(data: bytes | memoryview, offset: int = 0) -> Gauge | None:
    """The gauge in a record of kind 4; None for a type of a later version."""
    one = record.unpack(data, offset)
    values = _VALUES.unpack_from(data, offset + _VALUES_OFFSET)
    if one.aux == RING:
        return RingGauge(one.t0_ns, one.handler_id, *values[:3])
    if one.aux == PROCESS:
        wait_ns = None if values[1] == NOT_KNOWN else values[1]
        return ProcessGauge(one.t0_ns, one.handler_id, values[0], wait_ns, *values[2:])
    return None


def ring_name(ring: int) -> str:
    """What a ring carries, by its row."""
    if ring in RESPONSE_RINGS:
        return f"response-{ring - RESPONSE_RINGS.start}"
    if ring in _SERVICE_RINGS:
        return _SERVICE_RINGS[ring]
    plane, first = ("data", DATA_RINGS.start) if ring in DATA_RINGS else ("control", CONTROL_RINGS.start)
    if ring not in DATA_RINGS and ring not in CONTROL_RINGS:
        return f"ring-{ring}"
    ring_class = ring - first
    return (
        plane if ring_class == 0 else f"{plane}-requeued" if ring_class == _REQUEUED_CLASS else f"{plane}-{ring_class}"
    )


def _pack(t0_ns: int, kind: int, ident: int, processor: int, *values: int) -> bytes:
    data = bytearray(
        record.TraceRecord(t0_ns=t0_ns, kind=record.GAUGE, aux=kind, handler_id=ident, proc_id=processor).pack()
    )
    _VALUES.pack_into(data, _VALUES_OFFSET, *values)
    return bytes(data)
