"""The 128-byte trace record as data: field names, their places, stage names, flags, and decoding.

Any process; pure. native/trace/trace_record.h is the same in C, and tests/unit/trace/test_record.py compares the two.
Little endian. Times: `t0_ns` is CLOCK_MONOTONIC nanoseconds, everything else ticks of 2**TICK_SHIFT nanoseconds.
"""

import struct
from typing import NamedTuple

RECORD_BYTES = 128
TICK_SHIFT = 6
TICK_NS = 1 << TICK_SHIFT
NOT_REACHED = 0xFFFFFFFF
SATURATED = 0xFFFFFFFE

REQUEST, CONNECTION_OPEN, CONNECTION_CLOSE, DROP_NOTICE, GAUGE, CLOCK, MARKER, PROCESS_EVENT, ROLE_CHANGE = range(9)
KIND_NAMES = ("request", "connection-open", "connection-close", "drop-notice", "gauge", "clock", "marker", "process",
              "role-changed")

STAGES = ("frame_done", "parsed", "enqueued", "dequeued", "handler_start", "io_done", "local_done", "purg_enter",
          "purg_leave", "resp_enq", "resp_deq", "send_start", "send_done")

PURGATORY_NAMES = ("none", "produce", "fetch", "join", "controller")

ACKS_MASK = 0x0003
FLAG_NAMES = {0x0004: "follower", 0x0008: "purgatory-timeout", 0x0010: "zero-copy", 0x0020: "tls",
              0x0040: "muted-quota", 0x0080: "aborted", 0x0100: "re-dispatched", 0x0200: "kept",
              0x0400: "saturated", 0x0800: "incremental-fetch"}
(FOLLOWER, PURGATORY_TIMEOUT, ZERO_COPY, TLS,
 MUTED_QUOTA, ABORTED, REDISPATCHED, KEPT,
 HAS_SATURATED, INCREMENTAL_FETCH) = FLAG_NAMES
SAMPLE_SHIFT = 12

#: (name, struct code); the offset of each follows from the codes before it, without padding.
FIELDS = (
    ("t0_ns", "Q"), ("seq_lo", "I"), ("aux", "I"), ("conn_id", "I"), ("client_hash", "I"), ("topic_hash", "I"),
    ("corr_id", "i"), ("req_bytes", "I"), ("resp_bytes", "I"), ("throttle_ms", "I"), ("kind", "B"), ("plane_prio", "B"),
    ("api_key", "h"), ("api_version", "h"), ("error", "h"), ("listener", "B"), ("inflight", "B"), ("proc_id", "H"),
    ("handler_id", "H"), ("nparts", "H"), ("req_q", "H"), ("resp_q", "H"), ("purg_kind", "B"), ("attempts", "B"),
    ("flags", "H"), ("rx_wait", "I"), ("stage", "13I"), ("handler_cpu", "I"),
)
_FORMAT = "<" + "".join(code for _, code in FIELDS)
RECORD = struct.Struct(_FORMAT)
assert RECORD.size == RECORD_BYTES

_STAGE_INDEX = next(i for i, (name, _) in enumerate(FIELDS) if name == "stage")


def layout() -> dict[str, tuple[int, int]]:
    """Field → (offset, bytes)."""
    places, offset = {}, 0
    for name, code in FIELDS:
        size = struct.calcsize("<" + code)
        places[name] = (offset, size)
        offset += size
    return places


class TraceRecord(NamedTuple):
    """One record; `stage` has 13 offsets in ticks since t0 (NOT_REACHED, SATURATED)."""

    t0_ns: int
    seq_lo: int = 0
    aux: int = 0
    conn_id: int = 0
    client_hash: int = 0
    topic_hash: int = 0
    corr_id: int = 0
    req_bytes: int = 0
    resp_bytes: int = 0
    throttle_ms: int = 0
    kind: int = REQUEST
    plane_prio: int = 0
    api_key: int = 0
    api_version: int = 0
    error: int = 0
    listener: int = 0
    inflight: int = 0
    proc_id: int = 0
    handler_id: int = 0xFFFF
    nparts: int = 0
    req_q: int = 0
    resp_q: int = 0
    purg_kind: int = 0
    attempts: int = 0
    flags: int = 0
    rx_wait: int = NOT_REACHED
    stage: tuple[int, ...] = (NOT_REACHED,) * len(STAGES)
    handler_cpu: int = 0

    def pack(self) -> bytes:
        """The 128 bytes."""
        values = self[:_STAGE_INDEX] + tuple(self.stage) + self[_STAGE_INDEX + 1:]
        return RECORD.pack(*values)

    @property
    def plane(self) -> int:
        """0 data, 1 control."""
        return self.plane_prio & 3

    @property
    def weight(self) -> int:
        """Requests this record stands for (1 unless sampled)."""
        return 1 << (self.flags >> SAMPLE_SHIFT)

    def flag_names(self) -> list[str]:
        """Names of the flag bits set, acks and sampling apart."""
        return [name for bit, name in FLAG_NAMES.items() if self.flags & bit]

    def stage_ns(self, index: int) -> int | None:
        """Nanoseconds from t0 to a stage, None when it was not reached."""
        ticks = self.stage[index]
        return None if ticks == NOT_REACHED else ticks << TICK_SHIFT


def unpack(data: bytes | memoryview, offset: int = 0) -> TraceRecord:
    """The record at `offset` of a buffer with at least RECORD_BYTES from there."""
    values = RECORD.unpack_from(data, offset)
    end = _STAGE_INDEX + len(STAGES)
    return TraceRecord._make((*values[:_STAGE_INDEX], values[_STAGE_INDEX:end], *values[end:]))
