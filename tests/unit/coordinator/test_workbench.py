"""Deadlines, effects and how many requests wait: what the logic of groups and of transactions work with."""

import random

import pytest

from mpbroker.coordinator.effects import Answer, Now
from mpbroker.coordinator.workbench import Timers, Workbench, most_parked


def test_deadlines_come_in_their_order_and_equal_ones_as_they_were_set():
    """Compared with a sorted list; what is due at a moment is due at it, not behind it."""
    rng, timers, done = random.Random(5), Timers(), []
    rows = [(rng.randrange(20), number) for number in range(60)]
    assert timers.deadline_ms() is None
    for deadline_ms, number in rows:
        timers.at(deadline_ms, lambda *given: done.append(given), deadline_ms, number)
    rows.sort()
    for now_ms in (-1, 0, 7, 7, 19, 30):
        timers.run(Now(now_ms, 5))
        due = [row for row in rows if row[0] <= now_ms]
        assert [given[:2] for given in done] == due and all(given[2].wall_ms == 5 for given in done)
        left = rows[len(due) :]
        assert timers.deadline_ms() == (left[0][0] if left else None)


def test_what_a_deadline_sets_is_done_in_the_same_turn_if_it_is_due():
    timers, done = Timers(), []
    timers.at(3, lambda now: timers.at(now.ms, lambda now: done.append(now.ms)))
    timers.run(Now(4, 0))
    assert done == [4] and timers.deadline_ms() is None


@pytest.mark.parametrize(
    ("entries", "most"), [(0, 0), (2, 1), (4095, 2047), (4096, 2048), (4098, 2050), (8192, 6144), (5, 2)]
)
def test_some_of_a_processors_requests_do_not_wait(entries, most):
    """2048 of many, half of few: with them it serves."""
    assert most_parked(entries) == most


def test_effects_come_in_order_and_once():
    bench = Workbench(2)
    bench.answer(1, "message")
    bench.ask("effect")
    assert bench.take_effects() == [Answer(1, "message"), "effect"] and bench.take_effects() == []


def test_numbers_go_up_from_one():
    bench = Workbench(2)
    assert [bench.next_number() for _ in range(3)] == [1, 2, 3]


def test_each_processors_requests_that_wait_are_counted_by_themselves():
    bench = Workbench(2)
    may = []
    for difference in (1, 1, -1, -1):
        bench.count_parked(4, difference)
        may.append(bench.may_park(4))
        assert bench.may_park(5)
    assert may == [True, False, True, True]
    assert not Workbench(0).may_park(4)
