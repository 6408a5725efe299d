"""Where a load has settled: the warm-up is cut by MSER, then the rest is tested for drift. Pure (numpy).

MSER (White 1997): of all cuts in the first half, the one with the least standard error of the mean of what is left,
that is variance / number². A warm-up raises the variance more than its windows are worth. What looks like the rest,
within chance, is not cut. Before, windows are averaged in groups so that at most 60 remain: single windows are too
noisy to be told from a trend. A steady rate is not enough: while a queue grows, answers keep coming at the same pace,
and requests in flight give it away.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

METHOD = (
    "warm-up cut by MSER, then at most 10 % difference in the rate and 30 % in requests in flight between both halves, "
    "or no more than three standard errors"
)
MIN_WINDOWS = 6
MAX_GROUPS = 60
DRIFT = 0.10
LEVEL_DRIFT = 0.30
BUSIER = 1.5

Floats = npt.NDArray[Any]


class SteadyState(NamedTuple):
    """Windows first … end - 1 are steady. `reason`: why it is none, empty otherwise. `drift`: second half against
    first, - 1."""

    first: int
    end: int
    drift: float
    reason: str

    @property
    def found(self) -> bool:
        """Whether figures of these windows may be called those of a steady state."""
        return not self.reason


def find(rates: Floats, levels: Floats | None = None) -> SteadyState:
    """The steady part of a series of equally long windows: a rate in each and, if given, how many were in flight."""
    count = len(rates)
    if count < MIN_WINDOWS:
        return SteadyState(0, count, 0.0, f"only {count} whole windows, {MIN_WINDOWS} are needed")
    size = -(-count // MAX_GROUPS)
    groups = _grouped(rates, size)
    cut = _mser(groups)
    drift, certain = _drift(groups[cut:])
    reason = ""
    if cut and float(np.mean(groups[:cut])) > BUSIER * float(np.mean(groups[cut:])):
        return SteadyState(0, count, drift, "the beginning is busier than the rest, which is no warm-up")
    if certain and abs(drift) > DRIFT:
        reason = f"the rate still changes by {drift * 100:+.0f} % from the first half to the second"
    elif levels is not None:
        level_drift, certain = _drift(_grouped(levels, size)[cut:])
        if certain and abs(level_drift) > LEVEL_DRIFT:
            reason = f"requests in flight still change by {level_drift * 100:+.0f} % from the first half to the second"
    return SteadyState(cut * size, count, drift, reason)


def _grouped(values: Floats, size: int) -> Floats:
    return np.array([np.mean(values[at : at + size]) for at in range(0, len(values) - size + 1, size)], np.float64)


def _mser(groups: Floats) -> int:
    costs = [float(np.var(groups[cut:])) / (len(groups) - cut) for cut in range(len(groups) // 2 + 1)]
    cut = int(np.argmin(costs))
    chance = 2 * float(np.std(groups[cut:])) / np.sqrt(max(1, cut))
    return cut if cut and abs(float(np.mean(groups[:cut]) - np.mean(groups[cut:]))) > chance else 0


def _drift(rest: Floats) -> tuple[float, bool]:
    """Second half against first, - 1; and whether that is more than what chance does (three standard errors)."""
    halves = rest[: len(rest) // 2], rest[len(rest) // 2 :]
    before, after = float(np.mean(halves[0])), float(np.mean(halves[1]))
    error = float(np.sqrt(sum(np.var(half, ddof=1) / len(half) for half in halves if len(half) > 1)))
    return (after / before - 1 if before > 0 else float(after > 0)), abs(after - before) > 3 * error
