"""What a replica is told to be: an older leader epoch, or another role in the same one, is refused."""

import pytest

from mpbroker.errors import ErrorCode
from mpbroker.shm.layout import ReplicaRole
from tests.unit.log.log_world import LogWorld


@pytest.fixture
def world(tmp_path):
    made = LogWorld(tmp_path, replicated=True)
    yield made
    made.close()


def become(world, role, epoch):
    leads = role == ReplicaRole.LEADER
    return world.log.become(0, role, epoch, epoch, [1, 2], [1] if leads else [], 1, 1, 0, leader=1 if leads else 2)


@pytest.mark.parametrize(
    ("role", "epoch", "error"),
    [
        (ReplicaRole.LEADER, 4, ErrorCode.FENCED_LEADER_EPOCH),
        (ReplicaRole.FOLLOWER, 4, ErrorCode.FENCED_LEADER_EPOCH),
        (ReplicaRole.FOLLOWER, 5, ErrorCode.FENCED_LEADER_EPOCH),
        (ReplicaRole.LEADER, 5, ErrorCode.NONE),
        (ReplicaRole.FOLLOWER, 6, ErrorCode.NONE),
    ],
)
def test_what_comes_late_is_refused(world, role, epoch, error):
    world.create()
    assert become(world, ReplicaRole.LEADER, 5) == 0
    assert become(world, role, epoch) == error
    now = world.log.state(0)
    assert (now.role, now.leader_epoch) == ((ReplicaRole.LEADER, 5) if error else (role, epoch))


def test_the_state_of_replicas_is_told(world):
    world.create()
    assert become(world, ReplicaRole.LEADER, 5) == 0
    state = world.log.replica_state(0)
    assert (state.replicas, state.isr, state.maximal_isr, state.min_isr) == ((1, 2), (1,), (1,), 1)
