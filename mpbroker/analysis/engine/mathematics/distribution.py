"""Rollup rows as distributions: percentiles, means and maxima of any grouping. Pure (numpy, pyarrow).

Adding histograms is exact, so that a study asks an engine once, finely, and sums up here as coarsely as a table needs.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mpbroker.analysis.engine.mathematics import histogram
from mpbroker.analysis.engine.mathematics.histogram import Int64s


class Distribution(NamedTuple):
    """Durations in log buckets (rising), weighted; `max_ns` and `sum_ns` are exact."""

    buckets: Int64s
    counts: Int64s
    sum_ns: int
    max_ns: int

    @property
    def n(self) -> int:
        """How many durations."""
        return int(self.counts.sum())

    @property
    def mean_ns(self) -> float:
        """Their mean; 0 without any."""
        n = self.n
        return self.sum_ns / n if n else 0.0

    def percentile(self, q: float) -> float:
        """Nanoseconds that a share q (0 … 1) does not exceed; 0 without any."""
        return histogram.percentile(self.buckets, self.counts, q, self.max_ns) or 0.0

    def percentile_us(self, q: float) -> float:
        """The same in microseconds, to a nanosecond."""
        return round(self.percentile(q) / 1000, 3)

    def beyond(self, q: float) -> float:
        """How many durations lie beyond the percentile: what it rests on."""
        return self.n * (1 - q)


NOTHING = Distribution(np.empty(0, np.int64), np.empty(0, np.int64), 0, 0)


def distributions(
    rollup: pa.Table, by: Sequence[str], stages: Sequence[str] = ()
) -> dict[tuple[Any, ...], Distribution]:
    """Key (values of the columns `by`, in this order) → distribution, sorted by key with missing values last.

    `stages`: of these alone, which is quicker when a rollup is fine.
    """
    if stages:
        rollup = rollup.filter(pc.is_in(rollup["stage"], pa.array(stages)))
    if rollup.num_rows == 0:
        return {}
    summed = rollup.group_by([*by, "bucket"]).aggregate([("n", "sum"), ("sum_ns", "sum"), ("max_ns", "max")])
    numbers = {name: summed[name].to_numpy() for name in ("bucket", "n_sum", "sum_ns_sum", "max_ns_max")}
    keys = list(zip(*(summed[name].to_pylist() for name in by), strict=True)) if by else [()] * summed.num_rows
    places: dict[tuple[Any, ...], list[int]] = {}
    for place, key in enumerate(keys):
        places.setdefault(key, []).append(place)
    return {
        key: _of_rows(numbers, np.array(places[key]))
        for key in sorted(places, key=lambda key: [(value is None, value) for value in key])
    }


def _of_rows(numbers: dict[str, Any], places: Int64s) -> Distribution:
    order = places[np.argsort(numbers["bucket"][places])]
    return Distribution(
        numbers["bucket"][order].astype(np.int64),
        numbers["n_sum"][order].astype(np.int64),
        int(numbers["sum_ns_sum"][order].sum()),
        int(numbers["max_ns_max"][order].max()),
    )
