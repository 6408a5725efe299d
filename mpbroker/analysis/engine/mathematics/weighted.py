"""Figures of values that stand for several each (a sampled trace), and shares. Pure (numpy); in no order of the
values."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from mpbroker.analysis.engine.mathematics.histogram import Int64s

Floats = npt.NDArray[np.float64]
#: A column that the others explain but for so much of its variance says nothing of its own.
LEAST_OWN = 1e-6


def percentile(values: Int64s, weights: Int64s, q: float) -> int:
    """The least value that a share q (0 … 1) does not exceed; 0 without any."""
    if not len(values):
        return 0
    order = np.argsort(values, kind="stable")
    sums = np.cumsum(weights[order])
    return int(values[order[min(len(order) - 1, int(np.searchsorted(sums, q * float(sums[-1]))))]])


def jain(values: Sequence[int]) -> float:
    """Jain's index of fairness: 1 when all are equal, 1/n when one has everything."""
    squares = sum(int(value) ** 2 for value in values)
    return sum(int(value) for value in values) ** 2 / (len(values) * squares) if squares else 1.0


class Line(NamedTuple):
    """A least-squares fit. `slopes`, `errors` (standard ones): a value per column, the constant first; None for a
    column that was left out, because it does not vary by itself. `explained`: share of the variance, None without."""

    slopes: tuple[float | None, ...]
    errors: tuple[float | None, ...]
    explained: float | None


def least_squares(columns: Sequence[Int64s], values: Int64s, weights: Int64s) -> Line:
    """values ≈ constant + slopes · columns. Sums are rounded once (fsum): rows in another order give the same bits."""
    weight, y = weights.astype(np.float64), values.astype(np.float64)
    every = [np.ones(len(y)), *(column.astype(np.float64) for column in columns)]
    gram = np.array([[_sum(weight * a * b) for b in every] for a in every])
    moments = np.array([_sum(weight * a * y) for a in every])
    kept = _independent(gram)
    if not kept:
        return Line((None,) * len(every), (None,) * len(every), None)
    part = np.ix_(kept, kept)
    found = np.linalg.solve(gram[part], moments[kept])
    left = max(0.0, _sum(weight * y * y) - float(found @ moments[kept]))
    whole = _sum(weight * y * y) - moments[0] ** 2 / gram[0, 0]
    freedom = max(1, len(y) - len(kept))
    scale = left / gram[0, 0] * len(y) / freedom
    errors = np.sqrt(np.maximum(0.0, np.diag(np.linalg.inv(gram[part] / gram[0, 0] * len(y))) * scale))
    slopes, spread = dict(zip(kept, found.tolist(), strict=True)), dict(zip(kept, errors.tolist(), strict=True))
    places = range(len(every))
    return Line(
        tuple(slopes.get(place) for place in places),
        tuple(spread.get(place) for place in places),
        max(0.0, 1 - left / whole) if whole > 0 else None,
    )


def _sum(values: Floats) -> float:
    return math.fsum(values.tolist())


def _independent(gram: Floats) -> list[int]:
    """Columns that the ones before them do not give."""
    kept: list[int] = []
    for place in range(len(gram)):
        own = float(gram[place, place])
        if kept and own > 0:
            part = np.ix_(kept, kept)
            own -= float(gram[place, kept] @ np.linalg.solve(gram[part], gram[kept, place]))
        if own > LEAST_OWN * float(gram[place, place]):
            kept.append(place)
    return kept
