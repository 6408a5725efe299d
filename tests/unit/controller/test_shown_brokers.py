"""Which brokers are shown: those that live, and for a while those that are gone."""

import pytest

from mpbroker.controller.shown_brokers import ShownBrokers
from mpbroker.shm.cluster_table import (
    GONE,
    NOBODY,
    Broker,
    Endpoint,
    brokers_read,
    brokers_shown,
    brokers_write,
    cluster_state,
)
from mpbroker.shm.layout import MAX_BROKERS
from tests.harness.small_core import small_core

GONE_MS = 9000


def broker(id, epoch=NOBODY):
    return Broker(id, epoch, [Endpoint("IN", 0, "one", 11)])


class World:
    """Three brokers that the store has; the controller has told of none."""

    def __init__(self):
        self.now_ms, self.epochs = 5000, {1: 4, 2: 5, 3: 6}
        self.core = small_core(replicated=True).core
        self.made = self.begin()

    def begin(self):
        return ShownBrokers(
            self.core, lambda: self.epochs, lambda: self.now_ms, lambda: GONE_MS, crash_point=lambda _: None
        )

    def shown(self):
        return {id: one.epoch for id, one in brokers_shown(self.core).items()}

    def living(self):
        return list(brokers_read(self.core))

    def generation(self):
        return cluster_state(self.core).generation


@pytest.fixture
def world():
    return World()


def test_who_lives_is_shown_with_the_epoch_that_the_store_has_and_told_of_when_it_changed(world):
    world.made.show([broker(1, 99), broker(2, 98), broker(9)])
    assert world.shown() == {1: 4, 2: 5, 9: NOBODY} and world.generation() == 1
    world.made.show([broker(9), broker(2), broker(1)])
    assert world.generation() == 1
    world.epochs[9] = 7
    world.made.store_changed()
    assert world.shown() == {1: 4, 2: 5, 9: 7} and world.generation() == 2


def test_a_broker_that_is_gone_is_shown_as_such_for_as_long_as_a_session_lasts(world):
    world.made.show([broker(1), broker(2), broker(3)])
    world.made.show([broker(1), broker(2)])
    assert world.shown() == {1: 4, 2: 5, 3: GONE} and world.living() == [1, 2]
    assert brokers_shown(world.core)[3].on("IN").port == 11
    world.now_ms += GONE_MS - 1
    world.made.forget()
    world.made.show([broker(1), broker(2)])
    assert world.shown() == {1: 4, 2: 5, 3: GONE}
    before = world.generation()
    world.now_ms += 1
    world.made.forget()
    assert world.shown() == {1: 4, 2: 5} and world.generation() == before + 1


def test_a_broker_that_came_back_lives_and_may_go_again_for_as_long(world):
    world.made.show([broker(1), broker(2)])
    world.made.show([broker(1)])
    world.now_ms += GONE_MS - 1
    world.made.show([broker(1), broker(2)])
    assert world.shown() == {1: 4, 2: 5}
    world.made.show([broker(1)])
    world.now_ms += GONE_MS - 1
    world.made.forget()
    assert world.shown() == {1: 4, 2: GONE}


def test_what_the_store_has_no_more_is_gone_before_the_controller_says_so(world):
    """Unless the store's watch has not brought it yet: the controller may be quicker."""
    world.made.show([broker(1), broker(2), broker(9)])
    del world.epochs[2]
    world.made.store_changed()
    assert world.shown() == {1: 4, 2: GONE, 9: NOBODY}


def test_what_a_predecessor_showed_as_gone_is_forgotten_too(world):
    world.made.show([broker(1), broker(2)])
    world.made.show([broker(1)])
    successor = world.begin()
    successor.show([broker(1)])
    world.now_ms += GONE_MS
    successor.forget()
    assert world.shown() == {1: 4}


def test_who_lives_has_room_before_who_is_gone(world):
    brokers_write(world.core, [broker(id) for id in range(MAX_BROKERS)])
    world.made.show([broker(id) for id in range(1, MAX_BROKERS + 1)])
    assert world.living() == list(range(1, MAX_BROKERS + 1)) and world.shown().keys() == set(world.living())
