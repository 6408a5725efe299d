"""What a timer says of the times it was given."""

import pytest

from mpbroker.cluster.timer import BUCKETS, Timer


def timer(*times_ms):
    made = Timer()
    for ms in times_ms:
        made.add(ms)
    return made


def test_how_often_how_long_and_the_longest():
    assert (timer().count, timer().sum_ms, timer().max_ms) == (0, 0, 0)
    made = timer(5, 40, 7)
    assert (made.count, made.sum_ms, made.max_ms) == (3, 52, 40)


@pytest.mark.parametrize(
    ("share", "most_ms"),
    [(0.0, 1), (0.2, 1), (0.21, 3), (0.6, 3), (0.61, 7), (0.8, 7), (0.81, 1000), (0.999, 1000), (1.0, 1000)],
)
def test_a_share_took_at_most_the_next_power_of_two_and_no_more_than_the_longest(share, most_ms):
    assert timer(1000, 1, 4, 2, 3).quantile_ms(share) == most_ms


def test_without_any_time_every_quantile_is_0_and_so_is_that_of_no_time():
    assert timer().quantile_ms(0.5) == timer().quantile_ms(0) == 0
    assert timer(0, 0).quantile_ms(0.999) == 0
    assert timer(0, 8).quantile_ms(0.5) == 0 and timer(0, 8).quantile_ms(0.51) == 8


@pytest.mark.parametrize("ms", [2**30 - 1, 2**30, 2**31, 2**50])
def test_what_is_longer_than_all_steps_is_in_the_last(ms):
    assert BUCKETS == 32
    made = timer(ms, 0)
    assert sum(made.buckets) == 2 and made.buckets[30 if ms < 2**30 else 31] == 1
    assert made.quantile_ms(1.0) == min(ms, 2**31 - 1)
