"""When a partition of groups is loaded: what came meanwhile is done now, and its looks at old offsets are spread."""

import pytest

from mpbroker.coordinator import group_coordinator as module
from mpbroker.coordinator.effects import Now
from mpbroker.coordinator.group_coordinator import GroupCoordinator
from mpbroker.coordinator.group_settings import GroupSettings
from tests.harness.group_world import MemoryTable, MemoryTopics

NOW = Now(1000, 5_000_000)


@pytest.fixture
def coordinator():
    settings = GroupSettings(partitions=3, retention_check_ms=600, max_session_timeout_ms=9000)
    return GroupCoordinator(settings, MemoryTable(), lambda topic, partition: True, b"s" * 16, MemoryTopics())


def test_the_partitions_look_for_old_offsets_one_after_the_other(coordinator, monkeypatch):
    looks = []
    monkeypatch.setattr(module, "watch_age", lambda shard, at_ms: looks.append((shard.partition, at_ms)))
    for partition in range(3):
        coordinator.open(partition, 0, NOW)
        coordinator.loaded(partition, NOW)
    assert looks == [(0, 1200), (1, 1400), (2, 1600)]


def test_what_came_while_it_was_loaded_is_done_once_in_order(coordinator, monkeypatch):
    done = []
    monkeypatch.setattr(module, "remove_topic", lambda shard, topic, now: done.append((topic, now)))
    monkeypatch.setattr(module, "end_transaction", lambda shard, *ended: done.append(ended))
    coordinator.open(1, 0, NOW)
    shard = coordinator._shards[1]
    shard.deleted_topics += ["t", "u"]
    shard.ended += [(7, True), (8, False)]
    assert shard.is_loading
    coordinator.loaded(1, NOW)
    assert done == [("t", NOW), ("u", NOW), (7, True), (8, False)]
    assert (shard.is_loading, shard.deleted_topics, shard.ended) == (False, [], [])


def test_strangers_are_forgotten_a_longest_session_after_the_last_load(coordinator, monkeypatch):
    forgotten, table = [], coordinator._env.table
    monkeypatch.setattr(table, "drop_unconfirmed_members", lambda: forgotten.append(True))
    for partition in (0, 1):
        now = Now(NOW.ms + 100 * partition, NOW.wall_ms)
        coordinator.open(partition, 0, now)
        coordinator.loaded(partition, now)
    timers = coordinator._env.timers
    for ms, times in ((10_099, 0), (10_100, 1), (30_000, 1)):
        timers.run(Now(ms, NOW.wall_ms))
        assert len(forgotten) == times, ms


def test_an_older_epoch_neither_opens_nor_closes(coordinator):
    coordinator.open(0, 5, NOW)
    first = coordinator._shards[0]
    for epoch in (4, 5):
        assert coordinator.open(0, epoch, NOW) == [] and coordinator._shards[0] is first
    coordinator.close(0, 4, NOW)
    assert coordinator._shards == {0: first}
    coordinator.open(0, 6, NOW)
    assert coordinator._shards[0] is not first and coordinator._shards[0].leader_epoch == 6
    assert list(coordinator._loading) == [0]
    coordinator.close(0, 6, NOW)
    assert coordinator._shards == {} == coordinator._loading
