"""Who leads a partition that nobody has led yet."""

import pytest

from mpbroker.cluster.cluster_image import Assignment
from mpbroker.cluster.leader_election import Surroundings, first_state

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
