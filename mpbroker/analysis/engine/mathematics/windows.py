"""The windows a study looks through: how wide, which there are. Pure (numpy, pyarrow)."""

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from mpbroker.analysis.engine.mathematics.histogram import Int64s

MAX_WINDOWS = 400


class Extent(NamedTuple):
    """When the requests of a trace began: first and last, epoch nanoseconds, and how many there are (weighted)."""

    first_ns: int
    last_ns: int
    n: int

    @property
    def seconds(self) -> float:
        """From the first to the last."""
        return (self.last_ns - self.first_ns) / 1e9


def extent(activity: pa.Table) -> Extent | None:
    """Of a table that Engine.activity gave; None without a request."""
    if activity.num_rows == 0:
        return None
    return Extent(
        int(activity["first_epoch_ns"].to_numpy().min()),
        int(activity["last_epoch_ns"].to_numpy().max()),
        int(activity["n"].to_numpy().sum()),
    )


def width_ms(asked_ms: int, found: Extent, most: int = MAX_WINDOWS) -> int:
    """The width asked for, or the least multiple of it that makes at most `most` windows."""
    windows = (found.last_ns - found.first_ns) // 1_000_000 // asked_ms + 1
    return asked_ms * -(-windows // most)


def starts(found: Extent, window_ms: int) -> Int64s:
    """Beginnings of all windows that the extent touches, milliseconds since 1970, without gaps."""
    first, last = (at // 1_000_000 // window_ms * window_ms for at in (found.first_ns, found.last_ns))
    return np.arange(first, last + 1, window_ms, dtype=np.int64)


def series(table: pa.Table, column: str, at: Int64s) -> Int64s:
    """The column summed up by window, 0 where a window has no row."""
    totals = dict.fromkeys(at.tolist(), 0)
    for window, value in zip(table["window_ms"].to_pylist(), table[column].to_pylist(), strict=True):
        totals[window] = totals.get(window, 0) + value
    return np.array([totals[window] for window in at.tolist()], np.int64)
