"""A group of the next-generation protocol against clients that keep to it: nothing has two owners, whatever fails.

The machine lets clients come, beat, give back, leave and fall silent, topics grow, appends fail or be acknowledged
late, and the coordinator die between any two effects. After every step the log says what memory says; at the end of a
play everything settles, balanced.
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from mpbroker.coordinator.consumer_groups import consumer_records as records
from mpbroker.coordinator.consumer_groups.consumer_group import ConsumerGroup
from mpbroker.coordinator.effects import Now
from mpbroker.coordinator.group_settings import GroupSettings
from mpbroker.errors import ErrorCode
from mpbroker.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequestTopicPartitions,
)
from tests.harness.group_world import GROUP, TOPIC, MemoryTable, World

SESSION_MS, INTERVAL_MS = 1000, 100
FAILURES = (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.REQUEST_TIMED_OUT, ErrorCode.KAFKA_STORAGE_ERROR)


class Client:
    """A consumer. `has`: what it may read, until it says that it does not; `alive_ms`: the last answer that it got."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self.epoch = 0
        self.has: set[tuple[bytes, int]] = set()
        self.wanted: set[tuple[bytes, int]] = set()
        self.alive_ms = -SESSION_MS
        self.waits = False
        self.is_full = True
        self.said: set[tuple[bytes, int]] | None = None

    def owns(self) -> set[tuple[bytes, int]]:
        """What it reads; one that heard nothing for a session has stopped."""
        return self.has if self.world.ms - self.alive_ms < SESSION_MS else set()

    def is_diligent(self) -> bool:
        """Whether it was heard of all the time."""
        return self.world.ms - self.alive_ms < SESSION_MS

    def beat(self) -> None:
        """What is not wanted any more is given back before it is said."""
        if self.waits:
            return
        self.has &= self.wanted
        joins = self.epoch == 0
        if joins:
            self.has.clear()
        held: dict[bytes, list[int]] = {}
        for topic, number in self.has:
            held.setdefault(topic, []).append(number)
        rows = [ConsumerGroupHeartbeatRequestTopicPartitions(topic, numbers) for topic, numbers in held.items()]
        full = joins or self.is_full
        says = full or self.said != self.has  # what it has, only when that is another thing than last time
        self.said = None if full else set(self.has)
        self.waits = True
        self.world.send(
            self,
            ConsumerGroupHeartbeatRequest(
                GROUP,
                self.name,
                self.epoch,
                rebalance_timeout_ms=SESSION_MS if full else -1,
                subscribed_topic_names=[TOPIC] if full else None,
                topic_partitions=rows if says else None,
            ),
            1,
        )

    def leave(self) -> None:
        if not self.waits:
            self.has.clear()
            self.waits = True
            self.world.send(self, ConsumerGroupHeartbeatRequest(GROUP, self.name, -1), 1)

    def hear(self, asked: ConsumerGroupHeartbeatRequest, answer) -> None:
        self.waits = False
        if answer.error_code in (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID, 69):
            assert answer.error_code != ErrorCode.FENCED_MEMBER_EPOCH or not self.is_diligent(), "fenced for nothing"
            self.epoch, self.is_full = 0, True
            self.has.clear()
            self.wanted.clear()
            return
        if answer.error_code:
            self.is_full, self.said = True, None  # as Kafka's clients after an error: say everything again
            return
        if asked.member_epoch == -1:
            self.epoch = 0
            return
        assert answer.member_epoch >= self.epoch, "an epoch fell"
        self.epoch, self.is_full, self.alive_ms = answer.member_epoch, False, self.world.ms
        if answer.assignment is not None:
            rows = answer.assignment.topic_partitions
            self.wanted = {(row.topic_id, number) for row in rows for number in row.partitions}
            self.has |= self.wanted


class Groups(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.world = World(
            GroupSettings(
                retention_check_ms=10**12,
                consumer_session_timeout_ms=SESSION_MS,
                assignment_interval_ms=INTERVAL_MS,
                consumer_max_size=5,
            ),
            partitions=4,
        )
        self.clients = [Client(self.world, name) for name in "abcdef"]
        self.partitions = 4

    def group(self) -> ConsumerGroup | None:
        found = self.world.coordinator._shards[self.world.partition].groups.get(GROUP)
        return found if isinstance(found, ConsumerGroup) else None

    @rule(number=st.integers(0, 5), times=st.integers(1, 3))
    def beat(self, number: int, times: int) -> None:
        for _ in range(times):
            self.clients[number].beat()

    @rule(number=st.integers(0, 5))
    def leave(self, number: int) -> None:
        self.clients[number].leave()

    @rule(milliseconds=st.sampled_from([10, 150, 600, 1100]))
    def pass_time(self, milliseconds: int) -> None:
        self.world.advance(milliseconds)

    @rule()
    def everybody(self) -> None:
        for client in self.clients[:3]:
            client.beat()
        self.world.advance(INTERVAL_MS)

    @rule(code=st.sampled_from(FAILURES), written=st.booleans(), number=st.integers(0, 5))
    def fail(self, code: int, written: bool, number: int) -> None:
        """The next append fails; only of one that took too long nobody knows whether it is there."""
        is_there = written and code == ErrorCode.REQUEST_TIMED_OUT
        self.world.append_fate = lambda: (is_there, code, True)
        self._come_or_go(number)
        self.world.append_fate = lambda: (True, 0, True)
        self.everybody()

    def _come_or_go(self, number: int) -> None:
        """Something that certainly is a change."""
        client = self.clients[number]
        if client.epoch:
            client.leave()
        else:
            client.beat()

    @rule(numbers=st.lists(st.integers(0, 5), min_size=1, max_size=4), code=st.sampled_from((0, 7)))
    def acknowledge_late(self, numbers: list[int], code: int) -> None:
        """An append is on its way while others ask; perhaps it is never acknowledged."""
        fates = [(True, code, False)]
        self.world.append_fate = lambda: fates.pop() if fates else (True, 0, False)
        for number in numbers:
            self._come_or_go(number)
        self.world.append_fate = lambda: (True, 0, True)
        while self.world.unacknowledged:
            self.world.acknowledge()
        self.everybody()

    @rule(after=st.integers(0, 2), number=st.integers(0, 5), goes=st.booleans())
    def die(self, after: int, number: int, goes: bool) -> None:
        self.everybody()
        self.world.effects_left = after
        if goes:
            self._come_or_go(number)
        else:
            self.clients[number].beat()
        self.world.effects_left = None
        self.everybody()

    @rule()
    def restart(self) -> None:
        self.world.start()

    @precondition(lambda self: self.partitions < 8)
    @rule()
    def grow(self) -> None:
        self.partitions += 1
        self.world.topics.create(TOPIC, self.partitions)
        self.world.coordinator.topics_changed(frozenset({TOPIC}))

    @invariant()
    def nothing_has_two_owners(self) -> None:
        owned = [(one, client.name) for client in self.clients for one in client.owns()]
        assert len({one for one, _ in owned}) == len(owned), sorted(owned)

    @invariant()
    def the_log_says_what_memory_says(self) -> None:
        group = self.group()
        if group is None or group.unsure:
            return
        written = {}
        for _, batch in self.world.batches:
            written.update(batch)
        written = {key: value for key, value in written.items() if value is not None}
        kept = [key for key in group.record_keys() if group.record_value(key) is not None]
        if group.epoch > 1:
            expected = {key: group.record_value(key) for key in kept}
            expected = {key: value for key, value in expected.items() if key in written or _has_one(group, key)}
            assert written == expected

    def teardown(self) -> None:
        """Whoever is there comes to rest: every partition has one owner, and none has two more than another."""
        self.world.advance(SESSION_MS * 3)
        for _ in range(12):
            for client in self.clients[:3]:
                client.beat()
            self.nothing_has_two_owners()
            self.world.advance(INTERVAL_MS)
        loads = [len(client.has) for client in self.clients[:3]]
        assert sum(loads) == self.partitions and max(loads) - min(loads) <= 1, loads
        assert self.group().state_name == "Stable"
        _is_loaded_alike(self.world, self.group())


def _has_one(group: ConsumerGroup, key: bytes) -> bool:
    """Whether there should be a record: not of a target that never was worked out."""
    name = records.read_name(key)
    return not (name.kind == records.TARGET_EPOCH and group.target_epoch == 0)


def _is_loaded_alike(world: World, group: ConsumerGroup) -> None:
    """A successor knows the same."""
    world.table = MemoryTable()
    successor = world.successor()
    successor.open(world.partition, 1, Now(0, 0))
    for _, batch in world.batches:
        successor.load(world.partition, batch)
    successor.loaded(world.partition, Now(0, 0))
    found = successor._shards[world.partition].groups[GROUP]
    assert (found.members, found.targets, found.owners) == (group.members, group.targets, group.owners)
    assert (found.epoch, found.target_epoch, found.target_ms) == (group.epoch, group.target_epoch, group.target_ms)


Groups.TestCase.settings = settings(
    max_examples=400 if os.environ.get("LONG") else 20,
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
TestGroups = Groups.TestCase


def test_a_member_that_may_be_gone_by_the_log_reads_nothing_before_it_is_written_again():
    """Its leave was answered with a timeout, and is in the log; its next heartbeat changes nothing."""
    play = Groups()
    for _ in range(3):
        play.everybody()
    assert play.clients[0].has
    play.fail(code=ErrorCode.REQUEST_TIMED_OUT, number=0, written=True)
    assert play.clients[0].has
    play.restart()
    play.beat(number=1, times=1)
    play.nothing_has_two_owners()
    play.teardown()
