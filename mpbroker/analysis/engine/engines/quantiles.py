"""From histograms to a row per group and stage with its percentiles, for every engine. Pure (numpy, pyarrow)."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from mpbroker.analysis.engine.input.columns import FRAME
from mpbroker.analysis.engine.mathematics.histogram import Int64s, middle_ns

#: Column → the share that does not exceed it.
QUANTILES = {"p50_ns": 0.5, "p99_ns": 0.99}
#: A share of a number of durations is a float; what is a whole number but for that reaches it.
LEEWAY = 1e-9
_TYPES = {"stage": pa.string(), "p50_ns": pa.float64(), "p99_ns": pa.float64()}
_TYPES |= dict.fromkeys(("window_ms", "n", "sum_ns", "max_ns"), pa.int64())


def of_rollup(rollup: pa.Table, by: Sequence[str]) -> pa.Table:
    """Of a table that Engine.rollup gave for this."""
    starts, ends = _runs(rollup, ("window_ms", *by, "stage"))
    n, bucket = rollup["n"].to_numpy(), rollup["bucket"].to_numpy()
    columns = {name: rollup[name].take(pa.array(starts)) for name in ("window_ms", *by, "stage")}
    columns["n"] = pa.array(np.add.reduceat(n, starts) if len(starts) else n)
    for name, how in (("sum_ns", np.add), ("max_ns", np.maximum)):
        values = rollup[name].to_numpy()
        columns[name] = pa.array(how.reduceat(values, starts) if len(starts) else values)
    group = np.repeat(np.arange(len(starts)), ends - starts)
    upto = np.cumsum(n)
    upto -= np.concatenate(([0], upto))[starts][group] if len(starts) else 0
    whole = columns["n"].to_numpy().astype(np.float64)
    for name, q in QUANTILES.items():
        reached = upto >= (np.maximum(1.0, q * whole) - LEEWAY)[group]
        place = np.where(reached, np.arange(len(n)), len(n))
        columns[f"{name}_bucket"] = pa.array(bucket[np.minimum.reduceat(place, starts)] if len(starts) else bucket)
    return typed(of_buckets(pa.table(columns)), by)


def typed(rows: pa.Table, by: Sequence[str]) -> pa.Table:
    """With the columns in their order and their types."""
    names = ("window_ms", *by, "stage", "n", "sum_ns", "max_ns", *QUANTILES)
    schema = pa.schema([pa.field(name, _TYPES.get(name) or FRAME.field(name).type) for name in names])
    return rows.select(names).cast(schema)


def of_buckets(rows: pa.Table) -> pa.Table:
    """Of a table with the buckets of the percentiles."""
    for name in QUANTILES:
        middles = np.array([middle_ns(one) for one in rows[f"{name}_bucket"].to_pylist()], np.float64)
        at = np.minimum(middles, rows["max_ns"].to_numpy().astype(np.float64))
        rows = rows.append_column(name, pa.array(at)).drop_columns([f"{name}_bucket"])
    return rows


def _runs(rollup: pa.Table, keys: tuple[str, ...]) -> tuple[Int64s, Int64s]:
    """Where rows of one group and stage begin and end; the table is sorted by them."""
    rows = rollup.num_rows
    if not rows:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    changes = np.zeros(rows - 1, np.bool_)
    for name in keys:
        codes = rollup[name].combine_chunks().dictionary_encode(null_encoding="encode").indices.to_numpy()
        changes |= codes[1:] != codes[:-1]
    starts = np.concatenate(([0], np.flatnonzero(changes) + 1))
    return starts, np.concatenate((starts[1:], [rows]))
