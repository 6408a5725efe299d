"""What a process knows of its cluster: taken over when its number moved, who is reached, who was lost not long ago."""

from types import SimpleNamespace

import pytest

from mpbroker.metadata import cluster_cache
from mpbroker.metadata.cluster_cache import ClusterCache
from mpbroker.shm.cluster_table import GONE, NOBODY, Broker, Endpoint


class World:
    """What stands in shared memory, how often brokers were read, who is known to be dead, and the time."""

    def __init__(self, monkeypatch):
        self.state = SimpleNamespace(generation=1, controller=2, broker_epoch=7)
        self.shown, self.reads, self.asked, self.dead, self.now_ms = {}, 0, [], set(), 1000
        self.rows = {}
        monkeypatch.setattr(cluster_cache, "cluster_state", lambda core: self.state)
        monkeypatch.setattr(cluster_cache, "brokers_shown", self.read)
        monkeypatch.setattr(cluster_cache, "assignment_read", lambda core, ordinal: self.rows.get(ordinal))
        for number, listeners in ((1, "AB"), (2, "A"), (3, "B")):
            self.show(number, 10 + number, listeners)
        self.cache = ClusterCache("core", self.is_dead, lambda: self.now_ms)

    def show(self, number, epoch, listeners="A"):
        endpoints = [Endpoint(one, 0, "h", number) for one in listeners]
        self.shown[number] = Broker(number, epoch, endpoints)

    def read(self, core):
        self.reads += 1
        return dict(self.shown)

    def is_dead(self, broker, listener):
        self.asked.append((broker, listener))
        return (broker, listener) in self.dead


@pytest.fixture
def world(monkeypatch):
    return World(monkeypatch)


def test_it_is_there_from_the_beginning_and_read_again_only_when_something_changed(world):
    cache = world.cache
    assert (world.reads, set(cache.brokers), cache.gone) == (1, {1, 2, 3}, {})
    assert (cache.controller_id, cache.broker_epoch) == (2, 7)
    world.show(3, GONE)
    world.state.controller = 3
    for _ in range(2):
        cache.refresh()
    assert (world.reads, set(cache.brokers), cache.controller_id) == (1, {1, 2, 3}, 2)
    world.state.generation, world.state.broker_epoch = 2, 8
    for _ in range(2):
        cache.refresh()
    assert (world.reads, set(cache.brokers), set(cache.gone)) == (2, {1, 2}, {3})
    assert (cache.controller_id, cache.broker_epoch) == (NOBODY, 8), "one that does not live controls nothing"


def test_reached_are_those_with_the_listener_that_are_not_dead(world):
    world.dead = {(1, "A"), (3, "A")}
    assert world.cache.reached("A") == {2} == world.cache.reached("A")
    assert sorted(world.asked) == [(1, "A"), (2, "A")], "each is asked about once between two looks"
    assert world.cache.reached("B") == {1, 3} and world.cache.reached("C") == frozenset()
    world.dead = set()
    assert world.cache.reached("A") == {2}
    world.cache.refresh()
    assert world.cache.reached("A") == {1, 2}
    world.show(4, 14)
    world.state.generation = 2
    world.cache.refresh()
    assert world.cache.reached("A") == {1, 2, 4}


def test_where_nobody_is_told_of_nobody_is_dead(world):
    assert ClusterCache("core").reached("A") == {1, 2} == world.cache.reached("A")
    assert ClusterCache("core").lost_within("A", 1) == frozenset()


def test_who_was_lost_counts_from_when_it_was_first_seen(world):
    cache = world.cache
    assert cache.lost_within("A", 100) == frozenset()
    world.dead = {(1, "A")}
    cache.refresh()
    assert cache.lost_within("A", 100) == {1}
    world.now_ms += 60
    world.show(2, GONE)
    world.state.generation = 2
    cache.refresh()
    assert cache.lost_within("A", 100) == {1, 2}
    for passed_ms, lost in ((39, {1, 2}), (1, {2}), (59, {2}), (1, set())):
        world.now_ms += passed_ms
        assert cache.lost_within("A", 100) == lost, world.now_ms
    world.dead = set()
    cache.refresh()
    assert cache.lost_within("A", 100) == set()
    world.dead = {(1, "A")}
    cache.refresh()
    assert cache.lost_within("A", 100) == {1}, "it lived between"


def test_an_assignment_is_of_the_topic_that_has_the_row(world):
    world.rows[5] = found = SimpleNamespace(topic_id=b"T", leader=3, leader_epoch=9)
    assert world.cache.assignment(5, b"T") is found
    assert world.cache.assignment(5, b"U") is None and world.cache.assignment(6, b"T") is None
    assert world.cache.leader(5) == (3, 9) and world.cache.leader(6) is None


def test_one_that_lived_again_while_nobody_else_was_lost_is_lost_anew(world):
    for _ in range(2):
        world.dead = {(1, "A")}
        world.cache.refresh()
        assert world.cache.lost_within("A", 100) == {1}
        world.now_ms += 100
        assert world.cache.lost_within("A", 100) == set()
        world.dead = set()
        world.cache.refresh()
        assert world.cache.lost_within("A", 100) == set()
        world.now_ms += 500
