"""Who leads a partition that nobody has led yet."""

from types import SimpleNamespace

import pytest

from mpbroker.cluster.cluster_image import NO_LEADER, Assignment, Partition, PartitionId
from mpbroker.cluster.leader_election import (
    Surroundings,
    first_state,
    narrowed_state,
    next_state,
    preferred_state,
    reassigned_state,
    unclean_state,
)
from mpbroker.metadata.cluster_records import PartitionRecord

REPLICAS = Assignment((3, 1, 2))


@pytest.mark.parametrize(
    ("live", "stopping", "leader", "in_sync"),
    [
        ((1, 2, 3), (), 3, [3, 1, 2]),
        ((1, 2), (), 1, [1, 2]),
        ((1, 2, 3), (3,), 1, [1, 2]),  # who is about to stop is not given what it would have to give away
        ((2, 3), (2, 3), 3, [3, 2]),  # but better than nobody
        ((4,), (), None, None),
    ],
)
def test_the_first_live_replica_that_stays_leads(live, stopping, leader, in_sync):
    state = first_state(REPLICAS, Surroundings(dict.fromkeys(live), stopping, 7))
    if leader is None:
        assert state is None
    else:
        assert (state.leader, state.leader_epoch, state.isr, state.controller_epoch) == (leader, 0, in_sync, 7)


WRITTEN = 50  # the revision of a state: who registered later has been away since
ALL = {1: 10, 2: 20, 3: 30}


def around(live=ALL, stopping=(), unclean_start=(), unclean=False):
    """`live`: broker → the epoch of its registration; `unclean_start`: whose machine failed."""
    brokers = {
        broker: SimpleNamespace(epoch=epoch, record=SimpleNamespace(unclean=broker in unclean_start))
        for broker, epoch in live.items()
    }
    return Surroundings(brokers, stopping, 7, unclean)


def partition(leader, *isr, epoch=4, recovering=False):
    return Partition(PartitionRecord(leader, epoch, list(isr), 6, recovering), 2, WRITTEN)


def found(record):
    """(leader, leader epoch, ISR, recovering), all of this controller."""
    if record is None:
        return None
    assert record.controller_epoch == 7
    return record.leader, record.leader_epoch, record.isr, record.recovering


@pytest.mark.parametrize(
    ("state", "options", "expected"),
    [
        (partition(3, 3, 1, 2), {}, None),
        (partition(1, 3, 1, 2), {}, None),
        (partition(3, 3, 1, 2), {"live": {1: 10, 2: 20}}, (1, 5, [1, 2], False)),
        (partition(3, 3, 1, 2), {"live": {1: 10, 3: 30}}, (3, 5, [3, 1], False)),
        (partition(3, 3, 1, 2, recovering=True), {"live": {3: 30}}, (3, 5, [3], True)),
        (partition(3, 3, 1, 2), {"stopping": (3,)}, (1, 5, [1, 2], False)),
        (partition(3, 3, 1, 2), {"stopping": (2,)}, (3, 5, [3, 1], False)),
        (partition(3, 3), {"stopping": (3,)}, None),
        (partition(3, 3, 1), {"stopping": (1, 3)}, None),
        (partition(3, 3, 1, 2), {"live": {**ALL, 3: 51}}, (1, 5, [1, 2], False)),
        (partition(3, 3, 1, 2), {"live": {**ALL, 3: 50}}, None),
        (partition(3, 3, 1, 2), {"live": {**ALL, 2: 51}}, (3, 5, [3, 1], False)),
        (partition(3, 3, 1), {"live": {1: 51, 3: 51}}, (3, 5, [3, 1], False)),
        (partition(3, 3, 1), {"live": {1: 51, 3: 51}, "unclean_start": (3,)}, (1, 5, [1], False)),
        (partition(3, 3, 1), {"live": {1: 51, 3: 51}, "unclean_start": (1, 3)}, (3, 5, [3, 1], False)),
        (partition(3, 3, 1), {"live": {3: 51}, "unclean_start": (3,)}, (NO_LEADER, 5, [1], False)),
        (partition(3, 3, 1), {"live": {3: 51}}, (3, 5, [3], False)),
        (partition(3, 3, 1), {"live": {2: 20}}, (NO_LEADER, 5, [3, 1], False)),
        (partition(NO_LEADER, 3, 1), {"live": {2: 20}}, None),
        (partition(NO_LEADER, 3, 1), {"live": {2: 20}, "unclean": True}, (2, 5, [2], True)),
        (partition(NO_LEADER, 3, 1), {"live": {}, "unclean": True}, None),
        (partition(NO_LEADER, 3, 1), {"live": {2: 20}, "unclean": True, "stopping": (2,)}, None),
        (partition(NO_LEADER, 3, 1), {"live": {1: 60}}, (1, 5, [1], False)),
        (partition(NO_LEADER, 3, 1), {"live": {3: 60}, "unclean_start": (3,)}, (NO_LEADER, 5, [1], False)),
        (partition(4, 4), {"live": {4: 10}}, None),
    ],
)
def test_what_follows_from_who_lives_and_who_was_away(state, options, expected):
    assert found(next_state(state, REPLICAS, around(**options))) == expected


@pytest.mark.parametrize(
    ("assignment", "isr", "options", "leads"),
    [
        (REPLICAS, (3, 1), {}, 3),
        (REPLICAS, (1, 2), {}, None),
        (REPLICAS, (3, 1), {"live": {1: 10}}, None),
        (REPLICAS, (3, 1), {"stopping": (3,)}, None),
        (Assignment((3, 1, 2), removing=(3,)), (3, 1), {}, 1),
        (Assignment((3, 1), removing=(3, 1)), (3, 1), {}, 3),
    ],
)
def test_the_preferred_one_leads_if_it_can(assignment, isr, options, leads):
    state = preferred_state(partition(1, *isr, recovering=True), assignment, around(**options))
    assert found(state) == (None if leads is None else (leads, 5, list(isr), True))


@pytest.mark.parametrize(
    ("options", "leads"), [({}, 3), ({"live": {1: 10, 2: 20}}, 1), ({"stopping": (3, 1)}, 2), ({"live": {4: 9}}, None)]
)
def test_any_replica_leads_alone(options, leads):
    state = unclean_state(partition(NO_LEADER, 9), REPLICAS, around(**options))
    assert found(state) == (None if leads is None else (leads, 5, [leads], True))


MOVING = Assignment((1, 2, 3), adding=(1, 2), removing=(3,))


@pytest.mark.parametrize(
    ("state", "assignment", "options", "expected"),
    [
        (partition(3, 3, 1, 2), MOVING, {}, (1, 5, [1, 2], False)),
        (partition(2, 3, 1, 2), MOVING, {}, (2, 5, [1, 2], False)),
        (partition(1, 1, 2), MOVING, {}, (1, 5, [1, 2], False)),
        (partition(3, 3, 1, 2), MOVING, {"stopping": (1,)}, (2, 5, [1, 2], False)),
        (partition(2, 3, 1, 2), MOVING, {"stopping": (2,)}, (1, 5, [1, 2], False)),
        (partition(3, 3, 1, 2), MOVING, {"stopping": (1, 2)}, None),
        (partition(3, 3, 1), MOVING, {}, None),
        (partition(NO_LEADER, 3, 1, 2), MOVING, {}, None),
        (partition(3, 3), Assignment((3,), removing=(3,)), {}, None),
    ],
)
def test_a_move_ends_when_all_of_its_target_are_in_sync(state, assignment, options, expected):
    assert found(reassigned_state(state, assignment, around(**options))) == expected


@pytest.mark.parametrize(
    ("state", "replicas", "options", "expected"),
    [
        (partition(3, 3, 1, 2), (1, 2, 3), {}, (3, 5, [3, 1, 2], False)),
        (partition(3, 3, 1, 2), (2, 1), {}, (2, 5, [1, 2], False)),
        (partition(3, 3, 1, 2), (2, 1), {"stopping": (2,)}, (1, 5, [1, 2], False)),
        (partition(3, 3, 1, 2), (2, 1), {"stopping": (1, 2)}, None),
        (partition(3, 3, 1, 2), (4,), {}, None),
        (partition(NO_LEADER, 3, 1), (1,), {}, (NO_LEADER, 5, [1], False)),
        (partition(3, 3, 1), (4, 1), {"live": {4: 5}}, None),
    ],
)
def test_a_move_begins_without_those_that_are_no_replicas_any_more(state, replicas, options, expected):
    assert found(narrowed_state(state, Assignment(replicas), around(**options))) == expected


def test_who_cannot_serve_a_partition_is_as_good_as_dead_for_it_alone():
    one, other = PartitionId(b"t" * 16, 0), PartitionId(b"t" * 16, 1)
    seen = around()._replace(offline={one: {3, 9}, other: set()})
    assert set(seen.of(one).brokers) == {1, 2} and seen.of(other) is seen
    assert [seen.of(one).can_lead(broker) for broker in (1, 3)] == [True, False] and seen.can_lead(3)
