"""How sure the ratio of two sets of runs is: Welch's interval of the difference of mean logarithms. Pure (numpy).

The run is the unit. Requests of one run depend on each other (they queued together), so an interval from requests is
many times too narrow; and what varies within a run is already in how runs differ, so resampling within resampled runs
counts it twice (that was here before, and gave intervals 1.8 times too wide). From five runs a side a percentile
bootstrap is too narrow, and every way to widen it leads to Student's t. So it is Student's t, with degrees of freedom
by how much each side varies; tests/unit/analysis/engine/test_run_intervals.py simulates what it holds.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

MIN_RUNS = 5
#: 97.5 % quantiles of Student's t by degrees of freedom 1 …
_T = (
    *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228),
    *(2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086),
    *(2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042),
)
_Z = 1.95996


class Interval(NamedTuple):
    """An estimate and the 95 % interval around it."""

    estimate: float
    low: float
    high: float


def mean(values: Sequence[float]) -> float:
    """The geometric mean of runs: what ratios are about. Of values that are not all positive the ordinary one."""
    found = np.asarray(values, np.float64)
    return float(np.exp(np.log(found).mean())) if found.min() > 0 else float(found.mean())


def ratio(ours: Sequence[float], theirs: Sequence[float]) -> Interval:
    """Interval of mean(ours) / mean(theirs); one positive value per run, at least two a side."""
    logs = [np.log(np.asarray(side, np.float64)) for side in (ours, theirs)]
    center = float(logs[0].mean() - logs[1].mean())
    errors = [float(side.var(ddof=1)) / len(side) for side in logs]
    total = sum(errors)
    freedom = sum(error * error / (len(side) - 1) for error, side in zip(errors, logs, strict=True))
    reach = t_quantile(total * total / freedom) * total**0.5 if freedom else 0.0
    return Interval(float(np.exp(center)), float(np.exp(center - reach)), float(np.exp(center + reach)))


def paired_ratio(ours: Sequence[float], theirs: Sequence[float]) -> Interval:
    """Interval of the mean of ours by theirs, both of the same run: what differs from run to run falls out. One
    positive value per run, at least two."""
    logs = np.log(np.asarray(ours, np.float64)) - np.log(np.asarray(theirs, np.float64))
    center, reach = float(logs.mean()), t_quantile(len(logs) - 1) * float(logs.std(ddof=1)) / len(logs) ** 0.5
    return Interval(float(np.exp(center)), float(np.exp(center - reach)), float(np.exp(center + reach)))


def t_quantile(freedom: float) -> float:
    """97.5 % quantile of Student's t; degrees of freedom need not be whole."""
    if freedom >= len(_T):
        return _Z + (_Z**3 + _Z) / (4 * freedom)
    inverse = 1 / np.arange(1, len(_T) + 1)
    return float(np.interp(1 / max(1.0, freedom), inverse[::-1], np.array(_T)[::-1]))
