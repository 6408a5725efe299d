"""The wheel runs every deadline exactly once, never early, whatever the level it started on."""

import random

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
