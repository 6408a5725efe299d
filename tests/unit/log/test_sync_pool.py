"""Syncs in threads: beside each other, at most one of a partition, and nobody waits for a slow one."""

import threading

import pytest

from mpbroker.errors import ErrorCode
from mpbroker.log import sync_pool
from mpbroker.log.sync_pool import SyncPool

WAIT_S = 10.0


class Disk:
    """Syncs that end when the test says so. `made`: how many Logs there are."""

    def __init__(self) -> None:
        self.gates: dict[int, threading.Event] = {}
        self.begun: list[int] = []
        self.closed: list[int] = []
        self.made = 0
        self.fails_to_open = 0

    def make_log(self):
        if self.fails_to_open:
            self.fails_to_open -= 1
            raise OSError(24, "Too many open files")
        self.made += 1
        return self

    def flush(self, ordinal):
        self.begun.append(ordinal)
        assert self.gates.setdefault(ordinal, threading.Event()).wait(WAIT_S)
        return ErrorCode.NONE, 100 + ordinal

    def close_cached(self, ordinal):
        self.closed.append(ordinal)

    def let(self, *ordinals):
        for ordinal in ordinals:
            self.gates.setdefault(ordinal, threading.Event()).set()


@pytest.fixture
def disk():
    disk = Disk()
    yield disk
    disk.let(*range(100))


def ended(pool, number) -> list:
    found = pool.finished()
    while len(found) < number:
        assert pool.wait(WAIT_S)
        found += pool.finished()
    return found


def test_a_slow_partition_holds_up_nobody(disk):
    rung = threading.Event()
    pool = SyncPool(disk.make_log, rung.set, threads=4)
    disk.let(1, 2, 3)
    for ordinal in range(4):
        pool.start(ordinal)
    assert sorted(ended(pool, 3)) == [(n, 0, 100 + n) for n in (1, 2, 3)]
    assert rung.wait(WAIT_S)
    disk.let(0)
    assert ended(pool, 1) == [(0, 0, 100)]
    assert pool.finished() == [] and not pool.wait(WAIT_S)
    assert sorted(disk.closed) == [0, 1, 2, 3]


def test_a_partition_is_synced_once_at_a_time_and_again_afterwards(disk):
    pool = SyncPool(disk.make_log, lambda: None)
    for _ in range(3):
        pool.start(7)
    disk.let(7)
    assert ended(pool, 1) == [(7, 0, 107)]
    assert disk.begun == [7]
    pool.start(7)
    assert ended(pool, 1) == [(7, 0, 107)]


def test_there_are_no_more_threads_than_work_or_allowed(disk):
    pool = SyncPool(disk.make_log, lambda: None, threads=3)
    disk.let(*range(50))
    pool.start(0)
    ended(pool, 1)
    for again in range(3):
        assert disk.made == len(pool._threads) == 1, "the first one has nothing to do"
        pool.start(again)
        ended(pool, 1)
    for ordinal in range(50):
        pool.start(ordinal)
    assert len(ended(pool, 50)) == 50
    assert 1 <= disk.made <= 3
    assert all(thread.daemon for thread in pool._threads), "a process that ends waits for no disk"


def test_without_descriptors_it_is_tried_again_by_whoever_wants_it(disk):
    disk.fails_to_open = 1
    pool = SyncPool(disk.make_log, lambda: None)
    disk.let(5)
    pool.start(5)
    assert ended(pool, 1) == [(5, ErrorCode.REQUEST_TIMED_OUT, -1)]
    pool.start(5)
    assert ended(pool, 1) == [(5, 0, 105)]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_thread_that_is_broken_ends_the_process(disk, monkeypatch):
    codes, rung = [], []

    def leave(code):
        codes.append(code)
        raise SystemExit

    monkeypatch.setattr(sync_pool.os, "_exit", leave)
    monkeypatch.setattr(disk, "flush", lambda ordinal: 1 // 0)
    pool = SyncPool(disk.make_log, lambda: rung.append(1), threads=1)
    pool.start(5)
    pool._threads[0].join(WAIT_S)
    assert (codes, rung, pool.finished()) == ([1], [], [])


def test_what_was_waited_for_is_told_by_the_next_look(disk):
    pool = SyncPool(disk.make_log, lambda: None)
    assert pool.wait(0) is False, "nothing is under way"
    disk.let(5)
    pool.start(5)
    assert pool.wait(WAIT_S) is True
    assert pool.finished() == [(5, 0, 105)] and pool.finished() == [] and pool.wait(0) is False
