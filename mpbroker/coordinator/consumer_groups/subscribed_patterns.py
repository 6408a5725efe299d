"""Which topics the patterns of a group's members stand for, and when that is looked up. In the coordinator process.

A pattern is looked up behind the heartbeat that brought it, in slices, so that a slow one holds nobody up; then the
group's epoch rises, and the next heartbeat brings partitions. Again when topics were made or deleted, and every
`group.consumer.regex.refresh.interval.ms`; not more often than every MIN_REFRESH_MS.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum

from mpbroker.coordinator.consumer_groups.change import Change, commit
from mpbroker.coordinator.consumer_groups.consumer_group import ConsumerGroup
from mpbroker.coordinator.consumer_groups.consumer_member import ConsumerMember
from mpbroker.coordinator.consumer_groups.consumer_records import Resolved
from mpbroker.coordinator.consumer_groups.refusal import Refusal
from mpbroker.coordinator.consumer_groups.topic_pattern import BadPattern, TopicPattern
from mpbroker.coordinator.effects import Now
from mpbroker.coordinator.shard import Shard
from mpbroker.errors import ErrorCode

MIN_REFRESH_MS = 10_000
SLICE_STEPS = 50_000  # some ten milliseconds
PAUSE_MS = 1


class Changed(Enum):
    """What became of a member's pattern."""

    NOT = 0
    TO_UNKNOWN = 1  # to one that has to be looked up
    TO_KNOWN = 2  # to one whose topics are known, or to none


def pattern_refusal(group: ConsumerGroup, pattern: str | None) -> Refusal | None:
    """Why a pattern cannot be subscribed to; one that somebody has can."""
    if not pattern or group.patterns()[pattern]:
        return None
    try:
        TopicPattern(pattern)
    except BadPattern as error:
        sentence = f"SubscribedTopicRegex `{pattern}` is not a valid regular expression: {error}."
        return Refusal(ErrorCode.INVALID_REGULAR_EXPRESSION, sentence)
    return None


def follow(shard: Shard, change: Change, before: ConsumerMember, member: ConsumerMember, now: Now) -> Changed:
    """A member of the group came from `before` to this: see to its pattern, and look up what is due."""
    group, found = change.group, Changed.NOT
    if member.pattern != before.pattern:
        found = Changed.TO_UNKNOWN
        if before.pattern and not group.patterns()[before.pattern]:
            change.set_resolved(before.pattern, None)
        if (before.pattern and not member.pattern) or (member.pattern and member.pattern in group.resolved):
            found = Changed.TO_KNOWN
    if not group.is_resolving and _is_due(shard, group, now):
        group.is_resolving = True
        shard.env.timers.at(now.ms, _begin, shard, group)
    return found


def _is_due(shard: Shard, group: ConsumerGroup, now: Now) -> bool:
    if not group.patterns():
        return False
    last_ms = min((one.ms for one in group.resolved.values()), default=None)
    if last_ms is None:
        return True
    is_missing = any(pattern not in group.resolved for pattern in group.patterns())
    age_ms = now.wall_ms - last_ms
    if age_ms <= MIN_REFRESH_MS:
        return False
    return is_missing or group.needs_resolving or age_ms > shard.env.settings.regex_refresh_interval_ms


def _begin(shard: Shard, group: ConsumerGroup, now: Now) -> None:
    group.needs_resolving = False
    _go_on(shard, group, _looked_up(shard, group), {}, now)


def _go_on(
    shard: Shard,
    group: ConsumerGroup,
    work: Iterator[tuple[str, frozenset[str]] | None],
    found: dict[str, Resolved],
    now: Now,
) -> None:
    """One slice; in the end what was found is recorded."""
    if not shard.is_open or shard.groups.get(group.id) is not group:
        return
    for step in work:
        if step is None:
            shard.env.timers.at(now.ms + PAUSE_MS, _go_on, shard, group, work, found)
            return
        pattern, topics = step
        found[pattern] = Resolved(topics, shard.env.topics.generation, now.wall_ms)
    group.is_resolving = False
    if group.is_recording:
        group.waiting.append((None, lambda later: _record(shard, group, found, later)))
    else:
        _record(shard, group, found, now)


def _looked_up(shard: Shard, group: ConsumerGroup) -> Iterator[tuple[str, frozenset[str]] | None]:
    """Pattern after pattern with its topics; None: let others work."""
    names = sorted(topic.name for topic in shard.env.topics.topics())
    steps = 0
    for pattern in list(group.patterns()):
        try:
            matcher = TopicPattern(pattern)
        except BadPattern:  # of a group that came from Kafka, whose syntax has more
            yield pattern, frozenset()
            continue
        topics = []
        for name in names:
            if matcher.matches(name):
                topics.append(name)
            if matcher.steps + steps >= SLICE_STEPS:
                matcher.steps = steps = 0
                yield None
        steps += matcher.steps
        yield pattern, frozenset(topics)


def _record(shard: Shard, group: ConsumerGroup, found: dict[str, Resolved], now: Now) -> None:
    with Change(group) as change:
        is_other = False
        for pattern, resolved in found.items():
            if group.patterns()[pattern]:
                old = group.resolved.get(pattern)
                is_other |= (old.topics if old is not None else frozenset()) != resolved.topics
                change.set_resolved(pattern, resolved)
        if is_other or (change.records and group.present_hash() != group.metadata_hash):
            change.raise_epoch()
            shard.env.counts.rebalances += 1
    commit(shard, change, None, now, lambda code, later: None)
