"""How sure a figure from repeated runs is: the run is resampled, and within a run blocks of time. Pure (numpy).

Requests of one run depend on each other (they queued together), so resampling requests claims intervals many times too
narrow. Runs are independent; blocks carry what varies within one. Few runs make percentile intervals too narrow as
well: they are expanded by sqrt(n / (n - 1)) * t / z (Hesterberg 2015).
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
MIN_RUNS = 5
RESAMPLES = 2000
BLOCK_RESAMPLES = 200
_SEED = 20_417
#: 97.5 % quantiles of Student's t by degrees of freedom 1 …; beyond, the normal one is near enough.
_T = (
    12.71,
    4.303,
    3.182,
    2.776,
    2.571,
    2.447,
    2.365,
    2.306,
    2.262,
    2.228,
    2.201,
    2.179,
    2.160,
    2.145,
    2.131,
    2.120,
    2.110,
    2.101,
    2.093,
    2.086,
    2.080,
    2.074,
    2.069,
    2.064,
    2.060,
    2.056,
    2.052,
    2.048,
    2.045,
    2.042,
)
_Z = 1.960


class Interval(NamedTuple):
    """An estimate and the 95 % interval around it."""

    estimate: float
    low: float
    high: float


def block_resamples(blocks: npt.NDArray[Any], statistic: Callable[[npt.NDArray[Any]], Floats], seed: int = 0) -> Floats:
    """The statistic of BLOCK_RESAMPLES resamplings of a run's blocks.

    `blocks`: (blocks × cells) additive numbers, such as histograms; `statistic` takes (resamples × cells).
    """
    random = np.random.default_rng(_SEED + seed)
    times = random.multinomial(len(blocks), np.full(len(blocks), 1 / len(blocks)), size=BLOCK_RESAMPLES)
    return statistic(times @ blocks)


def ratio(ours: Sequence[Floats], theirs: Sequence[Floats], estimate: float) -> Interval:
    """Interval of mean(ours) / mean(theirs); one array of resampled values per run and side. Values must be
    positive."""
    random = np.random.default_rng(_SEED)
    logs = np.log(_means(ours, random)) - np.log(_means(theirs, random))
    center = float(np.log(estimate))
    low, high = np.quantile(logs, [0.025, 0.975])
    factor = expansion(min(len(ours), len(theirs)))
    return Interval(
        estimate,
        float(np.exp(min(center, center + (low - center) * factor))),
        float(np.exp(max(center, center + (high - center) * factor))),
    )


def expansion(runs: int) -> float:
    """By how much a percentile interval from so few runs is too narrow."""
    if runs < 2:
        return 1.0
    t = _T[runs - 2] if runs - 2 < len(_T) else _Z
    return float(np.sqrt(runs / (runs - 1)) * t / _Z)


def _means(side: Sequence[Floats], random: np.random.Generator) -> Floats:
    """RESAMPLES means over runs drawn with replacement, each run with one of its own resampled values."""
    values = np.stack(side)
    runs = random.integers(0, len(values), (RESAMPLES, len(values)))
    blocks = random.integers(0, values.shape[1], runs.shape)
    return np.asarray(values[runs, blocks].mean(axis=1), np.float64)
