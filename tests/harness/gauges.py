"""Gauges as a trace gives them, with numbers known beforehand."""

import pyarrow as pa

from mpbroker.analysis.engine.input.events import GAUGES
from tests.harness.event_trace import BASE_NS, EPOCH_OFFSET_NS


def table(
    seconds: int,
    cpu_share: float,
    depth: int,
    capacity: int,
    run: str = f"{0xB007:016x}",
    runqueue_share: float = 0.01,
) -> pa.Table:
    """One handler and the data ring, sampled every second of the event model's time."""
    rows = []
    for second in range(seconds + 1):
        at = {"run": run, "broker": 1, "epoch_ns": BASE_NS + EPOCH_OFFSET_NS + second * 10**9}
        rows.append(
            {
                **at,
                "type": "ring",
                "name": "data",
                "slot": 8,
                "plane": "data",
                "depth": depth,
                "capacity": capacity,
                "peak": depth,
            }
        )
        rows.append(
            {
                **at,
                "type": "process",
                "name": "handler 0",
                "slot": 4,
                "role": "handler",
                "index": 0,
                "pid": 77,
                "incarnation": 1,
                "cpu_ns": int(second * cpu_share * 10**9),
                "runqueue_wait_ns": int(second * runqueue_share * 10**9),
            }
        )
    return pa.Table.from_pylist(rows, GAUGES)
