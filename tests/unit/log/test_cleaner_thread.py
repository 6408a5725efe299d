"""The log cleaner's thread, as the log keeper sees it from outside."""

import threading

import pytest

from mpbroker.log.log_cleaner import LogCleaner
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
