"""Epoch time from clock samples: interpolated where the wall clock is slewed, never across a step."""

import numpy as np

from mpbroker.analysis.engine.input.clock_line import ClockLine, ClockQuality, quality_of
from tests.harness.record_trace import clock


def test_between_two_samples_the_offset_moves_evenly():
    line = ClockLine([clock(1_000_000_000, 500), clock(11_000_000_000, 1500)])
    stamps = np.array([1_000_000_000, 6_000_000_000, 11_000_000_000, 3_500_000_000])
    assert (line.epoch_ns(stamps) - stamps).tolist() == [500, 1000, 1500, 750]


def test_outside_the_samples_the_nearest_offset_holds():
    line = ClockLine([clock(1_000_000_000, 500), clock(11_000_000_000, 1500)])
    assert line.epoch_of(5) == 505 and line.epoch_of(12_000_000_000) == 12_000_001_500
    assert ClockLine([clock(100, 7)]).epoch_of(0) == 7
    assert ClockLine([]).epoch_of(9) == 9


def test_a_step_belongs_to_the_nearer_sample_and_is_reported():
    line = ClockLine([clock(0, 0), clock(10_000_000_000, 60_000_000_000), clock(20_000_000_000, 60_000_000_000)])
    assert line.epoch_of(4_999_999_999) == 4_999_999_999
    assert line.epoch_of(5_000_000_001) == 65_000_000_001
    assert line.quality == ClockQuality(3, 50, 1, 60_000_000_000)


def test_slewing_is_no_step_however_far_apart_the_samples_are():
    line = ClockLine([clock(0, 0), clock(3_600_000_000_000, 1_000_000_000)])  # 278 ppm for an hour
    assert line.quality.steps == 0 and line.epoch_of(1_800_000_000_000) == 1_800_500_000_000


def test_samples_come_in_any_order_and_twice():
    line = ClockLine([clock(20, 0), clock(0, 0), clock(20, 0)])
    assert [one.monotonic_ns for one in line.samples] == [0, 20]


def test_quality_of_several_boots_adds_up():
    lines = [ClockLine([clock(0, 0, 10), clock(1, 5_000_000, 30)]), ClockLine([clock(0, 0, 20)]), ClockLine([])]
    assert quality_of(lines) == ClockQuality(3, 30, 1, 5_000_000)
