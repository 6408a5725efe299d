"""The watch of a shared store: how long it waits for a bell, whom it looks after, what it leaves behind."""

import os
import select
import subprocess
from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from mpbroker.metadata import shared_watch
from mpbroker.metadata.shared_watch import SESSIONS_MS, WATCH_MS, SharedWatch
from tests.harness.descriptors import open_descriptors


class Store:
    """Answers what a test says: `found`, one at a time; counts how often sessions were looked at."""

    def __init__(self):
        self.found, self.asked, self.looks, self.pids = [], [], 0, {}

    def changes(self, prefix, start_rev):
        self.asked.append((prefix, start_rev))
        return self.found.pop(0) if self.found else ([], start_rev)

    def end_dead_sessions(self):
        self.looks += 1

    def owners(self):
        return self.pids


class Waits:
    """The epoll of a watch and the clock: waiting takes as long as was asked for."""

    def __init__(self, epoll):
        self.waited, self.now, self._epoll = [], 1000.0, epoll

    def monotonic(self):
        return self.now

    def poll(self, seconds):
        self.waited.append(round(seconds, 6))
        self.now += seconds

    def __getattr__(self, name):
        return getattr(self._epoll, name)


@pytest.fixture
def world(tmp_path, monkeypatch):
    store = Store()
    watch = SharedWatch(store, tmp_path, "w/", 5)
    waits = watch._epoll = Waits(watch._epoll)
    monkeypatch.setattr(shared_watch, "time", waits)
    yield SimpleNamespace(store=store, watch=watch, waits=waits, path=tmp_path)
    watch.close()


@contextmanager
def _process():
    """One that lives until the test ends it, or has ended."""
    with subprocess.Popen(["sleep", "100"]) as one:
        try:
            yield one
        finally:
            one.kill()


def test_without_a_wait_it_looks_once(world):
    assert world.watch.take() == [] and world.waits.waited == [] and world.store.asked == [("w/", 5)]


def test_it_waits_for_a_bell_as_long_as_it_may_and_no_longer(world):
    wait_ms = 2 * WATCH_MS + WATCH_MS // 2
    assert world.watch.take(wait_ms) == []
    assert world.waits.waited == [WATCH_MS / 1000, WATCH_MS / 1000, WATCH_MS / 2000]
    world.store.found = [([], 5), (["batch"], 9)]
    assert world.watch.take(wait_ms) == ["batch"] and len(world.waits.waited) == 4
    assert world.watch.rev == 8
    world.watch.take()
    assert world.store.asked[-1] == ("w/", 9)


def test_keys_of_others_are_gone_over(world):
    world.store.found = [([], 7), ([], 9), (["batch"], 10)]
    assert world.watch.take() == ["batch"] and world.waits.waited == []
    assert [rev for _, rev in world.store.asked] == [5, 7, 9]


def test_sessions_are_looked_at_now_and_then(world):
    for _ in range(3):
        world.watch.take()
    assert world.store.looks == 1
    world.waits.now += SESSIONS_MS / 1000 - 1e-6
    world.watch.take()
    assert world.store.looks == 1
    world.waits.now += 2e-6
    world.watch.take()
    assert world.store.looks == 2


def test_the_death_of_a_supervisor_is_heard_and_looked_at_at_once(world):
    with _process() as one:
        world.store.pids = {"broker-1": one.pid, "broker-2": 0}
        world.watch.take()
        assert list(world.watch._pidfds) == [one.pid] and world.store.looks == 1
        assert not select.select([world.watch], [], [], 0)[0]
        one.kill()
        assert select.select([world.watch], [], [], 10)[0]
        one.wait()
    world.store.pids = {}
    world.watch.take()
    assert world.store.looks == 2 and not world.watch._pidfds


def test_who_is_patient_leaves_a_death_to_others_for_a_while(world):
    watch = SharedWatch(world.store, world.path, "w/", 5, patience_ms=700)
    world.store.pids = {"broker-1": os.getpid()}
    watch.take()
    assert world.store.looks == 1 and not watch._pidfds
    world.waits.now += 0.6
    watch.take()
    assert world.store.looks == 1
    world.waits.now += 0.2
    watch.take()
    assert world.store.looks == 2
    watch.close()


def test_who_is_no_owner_any_more_is_not_looked_after(world):
    world.store.pids = {"broker-1": os.getpid()}
    world.watch.take()
    assert list(world.watch._pidfds) == [os.getpid()]
    world.store.pids = {"broker-1": 2**22 + 1}  # no process has this pid
    world.waits.now += SESSIONS_MS / 1000
    world.watch.take()
    assert not world.watch._pidfds


def test_it_leaves_no_bell_behind(world):
    assert len(list(world.path.iterdir())) == 1
    world.store.pids = {"broker-1": os.getpid()}
    world.watch.take()
    [pidfd] = world.watch._pidfds.values()
    world.watch.close()
    assert list(world.path.iterdir()) == []
    with pytest.raises(OSError):
        os.fstat(pidfd)
    world.watch.close = lambda: None


def test_a_closed_one_holds_no_descriptor(tmp_path):
    before = open_descriptors()
    watch = SharedWatch(Store(), tmp_path, "w/", 5)
    assert open_descriptors() - before
    watch.close()
    assert open_descriptors() <= before


def test_a_death_is_looked_at_once(world):
    """Its owner may be named for a while by sessions that nobody has ended."""
    with _process() as one:
        world.store.pids = {"broker-1": one.pid}
        world.watch.take()
        one.kill()
        one.wait()
    for _ in range(3):
        world.watch.take()
    assert world.store.looks == 2 and not world.watch._pidfds
