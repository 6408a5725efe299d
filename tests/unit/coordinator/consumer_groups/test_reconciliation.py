"""What a member may have next: each way from what it has to what it is to have, with the epochs that come of it."""

import pytest

from mpbroker.coordinator.consumer_groups.consumer_member import ConsumerMember, MemberState
from mpbroker.coordinator.consumer_groups.reconciliation import holds, reconciled

T, U = b"t" * 16, b"u" * 16
STABLE, UNREVOKED, UNRELEASED = MemberState.STABLE, MemberState.UNREVOKED_PARTITIONS, MemberState.UNRELEASED_PARTITIONS
BOTH = frozenset({T, U})
NOBODYS = {}
TARGET = {T: frozenset({0, 1}), U: frozenset({5})}


def member(state=STABLE, epoch=4, **fields):
    return ConsumerMember("m", epoch, epoch - 1, state, **fields)


def after(one, *, target_epoch=5, target=TARGET, subscribed=BOTH, owners=NOBODYS, held=None, changed=False):
    """(epoch, the one before, state, assigned, revoking); None: it is the same member."""
    found = reconciled(one, target_epoch, target, subscribed, lambda *partition: owners.get(partition), held, changed)
    if found is one:
        return None
    return found.epoch, found.previous_epoch, found.state, found.assigned, found.revoking


@pytest.mark.parametrize(
    ("held", "owned", "holds_some"),
    [
        (None, {}, True),
        (None, {T: {0: 4}}, True),
        ({}, {T: {0: 4}}, False),
        ({T: [1]}, {T: {0: 4}}, False),
        ({T: [1, 0]}, {T: {0: 4}}, True),
        ({U: [0]}, {T: {0: 4}}, False),
    ],
)
def test_who_does_not_say_what_it_has_may_have_anything(held, owned, holds_some):
    assert holds(held, owned) is holds_some


def test_a_stable_member_of_this_epoch_stays_as_it_is():
    one = member(epoch=5, assigned={T: {0: 3}})
    assert after(one) is None
    assert after(one, changed=True) is None, "it wants what it has"


@pytest.mark.parametrize(
    ("held", "expected"),
    [
        (None, (5, 5, UNREVOKED, {T: {0: 3}}, {U: {5: 4, 6: 2}})),
        ({U: [6]}, (5, 5, UNREVOKED, {T: {0: 3}}, {U: {5: 4, 6: 2}})),
        ({T: [0]}, (5, 5, STABLE, {T: {0: 3}}, {})),
    ],
    ids=["says nothing", "has one still", "has given it back"],
)
def test_what_is_not_wanted_any_more_is_given_back_without_a_new_target(held, expected):
    one = member(epoch=5, assigned={T: {0: 3}, U: {5: 4, 6: 2}})
    assert after(one, subscribed=frozenset({T}), held=held, changed=True) == expected
    assert after(one, subscribed=frozenset({T}), held=held, changed=False) is None


def test_while_it_gives_back_it_may_have_to_give_back_more():
    one = member(UNREVOKED, assigned={T: {0: 3}, U: {5: 4}}, revoking={T: {1: 2}, U: {6: 1}})
    assert after(one) is None and after(one, held={T: [1]}) is None
    found = after(one, subscribed=frozenset({T}), changed=True)
    assert found == (4, 4, UNREVOKED, {T: {0: 3}}, {T: {1: 2}, U: {5: 4, 6: 1}})
    assert after(one, subscribed=frozenset({T}), held={T: [1]}, changed=True) == found


@pytest.mark.parametrize(
    ("state", "fields", "options", "expected"),
    [
        (STABLE, {}, {}, (5, 4, STABLE, {T: {0: 5, 1: 5}, U: {5: 5}}, {})),
        (STABLE, {"assigned": {T: {0: 3}}}, {}, (5, 4, STABLE, {T: {0: 3, 1: 5}, U: {5: 5}}, {})),
        (STABLE, {}, {"subscribed": frozenset({U})}, (5, 4, STABLE, {U: {5: 5}}, {})),
        (STABLE, {"assigned": {T: {0: 3}}}, {"owners": {(T, 1): "x"}}, (5, 4, UNRELEASED, {T: {0: 3}, U: {5: 5}}, {})),
        (STABLE, {}, {"owners": {(T, 1): "m"}}, (5, 4, STABLE, {T: {0: 5, 1: 5}, U: {5: 5}}, {})),
        (STABLE, {"assigned": {T: {0: 3, 7: 2}}}, {}, (4, 4, UNREVOKED, {T: {0: 3}}, {T: {7: 2}})),
        (STABLE, {"assigned": {T: {0: 3, 7: 2}}}, {"held": {T: [7]}}, (4, 4, UNREVOKED, {T: {0: 3}}, {T: {7: 2}})),
        (
            STABLE,
            {"assigned": {T: {0: 3, 7: 2}}},
            {"held": {T: [0]}},
            (5, 4, STABLE, {T: {0: 3, 1: 5}, U: {5: 5}}, {}),
        ),
        (
            UNREVOKED,
            {"assigned": {T: {0: 3}}, "revoking": {U: {6: 1}}},
            {"held": {T: [0]}},
            (5, 4, STABLE, {T: {0: 3, 1: 5}, U: {5: 5}}, {}),
        ),
        (UNRELEASED, {"assigned": {T: {0: 3}}}, {}, (5, 4, STABLE, {T: {0: 3, 1: 5}, U: {5: 5}}, {})),
        (
            UNRELEASED,
            {"epoch": 5, "assigned": {T: {0: 5}}},
            {"owners": {(T, 1): "x", (U, 5): "y"}},
            (5, 5, UNRELEASED, {T: {0: 5}}, {}),
        ),
        (
            MemberState.UNKNOWN,
            {"assigned": {T: {0: 3, 7: 2}}},
            {},
            (5, 4, UNREVOKED, {T: {0: 3}}, {T: {7: 2}}),
        ),
    ],
)
def test_on_the_way_to_a_target(state, fields, options, expected):
    assert after(member(state, **fields), **options) == expected
