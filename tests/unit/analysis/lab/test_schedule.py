"""Intended times are a matter of the plan alone: a slow broker or generator changes when requests are sent, not when
they were meant to be."""

import random

import pytest

from mpbroker.analysis.lab.schedule import CLOSED, NS, ClosedLoop, OpenLoop, spans


def _all(schedule):
    return schedule.rest(10_000)


def test_phases_follow_each_other():
    phases = spans(5 * NS, [1.0, 0.5], [10.0, 0.0])
    assert [(phase.begin_ns, phase.end_ns, phase.rate_per_s) for phase in phases] == [
        (5 * NS, 6 * NS, 10.0),
        (6 * NS, 6 * NS + NS // 2, 0.0),
    ]


def test_a_regular_grid_does_not_drift():
    times = _all(OpenLoop(spans(0, [3.0], [3.0])))
    assert times == [round(k * NS / 3) for k in range(9)]


def test_connections_share_the_interval():
    first, second = (_all(OpenLoop(spans(0, [1.0], [2.0]), offset)) for offset in (0.25, 0.75))
    assert first == [NS // 8, NS // 8 + NS // 2] and second == [3 * NS // 8, 3 * NS // 8 + NS // 2]


def test_silent_phases_have_no_requests():
    times = _all(OpenLoop(spans(0, [1.0, 1.0, 1.0], [2.0, 0.0, 4.0])))
    assert times == [0, NS // 2, 2 * NS, 2 * NS + NS // 4, 2 * NS + NS // 2, 2 * NS + 3 * NS // 4]


def test_what_is_late_keeps_its_intended_time():
    schedule = OpenLoop(spans(0, [1.0], [10.0]))
    assert schedule.due(0) and schedule.take(0) == 0
    assert not schedule.due(NS // 10 - 1)
    late_ns = NS // 2  # the generator or the broker was busy: five requests are due at once
    taken = []
    while schedule.due(late_ns):
        taken.append(schedule.take(late_ns))
    assert taken == [NS // 10, 2 * NS // 10, 3 * NS // 10, 4 * NS // 10, NS // 2]
    assert schedule.wakes_ns(late_ns) == 6 * NS // 10


def test_random_arrivals_have_the_rate_and_repeat_with_the_seed():
    phases = spans(0, [100.0], [50.0])
    times = _all(OpenLoop(phases, generator=random.Random("a")))
    assert (
        times
        == _all(OpenLoop(phases, generator=random.Random("a")))
        != _all(OpenLoop(phases, generator=random.Random("b")))
    )
    assert 4_600 < len(times) < 5_400 and times == sorted(times) and times[-1] < 100 * NS


def test_a_closed_loop_is_due_while_its_phase_is_on():
    schedule = ClosedLoop(spans(0, [1.0, 1.0, 1.0], [0.0, CLOSED, 0.0]))
    assert [schedule.due(at) for at in (0, NS, 2 * NS - 1, 2 * NS)] == [False, True, True, False]
    assert schedule.wakes_ns(0) == NS and schedule.wakes_ns(NS) is None
    assert schedule.rest(10) == []


def test_a_closed_loop_means_to_send_when_there_is_room():
    schedule = ClosedLoop(spans(0, [1.0, 1.0], [0.0, CLOSED]))
    assert schedule.take(NS + 5) == NS  # room since ever: since the phase began
    assert schedule.take(NS + 50, NS + 7) == NS + 7 and schedule.take(NS + 50, NS + 60) == NS + 50


@pytest.mark.parametrize("most", [0, 3])
def test_the_rest_is_bounded(most):
    assert len(OpenLoop(spans(0, [1.0], [1000.0])).rest(most)) == most
