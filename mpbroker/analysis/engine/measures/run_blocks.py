"""Runs as blocks of time: histograms and counts per block, the warm-up cut. Pure but for the engine.

A run is one boot of a broker. Blocks are a twentieth of the shortest run or the window asked for, whichever is longer;
what is in a block depends on itself, blocks much less on each other.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from mpbroker.analysis.engine.engines.engine import Engine
from mpbroker.analysis.engine.mathematics import steady_state, windows
from mpbroker.analysis.engine.mathematics.histogram import BUCKETS, Int64s
from mpbroker.analysis.engine.running import phases
from mpbroker.trace.statistics import BUCKETS_PER_OCTAVE

BLOCKS = 20
Floats = npt.NDArray[np.float64]


@dataclass
class Run:
    """One run. `counts`: (api, stage) → blocks × buckets; `seconds`: length of what is left after the cut."""

    name: str
    label: str
    seconds: float
    cut_seconds: float
    blocks: int
    counts: dict[tuple[str, str], Int64s] = field(default_factory=dict)

    def requests(self, api: str) -> Int64s:
        """Requests of an API per block."""
        found = self.counts.get((api, "total"))
        return np.zeros(self.blocks, np.int64) if found is None else found.sum(axis=1)


def read(engine: Engine, window_ms: int, stages: Sequence[str], warmup_ms: int | None = None) -> list[Run]:
    """The runs of an input, by time. Runs shorter than two windows are left out."""
    totals = engine.activity(0, ("run",))
    extents = {run: windows.extent(totals.filter(pc.equal(totals["run"], run))) for run in totals["run"].to_pylist()}
    known = {
        run: found for run, found in extents.items() if found is not None and found.seconds * 1000 >= 2 * window_ms
    }
    if not known:
        return []
    activity, rollup = engine.activity(window_ms, ("run",)), engine.rollup(window_ms, ("run", "api"))
    rollup = rollup.filter(pc.is_in(rollup["stage"], pa.array([*stages, "total"])))
    shortest = min(found.seconds for found in known.values())
    per_block = max(1, int(shortest * 1000 / BLOCKS // window_ms))
    labels = phases.run_labels(engine.input)
    return [
        _run(run, labels.get(run, run[-8:]), known[run], activity, rollup, window_ms, per_block, warmup_ms)
        for run in sorted(known, key=lambda each: known[each].first_ns)
    ]


def _run(
    name: str,
    label: str,
    found: windows.Extent,
    activity: pa.Table,
    rollup: pa.Table,
    window_ms: int,
    per_block: int,
    warmup_ms: int | None,
) -> Run:
    at = windows.starts(found, window_ms)[:-1]  # the last window is rarely whole
    rates = windows.series(activity.filter(pc.equal(activity["run"], name)), "n", at)[: len(at)]
    cut = steady_state.find(rates).first if warmup_ms is None else -(-warmup_ms // window_ms)
    cut = min(cut, max(0, len(at) - per_block))
    kept = at[cut:]
    one = Run(name, label, len(kept) * window_ms / 1000, cut * window_ms / 1000, -(-len(kept) // per_block))
    rows = rollup.filter(pc.equal(rollup["run"], name))
    place = (rows["window_ms"].to_numpy() - kept[0]) // window_ms
    inside = (place >= 0) & (place < len(kept))
    block, bucket, n = place[inside] // per_block, rows["bucket"].to_numpy()[inside], rows["n"].to_numpy()[inside]
    keys = np.array(
        [f"{api}\0{stage}" for api, stage in zip(rows["api"].to_pylist(), rows["stage"].to_pylist(), strict=True)]
    )
    for key in np.unique(keys[inside]).tolist():
        mine = keys[inside] == key
        counts = np.zeros((one.blocks, BUCKETS), np.int64)
        np.add.at(counts, (block[mine], bucket[mine]), n[mine])
        api, _, stage = key.partition("\0")
        one.counts[api, stage] = counts
    return one


def percentile(counts: npt.NDArray[Any], q: float) -> Floats:
    """Percentile of each row of (rows × buckets), nanoseconds; interpolated within its bucket, so that it moves
    smoothly."""
    sums = np.cumsum(counts, axis=1)
    wanted = q * sums[:, -1]
    place = np.argmax(sums >= np.maximum(wanted, 1e-9)[:, None], axis=1)
    rows = np.arange(len(counts))
    before = np.where(place > 0, sums[rows, place - 1], 0)
    within = (wanted - before) / np.maximum(counts[rows, place], 1)
    return np.asarray(np.maximum(1.0, 2 ** ((place + np.clip(within, 0, 1)) / BUCKETS_PER_OCTAVE) - 1), np.float64)
