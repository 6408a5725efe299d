"""What a replica is told to be: an older leader epoch, or another role in the same one, is refused."""

import pytest

from mpbroker._native import LAYOUT
from mpbroker.errors import ErrorCode
from mpbroker.shm.layout import ReplicaRole
from tests.unit.log.log_world import LogWorld

KEPT_EPOCHS = LAYOUT["kept_epochs"]


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


def test_a_new_log_is_nobodys_until_it_is_told_whose(world):
    world.create()
    state = world.log.replica_state(0)
    assert (state.role, state.leader, state.leader_epoch, state.isr) == (ReplicaRole.NONE, -1, 0, ())


def test_every_number_of_the_state_is_its_own(world):
    """Led since epoch 5; 9 has just caught up, and 7, which had, began anew; 1 stands between them."""
    partition = world.create()

    def lead(epoch, partition_epoch, isr, min_isr):
        assert world.log.become(0, ReplicaRole.LEADER, epoch, partition_epoch, [7, 1, 9], isr, 1, min_isr, 3000) == 0

    lead(5, 11, [7, 1], 1)
    for _ in range(8):
        world.append(partition)
    lead(6, 13, [7, 1], 2)
    world.append(partition, 3)
    for broker, broker_epoch, offset, now_ms in ((7, 70, 11, 4000), (9, 90, 11, 5000), (7, 72, 10, 4800)):
        assert world.log.follower_fetched(0, broker, broker_epoch, 6, offset, -1, 0, now_ms)[0] == 0
    assert world.log.delete_records(0, 4, partition.topic_id)[0] == 0
    state = world.log.replica_state(0)
    numbers = (ReplicaRole.LEADER, 1, 6, 5, 13, 8, 4, 11, 11, 2)
    followers = ((7, 10, 4000, 72), (9, 11, 5000, 90))  # end, when it had caught up, broker epoch
    assert tuple(state) == (*numbers, (7, 1, 9), (7, 1), (7, 1, 9), followers)
    assert (state.role, state.leader, state.leader_epoch, state.leader_since) == numbers[:4]
    assert (state.partition_epoch, state.epoch_start, state.log_start) == numbers[4:7]
    assert (state.leo, state.hw, state.min_isr, state.followers) == (*numbers[7:], followers)


@pytest.mark.parametrize("replicas", [(0, 1), (1, 0), tuple(range(16)), tuple(reversed(range(16)))])
def test_the_replicas_are_those_of_the_last_assignment(world, replicas):
    """Of as many as there may be, broker 0 too; each assignment is written beside the one before."""
    world.create()
    assert world.log.replica_state(0).replicas == ()
    for epoch, given in enumerate((replicas, replicas[::-1], replicas), 5):
        assert world.log.become(0, ReplicaRole.LEADER, epoch, epoch, given, (1,), 1, 1, 0) == 0
        state = world.log.replica_state(0)
        assert (state.replicas, state.isr, state.maximal_isr) == (given, (1,), (1,))


@pytest.mark.parametrize("count", [0, 1, KEPT_EPOCHS, KEPT_EPOCHS + 1, 3 * KEPT_EPOCHS + 5])
def test_a_start_brings_the_epochs_of_the_file_and_no_role(world, count):
    """Memory keeps the last of them and knows that all are written down: there is room for the next one."""
    world.create()
    assert become(world, ReplicaRole.LEADER, 5) == 0
    starts = [(10 + number, 100 * number) for number in range(count)]
    assert world.log.load_epochs(0, starts) == 0
    state = world.log.replica_state(0)
    assert (state.role, state.leader, state.isr, state.maximal_isr) == (ReplicaRole.NONE, -1, (), ())
    assert world.log.epochs(0) == (count, count > KEPT_EPOCHS, starts[-KEPT_EPOCHS:])
    assert become(world, ReplicaRole.LEADER, 10 + count) == 0
    assert world.log.epochs(0) == (count + 1, count >= KEPT_EPOCHS, [(10 + count, 0)]), "the log is empty"


def test_a_broker_alone_has_no_replicas(tmp_path):
    alone = LogWorld(tmp_path)
    alone.create()
    assert alone.log.replica_state(0) is None and not alone.log.is_replicated()
    assert alone.log.load_epochs(0, [(1, 0)]) == ErrorCode.INVALID_REQUEST
    alone.close()
