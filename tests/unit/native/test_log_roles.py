"""Roles, their lists of brokers and their proposals: as many as there may be, changed as often as a controller does."""

import pytest

from mpbroker import _native
from mpbroker.record.batch_builder import encode_batch
from mpbroker.shm.counters import Counter
from mpbroker.shm.layout import ReplicaRole
from tests.harness.no_memory import leaves_nothing, refuse_each
from tests.harness.one_thread import one_thread
from tests.harness.small_core import small_core

TOPIC_ID = bytes(range(16))
MOST, OWN = 16, 1000
ROW = 3
OPTIONS = _native.LogOptions()
BATCH = encode_batch([(b"k", b"v", 70), (b"k", b"w", 71)])


@pytest.fixture
def log(tmp_path):
    """A log whose row 3 is about a partition, with a row 0 that is about another one."""
    made = _native.Log(small_core(replicated=True).core, [str(tmp_path)], 118)
    for row in (0, ROW):
        assert made.create(row, bytes([row]) * 16, 0, row, 0, f"t-{row}", 0, 1) == 0
    yield made
    made.close()


def become(log, epoch, replicas, isr, role=ReplicaRole.LEADER, leader=OWN, row=ROW):
    return log.become(row, role, epoch, epoch + 20, replicas, isr, OWN, 2, 50, leader)


def test_as_many_replicas_as_there_may_be(log):
    """Again and again: the list before is not read behind this one's end."""
    for epoch in range(1, 5):
        brokers = [OWN, *range(epoch * 100, epoch * 100 + MOST - 1)]
        assert become(log, epoch, brokers, brokers[::-1]) == 0
        state = log.replica_state(ROW)
        assert state.replicas == state.isr == state.maximal_isr == tuple(brokers)
        for wrong in (([*brokers, 5000], brokers), (brokers, [*brokers, 5000])):
            with pytest.raises(ValueError, match="^at most 16 replicas$"):
                become(log, epoch + 1, *wrong)


def test_lists_that_change_with_each_epoch(log):
    """Who follows is named by the list in force, whichever of the two places it stands in."""
    for epoch in range(1, 8):
        other = 2000 + epoch
        replicas = [other, OWN, 3000] if epoch % 2 else [OWN, 4000, other]
        assert become(log, epoch, replicas, [OWN]) == 0
        if epoch == 1:
            assert log.append(ROW, _native.NO_REQUEST, 0, BATCH, OPTIONS, 80).error == 0
        assert log.follower_fetched(ROW, other, 70 + epoch, epoch, 2, 1, 0, 60 + epoch)[4], "it may be in sync"
        state = log.replica_state(ROW)
        assert (state.replicas, state.isr) == (tuple(replicas), (OWN,))
        assert set(state.maximal_isr) == {OWN, other}
        assert state.followers == ((other, 2, 60 + epoch, 70 + epoch),)
        [(row, leader_epoch, partition_epoch, isr)] = log.take_isr_proposals()[0]
        assert (row, leader_epoch, partition_epoch, set(isr)) == (ROW, epoch, epoch + 20, {OWN, other})
        assert log.isr_answered(ROW, epoch, epoch + 21, list(isr), 0) == 0
        assert set(log.replica_state(ROW).isr) == {OWN, other} and log.replica_state(ROW).partition_epoch == epoch + 21
        assert log.replica_state(0).role == ReplicaRole.NONE


@pytest.mark.parametrize("role", [-1, 2, 3, 1 << 30])
def test_what_is_no_role(log, role):
    with pytest.raises(ValueError, match=f"^one becomes leader or follower, not {role}$"):
        become(log, 1, [OWN], [OWN], role)
    assert log.replica_state(ROW).leader_epoch == 0


def test_what_a_follower_takes_over_with_batches(log):
    """The leader's high watermark and log start, in the epoch and at the end that it fetched for."""
    assert become(log, 6, [OWN, 7], [7], ReplicaRole.FOLLOWER, 7) == 0
    batch = encode_batch([(b"k", b"v", 70), (b"k", b"w", 71)], leader_epoch=6)
    assert log.append_follower(ROW, 5, 0, batch, 1, 0, OPTIONS, 80)[0] == 74
    assert log.append_follower(ROW, 6, 1, batch, 1, 0, OPTIONS, 80)[0] == 1
    assert log.append_follower(ROW, 6, 0, batch, 2, 1, OPTIONS, 80) == (0, 1, 2, 2, 6, 1)
    state = log.state(ROW)
    assert (state.leo, state.hw, state.log_start, state.log_bytes) == (2, 2, 1, len(batch))
    later = encode_batch([(b"k", b"v", 72)], leader_epoch=6, base_offset=2)
    cut = later + later[:-1]
    assert log.append_follower(ROW, 6, 2, cut, 2, 1, _native.LogOptions(segment_bytes=len(batch)), 99) == (
        0, 1, 3, 2, 6, 1
    )  # fmt: skip
    assert log.segments(ROW) == [0, 2] and log.state(ROW).segment_created_ms == 99
    assert log.truncate_follower(ROW, 2, 5, 7) == 74 and log.truncate_follower(ROW, 2, 6, 7) == 0
    assert log.state(ROW).leo == 2
    assert log.start_at(ROW, 50, 5, 7) == 74 and log.start_at(ROW, 50, 6, 123) == 0
    state = log.state(ROW)
    assert (state.leo, state.log_start, state.segment_created_ms) == (50, 50, 123)


@one_thread
def test_answers_about_brokers_whose_numbers_python_does_not_keep(log):
    assert become(log, 1, [OWN, 2000, 3000], [OWN, 2000]) == 0
    assert log.follower_fetched(ROW, 3000, 1 << 40, 1, 0, 0, 0, 60)[4]
    for work, least in (
        (lambda: log.replica_state(ROW), 12),
        (lambda: log.take_isr_proposals(again=True), 6),
    ):
        before = work()
        assert refuse_each(work) >= least
        leaves_nothing(lambda work=work: refuse_each(work), [log, None, (), False, True])
        assert work() == before


def test_whose_counters_a_log_counts_in(tmp_path):
    """Those of slot 0 unless another is told."""
    for slot in (None, 0, 7, 127):
        (tmp_path / str(slot)).mkdir()
        small = small_core(replicated=True)
        log = _native.Log(small.core, [str(tmp_path / str(slot))], *(() if slot is None else (slot,)))
        assert log.create(0, TOPIC_ID, 0, 0, 0, "t-0", 0, 1) == 0
        with small.held(0):
            assert log.stop(0) == 7
        counted = [at for at in range(128) if _native.ProcessRow(small.core, at).counter(Counter.LOG_LOCKS_BUSY)]
        assert counted == [slot or 0]
        log.close()
