"""Whether a partition's state makes this broker its leader, since when, and with how many replicas behind it."""

from types import SimpleNamespace

import pytest

from mpbroker.log.leadership import is_led_since, is_under_min_isr, led_since
from mpbroker.shm.layout import ReplicaRole


@pytest.mark.parametrize("role", list(ReplicaRole))
@pytest.mark.parametrize(("epoch", "is_since"), [(4, False), (5, True), (6, True)])
def test_who_took_the_lead_later_has_not_led_since_then(role, epoch, is_since):
    state = SimpleNamespace(role=int(role), leader_since=5)
    assert is_led_since(state, epoch) is (is_since and role == ReplicaRole.LEADER)


@pytest.mark.parametrize(("maximal_isr", "is_under"), [(0, True), (0b100, True), (0b101, False), (1 << 40 | 6, False)])
def test_replicas_that_are_in_sync_are_counted_and_not_their_numbers(maximal_isr, is_under):
    assert is_under_min_isr(SimpleNamespace(maximal_isr=maximal_isr, min_isr=2)) is is_under


@pytest.mark.parametrize("role", list(ReplicaRole))
@pytest.mark.parametrize(("in_cluster", "since"), [(True, 5), (False, 7)])
def test_since_which_epoch_a_broker_leads(role, in_cluster, since):
    """Alone, it leads what it has since its last epoch: nobody says since when."""
    state = SimpleNamespace(role=int(role), leader_since=5, leader_epoch=7)
    assert led_since(state, in_cluster) == (since if role == ReplicaRole.LEADER else None)
    assert led_since(None, in_cluster) is None
