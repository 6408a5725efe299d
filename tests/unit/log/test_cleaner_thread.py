"""The log cleaner's thread, as the log keeper sees it from outside."""

import threading
from types import SimpleNamespace

import pytest

from mpbroker.log import log_cleaner
from mpbroker.log.log_cleaner import Dirt, LogCleaner
from tests.unit.log.log_world import LogWorld


@pytest.fixture
def world(tmp_path):
    world = LogWorld(tmp_path)
    yield world
    world.close()


def test_it_is_at_a_partition_until_its_thread_has_ended(world):
    """A move of that partition to another log directory waits for it."""
    partition = world.create(cleanup_policy="compact")
    cleaner = LogCleaner(world.keeper(), lambda *_: None)
    go_on = threading.Event()
    cleaner._at, cleaner._thread = partition.topic_id, threading.Thread(target=go_on.wait)
    cleaner._thread.start()
    cleaner.do_work()
    assert cleaner.is_at(partition)
    go_on.set()
    cleaner._thread.join()
    cleaner.do_work()
    assert not cleaner.is_at(partition)


class Turns:
    """The semaphore of all log directories' cleaners: who took and gave it back."""

    def __init__(self):
        self.taken = []

    def acquire(self):
        self.taken.append("taken")

    def release(self):
        self.taken.append("given back")


@pytest.mark.parametrize("fails", [False, True])
def test_cleaners_of_several_directories_take_turns(world, fails):
    partition, turns, rung = world.create(cleanup_policy="compact"), Turns(), []

    def make_log():
        if fails:
            raise OSError(24, "no descriptors")
        return SimpleNamespace(close=lambda: turns.taken.append("closed"))

    cleaner = LogCleaner(
        world.keeper(cleaning=turns), lambda *_: None, make_log, lambda: rung.append(list(turns.taken))
    )
    cleaner._compact = lambda *_: turns.taken.append("compacted") or "ended"
    cleaner._begin(Dirt(partition, 0, 1, 1.0, False))
    cleaner._thread.join(10)
    works = [] if fails else ["compacted", "closed"]
    assert turns.taken == ["taken", *works, "given back"] and rung == [turns.taken]
    ended = cleaner._ended.get_nowait()
    assert (ended.reason, ended.again) == ("[Errno 24] no descriptors", True) if fails else ended == "ended"


def test_a_thread_that_is_broken_ends_the_process_and_not_as_one_that_stops(world, monkeypatch):
    """Another one takes over, and goes by what is on disk."""
    codes, turns, rung = [], Turns(), []

    def leave(code):
        codes.append(code)
        raise SystemExit

    monkeypatch.setattr(log_cleaner.os, "_exit", leave)
    cleaner = LogCleaner(world.keeper(cleaning=turns), lambda *_: None, object, lambda: rung.append(1))
    with pytest.raises(SystemExit):
        cleaner._work(lambda: 1 // 0, Dirt(world.create(), 0, 1, 1.0, False), None, 1.0)
    assert codes == [1] and rung == turns.taken == [] and cleaner._ended.empty()
