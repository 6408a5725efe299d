"""What becomes of a marker whose partition is not known here: it waits for as long as metadata may lag."""

from types import SimpleNamespace

import pytest

from mpbroker.coordinator.effects import SendMarkers
from mpbroker.coordinator.transactions.marker_sender import NO_SHARD, MarkerSender
from mpbroker.coordinator.unknown_topics import GRACE_MS, UnknownTopics
from mpbroker.errors import ErrorCode
from mpbroker.shm.clock import ManualClock

UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


class World:
    """Shard 3 was taken over just now; all partitions that are known are led elsewhere, and their leader answers at
    once."""

    def __init__(self, in_cluster=True):
        self.topics, self.written, self.settled = {}, [], []
        self.clock, self.coordinating = ManualClock(), True
        self.metadata = SimpleNamespace(topic=self.topics.get, has_read_everything=True)
        self.unknown = UnknownTopics(self.metadata, self.clock, in_cluster)
        self.unknown.took_over(3)
        others = SimpleNamespace(flush=lambda: None, leads_here=lambda *_: False, write_marker=self._write)
        self.sender = MarkerSender(
            None,
            None,
            self.metadata,
            None,
            self.clock,
            None,
            lambda name: None,
            lambda *_: self.coordinating,
            self.unknown.are_gone,
            others,
        )

    def _write(self, markers, one, then):
        self.written.append(one)
        then(ErrorCode.NONE)

    def send(self, shard=3):
        self.sender.send(SendMarkers(shard, 1, 9, 0, True, 7, frozenset({("t", 1)})), self.settled.append)

    def advance(self, milliseconds):
        for _ in range(milliseconds // 100):
            self.clock.advance(100)
            self.sender.retry(self.clock.monotonic_ms())


def test_a_coordinator_that_lags_behind_ends_no_transaction_without_its_marker():
    world = World()
    world.topics["t"] = SimpleNamespace(partitions=[0])  # the second partition is not known yet, either
    world.send()
    world.advance(GRACE_MS - 1000)
    assert not world.settled and not world.written
    world.topics["t"] = SimpleNamespace(partitions=[0, 1])
    world.advance(100)
    assert world.written == [("t", 1)] and world.settled == [{("t", 1): ErrorCode.NONE}]


def test_a_partition_that_stays_unknown_is_gone():
    world = World()
    world.send()
    world.advance(GRACE_MS + 100)
    assert world.settled == [{("t", 1): UNKNOWN}]
    world.send()
    assert len(world.settled) == 2, "what is named from here on was known here"


def test_a_broker_by_itself_waits_until_it_has_read_everything():
    world = World(in_cluster=False)
    world.metadata.has_read_everything = False
    world.send()
    world.advance(GRACE_MS)
    assert not world.settled
    world.metadata.has_read_everything = True
    world.advance(100)
    assert world.settled == [{("t", 1): UNKNOWN}]


@pytest.mark.parametrize("coordinating", [True, False])
def test_who_asks_from_outside_hears_it_at_once_and_another_coordinator_sends_its_own(coordinating):
    world = World()
    world.coordinating = coordinating
    world.send(NO_SHARD)
    assert world.settled == [{("t", 1): UNKNOWN}]
    world.send()
    assert (world.sender.next_due_ms() is not None) == coordinating and len(world.settled) == 1
