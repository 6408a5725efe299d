"""A disk of constant speed: each sync takes at least so long, and says what the real one said."""

import pytest

from mpbroker.log.steady_disk import steady
from mpbroker.shm.clock import ManualClock


@pytest.mark.parametrize(("took_ms", "slept_s"), [(0, [0.003]), (1, [0.002]), (3, []), (7, [])])
def test_what_is_left_of_it_is_slept(took_ms, slept_s):
    clock, slept, asked = ManualClock(), [], []

    def sync(ordinal):
        asked.append(ordinal)
        clock.advance(took_ms)
        return 56, 1234

    assert steady(sync, 3, clock, slept.append)(8) == (56, 1234)
    assert asked == [8] and slept == pytest.approx(slept_s)
