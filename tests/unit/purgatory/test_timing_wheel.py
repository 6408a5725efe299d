"""The wheel runs every deadline exactly once, never early, whatever the level it started on."""

import random

import pytest

from mpbroker.purgatory.timing_wheel import TimingWheel


def test_entries_run_at_their_deadline_and_not_before():
    wheel, ran = TimingWheel(1000), []
    for delay_ms in (0, 1, 19, 20, 21, 399, 400, 8000, 160_000):
        wheel.add(1000 + delay_ms, lambda d=delay_ms: ran.append(d))
    for now_ms in range(1000, 1450):
        wheel.advance(now_ms)
        assert ran == [d for d in (0, 1, 19, 20, 21, 399, 400) if 1000 + d <= now_ms]
    wheel.advance(200_000)
    assert ran[-2:] == [8000, 160_000]


def test_cancelled_entry_never_runs():
    wheel, ran = TimingWheel(0), []
    wheel.add(50, lambda: ran.append("kept"))
    wheel.add(50, lambda: ran.append("cancelled")).cancel()
    assert wheel.advance(60) == 1
    assert ran == ["kept"]


def test_next_due_never_lies_after_the_earliest_deadline():
    wheel, seed = TimingWheel(0), random.Random(7)
    deadlines = [seed.randrange(1, 10_000_000) for _ in range(300)]
    for deadline_ms in deadlines:
        wheel.add(deadline_ms, lambda d=deadline_ms: deadlines.remove(d))
    while deadlines:
        due_ms = wheel.next_due_ms()
        assert due_ms <= min(deadlines)
        before = min(deadlines)
        wheel.advance(max(due_ms, wheel.now_ms + 1))
        assert all(d > wheel.now_ms for d in deadlines) or before > wheel.now_ms
    assert wheel.next_due_ms() is None


def test_cancelled_entries_are_freed_long_before_their_deadline():
    wheel = TimingWheel(0)
    entries = [wheel.add(2**31 + n, lambda: None) for n in range(1000)]
    for entry in entries:
        entry.cancel()
        entry.cancel()
    assert wheel.pending == 0 and not any(bucket for level in wheel._wheels for bucket in level.buckets.values())
    kept = wheel.add(10, lambda: doomed.cancel())
    doomed = wheel.add(10, lambda: entries.clear())
    assert wheel.advance(10) == 1 and wheel.pending == 0 and entries and kept


def test_who_waits_for_one_deadline_is_woken_once_per_level():
    for delay_ms in (1, 19, 20, 399, 400, 7999, 8000, 159_999, 160_000, 3_000_000):
        wheel, ran, woken = TimingWheel(1000), [], 0
        wheel.add(1000 + delay_ms, lambda d=delay_ms, ran=ran: ran.append(d))
        while not ran:
            wheel.advance(max(wheel.next_due_ms(), wheel.now_ms))
            woken += 1
        assert woken <= wheel.LEVELS and wheel.now_ms == 1000 + delay_ms, (delay_ms, woken)


@pytest.mark.parametrize(
    ("delay_ms", "due_ms"),
    [
        (0, 168_425),
        (19, 168_444),
        (20, 168_440),
        (399, 168_820),
        (400, 168_800),
        (7999, 176_400),
        (8000, 176_000),
        (159_999, 328_000),
        (160_000, 320_000),
        (3_199_999, 3_360_000),
        (3_200_000, 3_200_000),
        (100_000_000, 99_200_000),
    ],
)
def test_the_level_of_a_deadline_says_when_to_look_at_it(delay_ms, due_ms):
    """Each level is twenty times as coarse as the one below, and takes what lies within twenty of its ticks."""
    wheel, ran = TimingWheel(168_425), []
    wheel.add(168_425 + delay_ms, lambda: ran.append(wheel.now_ms))
    assert (wheel.next_due_ms(), wheel.pending) == (due_ms, 1)
    is_due = due_ms == 168_425 + delay_ms
    assert (wheel.advance(due_ms), wheel.pending, ran) == ((1, 0, [due_ms]) if is_due else (0, 1, []))


def test_what_another_one_takes_back_while_it_is_looked_at_is_not_counted():
    wheel, ran = TimingWheel(0), []
    wheel.add(50, lambda: doomed.cancel())
    doomed = wheel.add(50, lambda: ran.append("doomed"))
    wheel.add(50, lambda: ran.append("kept"))
    assert (wheel.advance(50), wheel.pending, ran) == (2, 0, ["kept"])
