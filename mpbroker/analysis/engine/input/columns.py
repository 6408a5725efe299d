"""Columns of a request: the record as numpy reads it, the frame studies see, and the compacted file. Pure (numpy,
pyarrow).

All integers are signed and as wide as Spark's types; missing is null in a frame. A frame column is the same, to the
last bit, from raw segments and from compacted files, in either engine.
"""

import numpy as np
import pyarrow as pa

from mpbroker.analysis.engine.input.durations import FRAME_DURATIONS, STORED
from mpbroker.trace.record import FIELDS, RECORD_BYTES

_NUMPY = {"Q": "<u8", "I": "<u4", "i": "<i4", "B": "u1", "h": "<i2", "H": "<u2"}


def _numpy_type(code: str) -> tuple[str] | tuple[str, tuple[int]]:
    return (_NUMPY[code],) if len(code) == 1 else (_NUMPY[code[-1]], (int(code[:-1]),))


#: The record of mpbroker.trace.record, field for field.
RECORD_DTYPE = np.dtype([(name, *_numpy_type(code)) for name, code in FIELDS])
assert RECORD_DTYPE.itemsize == RECORD_BYTES

TIMESTAMP = pa.timestamp("us", tz="UTC")

#: What frames and compacted files have in common: name → type. `acks` is -1, 0 or 1 (0 for other APIs than Produce);
#: `flags` are the record's, and durations.BACKWARDS; `handler`: null when none touched it; `client`, `topic`: null when
#: the dictionary does not know the hash.
SHARED: dict[str, pa.DataType] = {
    "run": pa.string(),
    "broker": pa.int32(),
    "ts": TIMESTAMP,
    "ring": pa.int32(),
    "seq": pa.int64(),
    "conn_id": pa.int64(),
    "client": pa.string(),
    "client_hash": pa.int64(),
    "topic": pa.string(),
    "topic_hash": pa.int64(),
    "listener": pa.string(),
    "plane": pa.string(),
    "prio": pa.int32(),
    "api": pa.string(),
    "api_key": pa.int16(),
    "api_version": pa.int16(),
    "error": pa.int16(),
    "acks": pa.int16(),
    "flags": pa.int32(),
    "processor": pa.int32(),
    "handler": pa.int32(),
    "req_bytes": pa.int64(),
    "resp_bytes": pa.int64(),
    "nparts": pa.int32(),
    "req_q": pa.int32(),
    "resp_q": pa.int32(),
    "inflight": pa.int16(),
    "attempts": pa.int16(),
    "purg_kind": pa.string(),
    "throttle_ms": pa.int64(),
    "aux": pa.int64(),
    "corr_id": pa.int32(),
    "weight": pa.int32(),
}
NULLABLE = {"client", "topic", "handler", "handler_cpu_ns", *(f"{name}_ns" for name in FRAME_DURATIONS)}


def _frame_types() -> dict[str, pa.DataType]:
    types: dict[str, pa.DataType] = {}
    for name, kind in SHARED.items():
        types[name] = kind
        if name == "ts":
            types |= {"epoch_ns": pa.int64(), "t0_ns": pa.int64()}
    types["handler_cpu_ns"] = pa.int64()
    return types | {f"{name}_ns": pa.int64() for name in FRAME_DURATIONS}


#: The frame `requests()` gives, in both engines.
FRAME = pa.schema([pa.field(name, kind, nullable=name in NULLABLE) for name, kind in _frame_types().items()])

#: A compacted file: the shared columns; epoch_ns = epoch microseconds of `ts` * 1000 + ts_ns; t0_ns = epoch_ns -
#: clock_offset_ns; durations in ticks of 64 ns, -1 when missing (handler_cpu_ticks too).
COMPACT = pa.schema(
    [
        *(pa.field(name, kind, nullable=name in NULLABLE) for name, kind in SHARED.items()),
        pa.field("ts_ns", pa.int16(), nullable=False),
        pa.field("clock_offset_ns", pa.int64(), nullable=False),
        *(pa.field(f"{name}_ticks", pa.int32(), nullable=False) for name in (*STORED, "handler_cpu")),
    ]
)
