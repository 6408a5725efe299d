"""From a boot's monotonic clock to time since 1970, through its clock samples. Pure (numpy).

Between two samples the offset is interpolated (the wall clock is slewed); across a step of the wall clock the nearer
sample counts. Before the first and after the last sample their offsets hold. Raw stamps are never changed.
"""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from mpbroker.analysis.engine.mathematics.histogram import Int64s
from mpbroker.trace.clock_sample import ClockSample

#: Two samples farther apart in offset than this and 500 parts per million of the time between them are a step.
STEP_NS = 1_000_000
SLEW_PPM = 500


class ClockQuality(NamedTuple):
    """How well epoch times are known. `steps`: jumps of the wall clock; `largest_step_ns` is the greatest of them."""

    samples: int = 0
    max_uncertainty_ns: int = 0
    steps: int = 0
    largest_step_ns: int = 0


class ClockLine:
    """One boot of one broker. May be sent to other processes (pickled)."""

    def __init__(self, samples: Iterable[ClockSample]) -> None:
        by_time = {one.monotonic_ns: one for one in samples}
        self.samples = [by_time[at] for at in sorted(by_time)]
        self._at = np.array([one.monotonic_ns for one in self.samples], np.int64)
        self._offset = np.array([one.offset_ns for one in self.samples], np.int64)
        self._jump = np.diff(self._offset)
        self._apart = np.diff(self._at)
        self._step = np.abs(self._jump) > STEP_NS + self._apart // 1_000_000 * SLEW_PPM

    def epoch_ns(self, t0_ns: Int64s) -> Int64s:
        """Nanoseconds since 1970 of monotonic stamps; unchanged when there is no sample."""
        if len(self._at) == 0:
            return t0_ns
        if len(self._at) == 1:
            shifted: Int64s = t0_ns + self._offset[0]
            return shifted
        after = np.clip(np.searchsorted(self._at, t0_ns, side="right"), 1, len(self._at) - 1)
        before = after - 1
        along = np.clip((t0_ns - self._at[before]) / self._apart[before], 0.0, 1.0)
        along = np.where(self._step[before], along >= 0.5, along)
        moved: Int64s = np.rint(self._jump[before] * along).astype(np.int64)
        return t0_ns + self._offset[before] + moved

    def epoch_of(self, t0_ns: int) -> int:
        """One stamp."""
        return int(self.epoch_ns(np.array([t0_ns], np.int64))[0])

    @property
    def quality(self) -> ClockQuality:
        """Of this boot."""
        steps = np.abs(self._jump[self._step])
        return ClockQuality(
            len(self.samples),
            max((one.uncertainty_ns for one in self.samples), default=0),
            len(steps),
            int(steps.max(initial=0)),
        )


def quality_of(lines: Iterable[ClockLine]) -> ClockQuality:
    """Of several boots together."""
    each = [line.quality for line in lines]
    return ClockQuality(
        sum(one.samples for one in each),
        max((one.max_uncertainty_ns for one in each), default=0),
        sum(one.steps for one in each),
        max((one.largest_step_ns for one in each), default=0),
    )
