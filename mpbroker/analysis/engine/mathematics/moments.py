"""When a request was where: absolute times out of a frame's durations. Pure (numpy, pyarrow).

A frame has t0 and durations; a stage that was not reached took no time. Times are nanoseconds of the broker's monotonic
clock: those of two runs cannot be compared.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mpbroker.analysis.engine.mathematics.histogram import Int64s

#: What `of` needs.
COLUMNS = (
    "t0_ns",
    "rx_wait_ns",
    "read_ns",
    "parse_ns",
    "ring_block_ns",
    "queue_ns",
    "dispatch_ns",
    "io_ns",
    "local_ns",
    "purgatory_ns",
    "resp_prep_ns",
    "resp_queue_ns",
    "total_ns",
    "send_wait_ns",
    "send_ns",
)


class Moments(NamedTuple):
    """Arrays, one value per request. `arrival`: in the kernel, where known; `handled`: a handler let go of it."""

    arrival: Int64s
    enqueued: Int64s
    dequeued: Int64s
    local_done: Int64s
    purg_leave: Int64s
    resp_enq: Int64s
    resp_deq: Int64s
    send_done: Int64s
    handled: Int64s


def column(table: pa.Table, name: str) -> Int64s:
    """A duration column as int64, missing as 0."""
    return np.asarray(table[name].fill_null(0).to_numpy(), np.int64)


def present(table: pa.Table, name: str) -> npt.NDArray[np.bool_]:
    """Where a column has a value."""
    return np.asarray(table[name].is_valid().to_numpy(), bool)


def of(table: pa.Table) -> Moments:
    """The moments of the requests in a frame with COLUMNS. From purg_leave on, counted back from send_done."""
    got = {name.removesuffix("_ns"): column(table, name) for name in COLUMNS}
    t0 = got["t0"]
    enqueued = t0 + got["read"] + got["parse"] + got["ring_block"]
    dequeued = enqueued + got["queue"]
    local_done = dequeued + got["dispatch"] + got["io"] + got["local"]
    send_done = np.where(
        present(table, "total_ns"),
        t0 + got["total"],
        local_done + got["purgatory"] + got["resp_prep"] + got["resp_queue"] + got["send_wait"] + got["send"],
    )
    resp_deq = send_done - got["send"] - got["send_wait"]
    resp_enq = resp_deq - got["resp_queue"]
    parked = present(table, "purgatory_ns")
    return Moments(
        t0 - got["rx_wait"],
        enqueued,
        dequeued,
        local_done,
        resp_enq - got["resp_prep"],
        resp_enq,
        resp_deq,
        send_done,
        np.where(parked, local_done, resp_enq),
    )


def groups(table: pa.Table, by: Sequence[str]) -> list[tuple[tuple[Any, ...], Int64s]]:
    """(key, row numbers) of every combination of the columns `by`, sorted by key; null sorts last."""
    codes, values = np.zeros(table.num_rows, np.int64), []
    for name in by:
        encoded = table[name].combine_chunks().dictionary_encode(null_encoding="encode")
        values.append(encoded.dictionary.to_pylist())
        codes = codes * len(values[-1]) + np.asarray(encoded.indices.to_numpy(zero_copy_only=False), np.int64)
    order = np.argsort(codes, kind="stable")
    found, begins = np.unique(codes[order], return_index=True)
    pieces = np.split(order, begins[1:]) if len(found) else []
    keys = [_key(int(code), values) for code in found]
    return sorted(zip(keys, pieces, strict=True), key=lambda item: [(value is None, value) for value in item[0]])


def _key(code: int, values: list[list[Any]]) -> tuple[Any, ...]:
    parts = []
    for known in reversed(values):
        code, place = divmod(code, len(known))
        parts.append(known[place])
    return tuple(reversed(parts))
