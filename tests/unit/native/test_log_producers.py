"""Producers of a partition whose numbers are 0, whose transactions are over, and that are more than one look finds."""

import pytest

from mpbroker import _native
from mpbroker._native import NO_REQUEST, READ_TO_END, LogOptions
from mpbroker.errors import ErrorCode
from mpbroker.record.batch_builder import encode_batch
from mpbroker.shm.layout import ReplicaRole
from tests.harness.no_memory import leaves_nothing, refuse_each
from tests.harness.one_thread import one_thread
from tests.harness.small_core import small_core

TOPIC_ID = bytes(range(16))
ROW, OWN, OTHER = 3, 1, 2
RECORDS = [(b"k", b"v", 70), (b"k", b"w", 71)]


class World:
    """A leader of one partition, in a row that is not the first."""

    def __init__(self, path, isr=(OWN,)):
        small = small_core(replicated=True)
        small.core.transactions_ready = 1
        self.log = _native.Log(small.core, [str(path)], 118)
        assert self.log.create(ROW, TOPIC_ID, 0, ROW, 0, "t-3", 0, 1) == 0
        assert self.log.become(ROW, ReplicaRole.LEADER, 1, 1, [OWN, OTHER], list(isr), OWN, 1, 0, leader=OWN) == 0

    def put(self, producer, epoch, sequence=0, **more):
        fields = {"producer_id": producer, "producer_epoch": epoch, "base_sequence": sequence} | more
        return self.log.append(ROW, NO_REQUEST, 0, encode_batch(RECORDS, **fields), LogOptions(), 80).error

    def put_transactional(self, producer, epoch, sequence=0):
        assert self.log.verify(ROW, producer, epoch) == 0
        assert self.put(producer, epoch, sequence, transactional=True) == 0

    def end(self, producer, epoch, commit=True, coordinator=44, now_ms=85):
        return self.log.append_marker(ROW, producer, epoch, coordinator, commit, LogOptions(), now_ms).error


@pytest.fixture
def world(tmp_path):
    made = World(tmp_path)
    yield made
    made.log.close()


@pytest.mark.parametrize("producer", [0, 1, 1 << 62])
@pytest.mark.parametrize("epoch", [0, 1, 32766])
def test_numbers_that_a_producer_may_have(world, producer, epoch):
    """0 is one of them: in a batch, in a transaction, in its marker."""
    world.put_transactional(producer, epoch)
    assert world.log.open_transactions(ROW) == (0, [(producer, epoch, -1, 0, 80, 71)])
    assert world.log.producer_entries(ROW) == (2, [(producer, epoch, 1, 1, 1, 71, -1, 0)])
    assert world.log.producers(ROW) == (2, [(producer, epoch, 0, 1, 0, 1, 71)])
    assert world.end(producer, epoch, coordinator=0) == 0
    assert world.log.open_transactions(ROW) == (3, [])
    assert world.log.producer_entries(ROW) == (3, [(producer, epoch, 1, 1, 1, 85, 0, -1)])
    assert world.end(producer, epoch - 1 if epoch else 0, coordinator=0) == (47 if epoch else 0)


@pytest.mark.parametrize(("producer", "epoch"), [(-1, 0), (0, -1), (-1, -1), (-(1 << 63), 5)])
def test_numbers_that_no_marker_has(world, producer, epoch):
    with pytest.raises(ValueError, match="^a marker has a producer's id and epoch$"):
        world.end(producer, epoch)
    assert world.log.state(ROW).leo == 0


def test_batches_of_an_epoch_below_the_markers_are_as_good_as_none(world):
    """A transaction that timed out is ended in an epoch that its producer has not."""
    world.put_transactional(7, 2)
    assert world.end(7, 3, commit=False) == 0
    assert world.log.producer_entries(ROW) == (3, [(7, 3, -1, -1, 0, 85, 44, -1)])
    world.put_transactional(7, 3)
    assert world.log.producer_entries(ROW)[1] == [(7, 3, 1, 4, 1, 71, 44, 3)]
    assert world.log.open_transactions(ROW) == (3, [(7, 3, 44, 3, 80, 71)])


@pytest.mark.parametrize("epoch", [0, 3])
def test_a_producer_of_whom_a_transaction_alone_is_known(world, epoch):
    """No batch of its own is: what stands where one would be is none's."""
    assert world.log.load_transactions(ROW, [(95, epoch, 45, 2, 86)]) == 0
    assert world.log.producer_entries(ROW)[1] == [(95, epoch, -1, -1, 0, 86, 45, 2)]
    assert world.log.open_transactions(ROW)[1] == [(95, epoch, 45, 2, 86, 86)]
    assert world.log.producers(ROW)[1] == []


def test_what_recovery_found_undecided(tmp_path):
    """A transaction whose marker is above the high watermark holds back who reads what is stable."""
    world = World(tmp_path, (OWN, OTHER))
    for _ in range(3):
        assert world.put(-1, -1, -1) == 0

    def fetched(offset):
        assert world.log.follower_fetched(ROW, OTHER, 9, 1, offset, 1, 0, 60)[0] == 0
        state = world.log.state(ROW)
        return state.hw, state.lso, world.log.find(ROW, 0, _native.READ_TO_STABLE, 1 << 20)[1].last_stable

    assert fetched(2) == (2, 2, 2)
    assert world.log.load_ended(ROW, [(0, 2), (1, 5), (3, 6)]) == 0
    found = [fetched(offset) for offset in (3, 4, 5, 6)]
    assert found == [(3, 1, 1), (4, 1, 1), (5, 3, 3), (6, 6, 6)], "one that ended at 2 was decided"
    world.log.close()


def test_what_recovery_cannot_have_found(world):
    for wrong in ([(0,)], [(0, 5), None], [(0, 9), ("x", 1)]):
        with pytest.raises(TypeError):
            world.log.load_ended(ROW, wrong)


@pytest.mark.parametrize("number", [2, 65])
@one_thread
def test_what_was_aborted_is_let_go_of(world, number):
    """The list, and the memory for more than 64."""
    for sequence in range(0, 2 * number, 2):
        world.put_transactional((1 << 40) + sequence, 500)
        assert world.end((1 << 40) + sequence, 500, commit=False) == 0
    plan = world.log.find(ROW, 0, READ_TO_END, 1 << 20)[1]
    error, rows = world.log.aborted(plan, 0)
    assert error == 0 and rows == [((1 << 40) + 2 * one, 3 * one) for one in range(number)]
    assert refuse_each(lambda: world.log.aborted(plan, 0)) > number
    leaves_nothing(lambda: refuse_each(lambda: world.log.aborted(plan, 0)), [world.log, plan, None])


@pytest.mark.parametrize("number", [1, 70])
def test_a_plan_that_a_truncation_overtook_knows_of_no_aborted_ones(world, number):
    for sequence in range(0, 2 * number, 2):
        world.put_transactional(9 + sequence, 5)
        assert world.end(9 + sequence, 5, commit=False) == 0
    plan = world.log.find(ROW, 0, READ_TO_END, 1 << 20)[1]
    assert len(world.log.aborted(plan, 0)[1]) == number and world.log.aborted(plan, 3 * number) == (0, [])
    assert world.log.truncate(ROW, 0) == 0
    assert world.log.aborted(plan, 0) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, [])
