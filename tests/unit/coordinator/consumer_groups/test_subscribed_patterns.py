"""When patterns are looked up, in which slices, and what becomes of a group when they stand for other topics."""

from types import SimpleNamespace

import pytest

from mpbroker.coordinator.consumer_groups import subscribed_patterns
from mpbroker.coordinator.consumer_groups.change import Change
from mpbroker.coordinator.consumer_groups.consumer_group import ConsumerGroup
from mpbroker.coordinator.consumer_groups.consumer_member import ConsumerMember
from mpbroker.coordinator.consumer_groups.consumer_records import Resolved
from mpbroker.coordinator.consumer_groups.subscribed_patterns import (
    MIN_REFRESH_MS,
    PAUSE_MS,
    Changed,
    follow,
    pattern_refusal,
)
from mpbroker.coordinator.effects import Now
from mpbroker.coordinator.environment import Counts
from mpbroker.errors import ErrorCode
from tests.harness.group_world import MemoryTopics

REFRESH_MS, NOW = 60_000, Now(1000, 500_000)
OLD = Resolved(frozenset({"t"}), 1, NOW.wall_ms - MIN_REFRESH_MS)


class World:
    """A group of one member with a pattern, among three topics."""

    def __init__(self, monkeypatch, pattern="t.*"):
        self.topics, self.timers, self.committed = MemoryTopics(), [], []
        for name in ("t", "tu", "v"):
            self.topics.create(name, 1)
        env = SimpleNamespace(
            topics=self.topics,
            counts=Counts(),
            timers=SimpleNamespace(at=lambda ms, call, *words: self.timers.append((ms, call, words))),
            settings=SimpleNamespace(regex_refresh_interval_ms=REFRESH_MS),
        )
        self.group = ConsumerGroup("g", self.topics, env.counts)
        self.group.set_member("m", ConsumerMember("m", pattern=pattern))
        self.shard = SimpleNamespace(env=env, is_open=True, groups={"g": self.group})
        monkeypatch.setattr(
            subscribed_patterns,
            "commit",
            lambda shard, change, token, now, then: self.committed.append((change.records, token)),
        )

    def follow(self, before, after, now=NOW):
        change = Change(self.group)
        return follow(self.shard, change, before, after, now), change

    def run(self, now=NOW):
        """The next timer."""
        ms, call, words = self.timers.pop(0)
        call(*words, now)
        return ms

    @property
    def rebalances(self):
        return self.shard.env.counts.rebalances


@pytest.fixture
def world(monkeypatch):
    return World(monkeypatch)


def member(pattern):
    return ConsumerMember("m", pattern=pattern)


@pytest.mark.parametrize(
    ("before", "after", "resolved", "expected"),
    [
        ("t.*", "t.*", {}, Changed.NOT),
        ("", "", {}, Changed.NOT),
        ("", "t.*", {}, Changed.TO_UNKNOWN),
        ("", "t.*", {"t.*": OLD}, Changed.TO_KNOWN),
        ("v", "t.*", {"t.*": OLD}, Changed.TO_KNOWN),
        ("v", "t.*", {"v": OLD}, Changed.TO_UNKNOWN),
        ("v", "", {}, Changed.TO_KNOWN),
        ("v", None, {}, Changed.TO_KNOWN),
        (None, "", {}, Changed.TO_UNKNOWN),
    ],
)
def test_what_became_of_a_members_pattern(world, before, after, resolved, expected):
    world.group.resolved.update(resolved)
    assert world.follow(member(before), member(after))[0] is expected


def test_what_a_pattern_stood_for_goes_with_its_last_member(world):
    world.group.resolved.update({"v": OLD, "t.*": OLD})
    _, change = world.follow(member("v"), member("t.*"))
    assert set(world.group.resolved) == {"t.*"} and [value for _, value in change.records] == [None]
    world.group.set_member("n", ConsumerMember("n", pattern="t.*"))
    _, change = world.follow(member("t.*"), member("v"))
    assert set(world.group.resolved) == {"t.*"} and change.records == [], "another one has it"


@pytest.mark.parametrize(
    ("pattern", "resolved_ms", "needs_resolving", "is_due"),
    [
        ("", None, True, False),
        ("t.*", None, False, True),
        ("t.*", 0, True, False),
        ("t.*", MIN_REFRESH_MS, True, False),
        ("t.*", MIN_REFRESH_MS + 1, True, True),
        ("t.*", MIN_REFRESH_MS + 1, False, False),
        ("t.*", REFRESH_MS, False, False),
        ("t.*", REFRESH_MS + 1, False, True),
    ],
)
def test_patterns_are_looked_up_at_first_and_when_they_are_old(
    monkeypatch, pattern, resolved_ms, needs_resolving, is_due
):
    world = World(monkeypatch, pattern)
    world.group.needs_resolving = needs_resolving
    if resolved_ms is not None:
        world.group.resolved[pattern] = Resolved(frozenset(), 1, NOW.wall_ms - resolved_ms)
    world.follow(member(pattern), member(pattern))
    assert (len(world.timers), world.group.is_resolving) == (is_due, is_due)
    world.follow(member(pattern), member(pattern))
    assert len(world.timers) == is_due, "once"


@pytest.mark.parametrize(("age_ms", "is_due"), [(MIN_REFRESH_MS, False), (MIN_REFRESH_MS + 1, True)])
def test_a_pattern_that_was_never_looked_up_waits_for_the_least_interval(world, age_ms, is_due):
    world.group.resolved["v"] = Resolved(frozenset(), 1, NOW.wall_ms - age_ms)
    world.group.set_member("n", ConsumerMember("n", pattern="v"))
    world.follow(member("t.*"), member("t.*"))
    assert bool(world.timers) is is_due


def test_what_was_found_is_recorded_in_one_change(world):
    world.group.needs_resolving = True
    world.follow(member("t.*"), member("t.*"))
    assert world.run(Now(1001, 500_001)) == NOW.ms
    assert (world.group.is_resolving, world.group.needs_resolving) == (False, False)
    assert world.group.resolved == {"t.*": Resolved(frozenset({"t", "tu"}), 3, 500_001)}
    assert (world.group.epoch, world.rebalances) == (2, 1)
    [(written, token)] = world.committed
    assert len(written) == 2 and token is None, "the pattern and the epoch"


@pytest.mark.parametrize(
    ("topics", "has_hash", "epoch"),
    [({"t", "tu"}, True, 1), ({"t", "tu"}, False, 2), ({"t"}, True, 2)],
    ids=["as before", "a topic is another", "a topic more"],
)
def test_the_epoch_rises_for_other_topics_alone(world, topics, has_hash, epoch):
    world.group.resolved["t.*"] = Resolved(frozenset({"t", "tu"}), 1, 5)
    world.group.metadata_hash = world.group.present_hash() if has_hash else 77
    world.group.resolved["t.*"] = Resolved(frozenset(topics), 1, 5)
    world.follow(member("t.*"), member("t.*"))
    world.run()
    assert (world.group.epoch, world.rebalances) == (epoch, epoch - 1)
    assert world.group.resolved["t.*"].ms == NOW.wall_ms, "and it was looked up now"


def test_what_nobody_wants_any_more_is_not_recorded(world):
    world.follow(member("t.*"), member("t.*"))
    world.group.set_member("m", ConsumerMember("m"))
    world.group.metadata_hash = 77
    world.run()
    assert (world.group.resolved, world.group.epoch, world.committed) == ({}, 1, [([], None)])


def test_while_a_record_is_on_its_way_the_result_waits(world):
    world.follow(member("t.*"), member("t.*"))
    world.group.is_recording = True
    world.run()
    [(request, then)] = world.group.waiting
    assert request is None and not world.committed and not world.group.is_resolving
    then(NOW)
    assert len(world.committed) == 1


@pytest.mark.parametrize("why", ["closed", "forgotten", "another group"])
def test_a_group_that_is_gone_is_not_looked_at(world, why):
    world.follow(member("t.*"), member("t.*"))
    world.shard.is_open = why != "closed"
    world.shard.groups = {"g": object()} if why == "another group" else {} if why == "forgotten" else world.shard.groups
    world.run()
    assert not world.committed and not world.group.resolved and world.group.is_resolving


@pytest.mark.parametrize(("steps", "pauses"), [(10_000, 0), (28, 0), (27, 1), (11, 1), (10, 2), (8, 3), (5, 4), (1, 6)])
def test_slow_patterns_are_looked_up_in_slices(world, monkeypatch, steps, pauses):
    """What one pattern took counts for the next; between two slices others are served."""
    monkeypatch.setattr(subscribed_patterns, "SLICE_STEPS", steps)
    world.group.set_member("n", ConsumerMember("n", pattern="v"))
    world.follow(member("t.*"), member("t.*"))
    at_ms, made = [], 0
    while world.timers:
        at_ms.append(world.run(Now(2000 + made, 500_000 + made)))
        made += 1
    assert (len(at_ms) - 1, at_ms[1:]) == (pauses, [2000 + number + PAUSE_MS for number in range(pauses)])
    assert {name: set(one.topics) for name, one in world.group.resolved.items()} == {"t.*": {"t", "tu"}, "v": {"v"}}
    assert len(world.committed) == 1


def test_a_pattern_of_another_broker_that_cannot_be_read_stands_for_nothing(monkeypatch):
    world = World(monkeypatch, "(?=x)")
    world.follow(member("(?=x)"), member("(?=x)"))
    world.run()
    assert world.group.resolved == {"(?=x)": Resolved(frozenset(), 3, NOW.wall_ms)}


@pytest.mark.parametrize(
    ("pattern", "is_refused"), [("", False), (None, False), ("t+", False), ("(", True), ("(?=x)", False)]
)
def test_a_pattern_that_somebody_has_is_not_looked_at(monkeypatch, pattern, is_refused):
    world = World(monkeypatch, "(?=x)")
    found = pattern_refusal(world.group, pattern)
    assert (found is not None) is is_refused
    if found is not None:
        assert found.code == ErrorCode.INVALID_REGULAR_EXPRESSION
        assert found.sentence.startswith("SubscribedTopicRegex `(` is not a valid regular expression: ")
