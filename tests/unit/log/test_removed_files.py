"""Descriptors of removed files go back twice a second, however often a loop turns."""

from types import SimpleNamespace

from mpbroker.log.removed_files import EVERY_MS, RemovedFiles
from mpbroker.shm.clock import ManualClock


def test_it_gives_back_twice_a_second_at_most():
    clock, closed = ManualClock(), []
    files = RemovedFiles(SimpleNamespace(close_stale=lambda: closed.append(clock.monotonic_ms())), clock)
    begun = clock.monotonic_ms()
    for _ in range(10 * EVERY_MS // 100):
        files.give_back()
        files.give_back()
        assert 0 < files.due_ms() - clock.monotonic_ms() <= EVERY_MS
        clock.advance(100)
    assert closed == [begun + turn * EVERY_MS for turn in range(10)] and EVERY_MS <= 500
