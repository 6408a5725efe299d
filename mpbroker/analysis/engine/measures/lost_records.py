"""Whether a trace has lost records, by evidence that is not the records' own waits: exact by sequence numbers, and by
depths that the rings and the tracer counted, with the smallest loss that these could have shown. Pure (numpy, pyarrow).

A share f of lost records makes every depth that the records give smaller by f. So depths of a nearly empty ring show
next to no loss, and a study that finds none must say what it could have found.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from mpbroker.analysis.engine.mathematics import moments
from mpbroker.analysis.engine.mathematics.histogram import Int64s
from mpbroker.analysis.engine.running import wording

LANE = ("run", "broker", "ring")
COLUMNS = (*LANE, "seq")
MIN_SAMPLES = 30  # of a gauge, before its mean says anything
#: Standard errors by which a difference must pass 0 to be found (5 % false alarms) four times in five.
DETECTED = 2.8
MIN_LOSS = 0.1  # smaller differences of depths may be stamps: a handler stamps a request after it took it


class Numbers(NamedTuple):
    """Of all lanes of a trace: records, lanes, and sequence numbers that are missing, or twice there, between the
    first and the last of each lane."""

    records: int
    lanes: int
    missing: int
    doubled: int


class Samples(NamedTuple):
    """A ring as the tracer's gauges saw it, and as the records have it at the same moments (means, in requests).
    `smallest_loss`: the smallest share of lost records that this would have shown; 1: none."""

    number: int
    depth: float
    from_records: float
    smallest_loss: float

    @property
    def shows_loss(self) -> bool:
        """Whether the records explain too little of what the gauges saw."""
        if self.number < MIN_SAMPLES or not self.depth:
            return False
        return (self.depth - self.from_records) / self.depth > max(self.smallest_loss, MIN_LOSS)


def numbers(table: pa.Table) -> Numbers:
    """Of requests with COLUMNS, all that a trace has of its lanes."""
    missing = doubled = lanes = 0
    seq = table["seq"].to_numpy()
    for _, rows in moments.groups(table, LANE):
        mine, lanes = np.unique(seq[rows]), lanes + 1
        doubled += len(rows) - len(mine)
        missing += int(mine[-1] - mine[0]) + 1 - len(mine)
    return Numbers(len(seq), lanes, missing, doubled)


def samples(at: Int64s, depths: Int64s, begins: Int64s, ends: Int64s) -> Samples | None:
    """Gauges of one ring between its first arrival and last departure, beside those who waited then; times on one
    clock. None: no gauge was read meanwhile."""
    inside = (at >= begins.min()) & (at <= ends.max())
    if not inside.any():
        return None
    at, seen = at[inside], depths[inside].astype(float)
    given = np.searchsorted(np.sort(begins), at, side="right") - np.searchsorted(np.sort(ends), at, side="right")
    difference = seen - given
    mean, count = float(seen.mean()), len(at)
    error = float(difference.std(ddof=1)) / count**0.5 if count > 1 else mean
    smallest = max(DETECTED * error / mean, 1 / (mean * count)) if mean else 1.0
    return Samples(count, mean, float(given.mean()), min(1.0, smallest))


def number_sentence(found: Numbers) -> str:
    """Exact, whatever the load was."""
    if found.missing or found.doubled:
        twice = f", {found.doubled:,} are there twice" if found.doubled else ""
        return (
            f"TRACE DEFECT by sequence numbers: {found.missing:,} of {found.records - found.doubled + found.missing:,} "
            f"requests are missing between the first and the last of {wording.counted(found.lanes, 'lane')}{twice}."
        )
    return (
        f"Sequence numbers: all {found.records:,} requests between the first and the last of "
        f"{wording.counted(found.lanes, 'lane')} are there, none is missing (exact)."
    )


def missing_sentence(found: Numbers) -> str:
    """Of a trace that lacks some."""
    there = found.records - found.doubled
    return (
        f"The trace lacks {found.missing:,} of {there + found.missing:,} requests "
        f"({wording.share(found.missing / max(1, there + found.missing))}, by sequence numbers): every figure is of "
        "the others."
    )


def gauge_sentence(summary: Sequence[dict[str, Any]]) -> list[str]:
    """Of the ring whose gauges say most; `summary`: rows with the fields of Samples as gauge_*."""
    told = [row for row in summary if row["gauge_samples"] and row["gauge_depth"]]
    if not told:
        return ["Gauges say nothing of lost records: the rings were empty whenever the tracer looked."]
    best = min(told, key=lambda row: float(row["gauge_smallest_loss"]))
    words = (
        f"By {wording.counted(best['gauge_samples'], 'gauge')} the {best['ring']} ring held {best['gauge_depth']:.3g} "
        f"requests on average, the records give {best['gauge_from_records']:.3g}"
    )
    return [f"{words}: {power(max(best['gauge_smallest_loss'], MIN_LOSS))}."]


def power(smallest: float) -> str:
    """`a loss of less than 36 % would not show there`."""
    if smallest >= 1:
        return "that would show no loss, however large"
    return f"a loss of less than {wording.share(smallest)} would not show there"
