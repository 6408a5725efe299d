"""How busy processes and rings were, from the tracer's gauges. Pure (numpy, pyarrow).

Totals of a process count from its start: the difference of two samples of the same pid and incarnation, over the time
between them, is the share of a core it used, and the share it was ready but waited for one.
"""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

FULL_SHARE = 0.8
UTILISATION = pa.schema(
    [
        ("epoch_ns", pa.int64()),
        ("run", pa.string()),
        ("broker", pa.int32()),
        ("process", pa.string()),
        ("role", pa.string()),
        ("seconds", pa.float64()),
        ("cpu_share", pa.float64()),
        ("runqueue_share", pa.float64()),
    ]
)
SATURATION = pa.schema(
    [
        ("run", pa.string()),
        ("broker", pa.int32()),
        ("ring", pa.string()),
        ("samples", pa.int64()),
        ("mean_depth", pa.float64()),
        ("max_depth", pa.int64()),
        ("peak", pa.int64()),
        ("capacity", pa.int64()),
        ("full_share", pa.float64()),
    ]
)


def of_processes(gauges: pa.Table) -> pa.Table:
    """UTILISATION: a row per process and pair of neighbouring samples, `epoch_ns` of the later one.

    Differences beyond what is possible (a total that fell) are left out. runqueue_share is null where the system is
    silent.
    """
    rows: list[dict[str, Any]] = []
    before: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in gauges.filter(pc.equal(gauges["type"], "process")).sort_by("epoch_ns").to_pylist():
        key = (row["run"], row["broker"], row["slot"], row["pid"], row["incarnation"])
        last, before[key] = before.get(key), row
        if last is not None and row["epoch_ns"] > last["epoch_ns"] and row["cpu_ns"] >= last["cpu_ns"]:
            rows.append(_between(last, row))
    return pa.Table.from_pylist(rows, UTILISATION)


def _between(last: dict[str, Any], row: dict[str, Any]) -> dict[str, Any]:
    elapsed_ns = row["epoch_ns"] - last["epoch_ns"]
    waits = row["runqueue_wait_ns"], last["runqueue_wait_ns"]
    waited = None if None in waits else max(0, waits[0] - waits[1]) / elapsed_ns
    return {
        "epoch_ns": row["epoch_ns"],
        "run": row["run"],
        "broker": row["broker"],
        "process": row["name"],
        "role": row["role"],
        "seconds": elapsed_ns / 1e9,
        "cpu_share": (row["cpu_ns"] - last["cpu_ns"]) / elapsed_ns,
        "runqueue_share": waited,
    }


def means(table: pa.Table, from_ns: int, to_ns: int, run: str | None = None) -> dict[str, tuple[float, float | None]]:
    """Process → (mean share of a core, mean share of waiting for one) between two moments."""
    found: dict[str, list[tuple[float, float, float | None]]] = {}
    for row in table.to_pylist():
        if from_ns <= row["epoch_ns"] < to_ns and run in (None, row["run"]):
            found.setdefault(row["process"], []).append((row["seconds"], row["cpu_share"], row["runqueue_share"]))
    result: dict[str, tuple[float, float | None]] = {}
    for process, samples in sorted(found.items()):
        seconds = [one[0] for one in samples]
        waits = [one[2] for one in samples if one[2] is not None]
        waited = float(np.average(waits, weights=seconds)) if len(waits) == len(samples) else None
        result[process] = float(np.average([one[1] for one in samples], weights=seconds)), waited
    return result


def of_rings(gauges: pa.Table) -> pa.Table:
    """SATURATION: per ring its depth over all samples, and the share of samples at more than FULL_SHARE of its
    capacity."""
    rings: dict[tuple[str, int, str], list[dict[str, Any]]] = {}
    for row in gauges.filter(pc.equal(gauges["type"], "ring")).to_pylist():
        rings.setdefault((row["run"], row["broker"], row["name"]), []).append(row)
    rows = []
    for (run, broker, name), samples in sorted(rings.items()):
        depth = [one["depth"] for one in samples]
        full = sum(one["capacity"] > 0 and one["depth"] > FULL_SHARE * one["capacity"] for one in samples)
        rows.append(
            {
                "run": run,
                "broker": broker,
                "ring": name,
                "samples": len(samples),
                "mean_depth": float(np.mean(depth)),
                "max_depth": max(depth),
                "peak": max(one["peak"] for one in samples),
                "capacity": samples[-1]["capacity"],
                "full_share": full / len(samples),
            }
        )
    return pa.Table.from_pylist(rows, SATURATION)
