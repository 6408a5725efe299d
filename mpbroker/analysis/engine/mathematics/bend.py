"""Where a curve bends: flat up to a load, then rising with it. And the universal scalability law. Pure (numpy).

Both fits come with intervals by resampling with a fixed seed: the same points give the same interval.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from mpbroker.analysis.engine.mathematics.run_intervals import t_quantile

Floats = npt.NDArray[np.float64]
RESAMPLES, SEED = 200, 20
PLACES = 60


class Bend(NamedTuple):
    """log(level) is `flat` up to `at`, then rises by `slope` for each unit of log(load). `gain`: by how much that
    lowers the squared error of a level that never changes (0 … 1)."""

    at: float
    flat: float
    slope: float
    gain: float


def bend(loads: Floats, levels: Floats) -> Bend:
    """Least squares over places of the bend between the second lowest and the second highest load. All positive."""
    x, y = np.log(loads), np.log(levels)
    ordered = np.unique(x)
    inner = ordered[1:-1] if len(ordered) > 3 else ordered
    best = Bend(float(loads.max()), float(np.exp(y.mean())), 0.0, 0.0)
    base = float(((y - y.mean()) ** 2).sum())
    places = np.linspace(inner[0], inner[-1], PLACES)
    over = np.maximum(0.0, x - places[:, None])
    over_own, y_own = over - over.mean(axis=1, keepdims=True), y - y.mean()
    spread = (over_own**2).sum(axis=1)
    slopes = (over_own * y_own).sum(axis=1) / np.where(spread > 0, spread, np.inf)
    left = ((y_own - slopes[:, None] * over_own) ** 2).sum(axis=1)
    place = int(np.argmin(np.where(slopes > 0, left, np.inf)))
    gain = 1 - float(left[place]) / base if base > 0 else 0.0
    if slopes[place] > 0 and gain > 0:
        flat = float(y.mean() - slopes[place] * over[place].mean())
        best = Bend(float(np.exp(places[place])), float(np.exp(flat)), float(slopes[place]), gain)
    return best


def bend_interval(loads: Floats, levels: Floats) -> tuple[float, float]:
    """The middle 95 % of bends of resampled points."""
    chance = np.random.default_rng(SEED)
    found = []
    for _ in range(RESAMPLES):
        chosen = chance.integers(0, len(loads), len(loads))
        if len(np.unique(loads[chosen])) > 3:
            found.append(bend(loads[chosen], levels[chosen]).at)
    low, high = np.percentile(found, [2.5, 97.5]) if found else (loads.min(), loads.max())
    return float(low), float(high)


class Scaling(NamedTuple):
    """Gunther's law, X(n) = gain · n / (1 + contention · (n - 1) + coherence · n · (n - 1))."""

    gain: float
    contention: float
    coherence: float

    def at(self, n: Floats) -> Floats:
        """Throughput with n."""
        found: Floats = self.gain * n / (1 + self.contention * (n - 1) + self.coherence * n * (n - 1))
        return found

    @property
    def peak(self) -> float:
        """From where on more gives less; infinite without coherence."""
        return float(np.sqrt(max(0.0, 1 - self.contention) / self.coherence)) if self.coherence > 0 else float("inf")


def scaling(n: Floats, x: Floats) -> Scaling:
    """Least squares of n/x, which is linear in what is looked for; nothing of it below 0."""
    best: tuple[float, Scaling] | None = None
    for used in ((0, 1, 2), (0, 1), (0, 2), (0,)):  # a value that would be negative is 0, and the rest fitted anew
        columns = np.stack([np.ones(len(n)), n - 1, n * (n - 1)])[list(used)]
        weights = x / n  # errors of x are about a share of it
        found, *_ = np.linalg.lstsq((columns * weights).T, np.ones(len(n)), rcond=None)
        if found[0] <= 0 or (found[1:] < 0).any():
            continue
        parts = dict(zip(used, (found / found[0]).tolist(), strict=True))
        law = Scaling(1 / float(found[0]), parts.get(1, 0.0), parts.get(2, 0.0))
        error = float(((law.at(n) / x - 1) ** 2).sum())
        if best is None or error < best[0]:
            best = error, law
    assert best is not None, "the constant alone always fits"
    return best[1]


def scaling_intervals(n: Floats, x: Floats, of: Sequence[Callable[[Scaling], float]]) -> list[tuple[float, float]]:
    """The middle 95 % of each figure over fits to resampled residuals."""
    law, chance = scaling(n, x), np.random.default_rng(SEED)
    fitted = law.at(n)
    freedom = max(1, len(n) - 3)  # few residuals are too small, and chosen anew too narrow by as much as Student's t
    residuals = (x / fitted - 1) * np.sqrt(len(n) / freedom) * t_quantile(freedom) / t_quantile(1e9)
    laws = [scaling(n, fitted * np.maximum(0.01, 1 + chance.choice(residuals, len(n)))) for _ in range(RESAMPLES)]
    bounds = [np.sort([figure(each) for each in laws]) for figure in of]
    low, high = int(0.025 * RESAMPLES), int(0.975 * RESAMPLES) - 1
    return [(float(each[low]), float(each[high])) for each in bounds]
