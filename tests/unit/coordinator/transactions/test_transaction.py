"""A transaction as a value: whose turn is next, when its time is over, when it may be forgotten, Kafka's numbers."""

import pytest

from mpbroker.coordinator.transactions.transaction import (
    EXHAUSTED_EPOCH,
    LAST_EPOCH,
    NO_EPOCH,
    NO_ID,
    NO_TIME,
    State,
    Transaction,
)


def test_numbers_of_states_and_bounds_are_kafkas():
    assert [(one.value, one.label) for one in State] == [
        (0, "Empty"),
        (1, "Ongoing"),
        (2, "PrepareCommit"),
        (3, "PrepareAbort"),
        (4, "CompleteCommit"),
        (5, "CompleteAbort"),
        (6, "Dead"),
        (7, "PrepareEpochFence"),
    ]
    assert (LAST_EPOCH, EXHAUSTED_EPOCH, NO_EPOCH, NO_ID, NO_TIME) == (32767, 32766, -1, -1, -1)


def test_of_a_new_one_nothing_is_known():
    new = Transaction("tx", 7)
    assert new == Transaction("tx", 7, -1, 0, State.EMPTY, frozenset(), -1, -1, -1, -1, -1, 0)
    with pytest.raises(AttributeError):
        new.epoch = 3


@pytest.mark.parametrize(
    ("fields", "successor"), [({}, (7, 3)), ({"next_producer_id": 9}, (9, 0)), ({"previous_producer_id": 9}, (7, 3))]
)
def test_with_what_the_producer_goes_on(fields, successor):
    assert Transaction("tx", 7, 3, **fields).successor == successor


@pytest.mark.parametrize(("epoch", "is_exhausted"), [(0, False), (32765, False), (32766, True), (32767, True)])
def test_the_last_epoch_is_no_producers(epoch, is_exhausted):
    assert Transaction("tx", 7, epoch).is_exhausted is is_exhausted


@pytest.mark.parametrize(
    ("state", "is_committed", "may_be_over", "rests"),
    [
        (State.EMPTY, False, False, True),
        (State.ONGOING, False, True, False),
        (State.PREPARE_COMMIT, True, False, False),
        (State.PREPARE_ABORT, False, False, False),
        (State.COMPLETE_COMMIT, True, False, True),
        (State.COMPLETE_ABORT, False, False, True),
        (State.DEAD, False, False, False),
    ],
)
def test_what_each_state_means(state, is_committed, may_be_over, rests):
    found = Transaction("tx", 7, 3, timeout_ms=100, state=state, start_ms=5000, last_update_ms=5000)
    assert found.is_committed is is_committed and found.over_time_ms == 5101
    assert [found.is_over_time(now_ms) for now_ms in (5100, 5101, 5102)] == [False, may_be_over, may_be_over]
    assert [found.is_unused(now_ms, 300) for now_ms in (4800, 5299, 5300, 5301)] == [False, False, rests, rests]
