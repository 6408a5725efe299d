"""Segments that a fetcher wrote and that were removed since: it gives their descriptors back."""

import os
from contextlib import suppress

import pytest

from mpbroker.log.removed_files import EVERY_MS
from mpbroker.shm.layout import PartitionFlags
from tests.unit.replication.fetcher_world import FetcherWorld
from tests.unit.replication.scripted_leader import A


@pytest.fixture
def world(tmp_path, monkeypatch):
    world = FetcherWorld(tmp_path, monkeypatch)
    world.create_topic("a", topic_id=A)
    world.follow(0)
    world.live()
    yield world
    world.close()


def removed_and_open(directory):
    found = []
    for name in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):  # of the listing itself
            found.append(os.readlink(f"/proc/self/fd/{name}"))
    return [path for path in found if path.startswith(f"{directory}/") and path.endswith("(deleted)")]


def test_what_it_fetched_and_a_deletion_removed_is_closed_soon(world, tmp_path):
    """At a turn of its own, between two looks at the rows."""
    world.leader.write((A, 0), [b"1"])
    world.connect()
    world.take()
    world.answer()
    assert world.log.state(0).leo == 1
    hidden, shown = PartitionFlags.DELETED, PartitionFlags.EXISTS | PartitionFlags.ONLINE
    assert world.log.set_flags(0, int(hidden), int(shown)) == 0
    world.log.close_stale()
    for path in (tmp_path / "a-0").iterdir():
        path.unlink()
    assert removed_and_open(tmp_path)
    world.clock.advance(EVERY_MS)
    world.made.turn()
    assert not removed_and_open(tmp_path)


def test_it_waits_no_longer_than_until_that_is_due(world):
    world.made.turn()
    world.made._links.clear()
    assert world.made._wait_s() == EVERY_MS / 1000
