"""What InitProducerId makes of a transactional id: of each producer that may ask, in each state (KIP-360)."""

import pytest

from mpbroker.coordinator.transactions.transaction import (
    EXHAUSTED_EPOCH,
    NO_EPOCH,
    NO_ID,
    PREPARED,
    RAISES_EPOCHS,
    State,
    Transaction,
)
from mpbroker.coordinator.transactions.transitions import Producer, end, end_raising, init, verify
from mpbroker.errors import ErrorCode

OLD, PRESENT, NEW, STRANGER = 3, 5, 9, 77
FENCED = ErrorCode.PRODUCER_FENCED


def found(epoch=4, last_epoch=3, **how):
    return Transaction("id", PRESENT, epoch, last_epoch=last_epoch, previous_producer_id=OLD, **how)


def outcome(transaction, expected):
    step = init(transaction, expected, 1000, NEW, 50, RAISES_EPOCHS)
    after = step.next
    return step.code if after is None else (after.producer_id, after.epoch, after.last_epoch)


@pytest.mark.parametrize(
    "expected, outcome_of",
    [
        (Producer(), (PRESENT, 5, NO_EPOCH)),
        (Producer(PRESENT, 4), (PRESENT, 5, 4)),
        (Producer(PRESENT, 3), (PRESENT, 4, 3)),  # it did not hear the answer
        (Producer(PRESENT, 2), FENCED),
        (Producer(PRESENT, 5), FENCED),
        (Producer(STRANGER, 4), FENCED),
        (Producer(STRANGER, EXHAUSTED_EPOCH), FENCED),
        (Producer(OLD, 3), FENCED),  # an epoch with which it did not change its id
        (Producer(OLD, EXHAUSTED_EPOCH - 1), FENCED),
    ],
)
def test_which_producer_goes_on_and_with_what(expected, outcome_of):
    assert outcome(found(), expected) == outcome_of


def test_who_did_not_hear_of_its_new_id_hears_it_again():
    changed = found(epoch=0, last_epoch=EXHAUSTED_EPOCH)
    assert outcome(changed, Producer(OLD, EXHAUSTED_EPOCH)) == (PRESENT, 0, EXHAUSTED_EPOCH)
    assert outcome(changed, Producer(STRANGER, EXHAUSTED_EPOCH)) == FENCED


def test_an_id_without_an_epoch_is_anybodys():
    assert outcome(found(NO_EPOCH, NO_EPOCH), Producer(STRANGER, 7)) == (PRESENT, 0, NO_EPOCH)


@pytest.mark.parametrize(
    "epoch, expected, outcome_of",
    [
        (EXHAUSTED_EPOCH - 1, Producer(PRESENT, EXHAUSTED_EPOCH - 1), (PRESENT, EXHAUSTED_EPOCH, EXHAUSTED_EPOCH - 1)),
        (EXHAUSTED_EPOCH, Producer(PRESENT, EXHAUSTED_EPOCH), (NEW, 0, EXHAUSTED_EPOCH)),
        (EXHAUSTED_EPOCH, Producer(), (NEW, 0, NO_EPOCH)),
        (EXHAUSTED_EPOCH, Producer(PRESENT, 3), (PRESENT, EXHAUSTED_EPOCH, 3)),
        (EXHAUSTED_EPOCH, Producer(PRESENT, 2), FENCED),
    ],
)
def test_who_has_used_up_its_epochs_gets_another_id(epoch, expected, outcome_of):
    assert outcome(found(epoch), expected) == outcome_of


@pytest.mark.parametrize("state", sorted(PREPARED, key=lambda state: state.value))
def test_while_an_end_is_written_nothing_begins(state):
    assert outcome(found(state=state), Producer()) == ErrorCode.CONCURRENT_TRANSACTIONS
    assert outcome(found(state=state), Producer(STRANGER, 4)) == FENCED


def test_what_began_has_nothing_of_what_was():
    had = found(state=State.COMPLETE_ABORT, partitions=frozenset({("t", 0)}), start_ms=7, next_producer_id=NEW)
    after = init(had, Producer(), 1000, NEW, 50, RAISES_EPOCHS).next
    assert (after.state, after.partitions, after.start_ms) == (State.EMPTY, frozenset(), -1)
    assert (after.timeout_ms, after.last_update_ms) == (1000, 50)
    assert (after.previous_producer_id, after.next_producer_id) == (OLD, NO_ID)
    moved = init(found(EXHAUSTED_EPOCH), Producer(), 1000, NEW, 50, RAISES_EPOCHS).next
    assert moved.previous_producer_id == PRESENT


@pytest.mark.parametrize("version, last_epoch", [(0, NO_EPOCH), (1, NO_EPOCH), (RAISES_EPOCHS, 4), (3, 4)])
def test_who_takes_over_an_open_transaction_waits_and_fences(version, last_epoch):
    """The fenced one may go on with the raised epoch only where each end of a transaction raises it."""
    step = init(found(state=State.ONGOING, start_ms=7), Producer(), 1000, NEW, 50, version)
    assert step.code == ErrorCode.CONCURRENT_TRANSACTIONS
    assert (step.next.state, step.next.epoch, step.next.last_epoch) == (State.PREPARE_ABORT, 5, last_epoch)


@pytest.mark.parametrize(
    "producer, state, code",
    [
        (Producer(PRESENT, 4), State.ONGOING, ErrorCode.NONE),
        (Producer(PRESENT, 4), State.PREPARE_COMMIT, ErrorCode.CONCURRENT_TRANSACTIONS),
        (Producer(PRESENT, 3), State.PREPARE_COMMIT, FENCED),
        (Producer(STRANGER, 4), State.PREPARE_ABORT, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
    ],
)
def test_who_is_no_producer_of_it_hears_that_first(producer, state, code):
    assert verify(found(state=state), producer) == code


def test_an_end_of_version_1_is_one_whatever_came_before():
    """A repeat of an end is looked for where its producer speaks version 2."""
    step = end(found(state=State.ONGOING, client_version=RAISES_EPOCHS), Producer(PRESENT, 4), True, 50)
    assert (step.next.state, step.next.client_version, step.next.epoch) == (State.PREPARE_COMMIT, 0, 4)


@pytest.mark.parametrize(
    "epoch, producer, version, code",
    [
        (5, Producer(PRESENT, 4), RAISES_EPOCHS, ErrorCode.NONE),
        (5, Producer(PRESENT, 4), RAISES_EPOCHS - 1, FENCED),
        (6, Producer(PRESENT, 4), RAISES_EPOCHS, FENCED),
        (0, Producer(OLD, EXHAUSTED_EPOCH), RAISES_EPOCHS, ErrorCode.NONE),
        (1, Producer(OLD, EXHAUSTED_EPOCH), RAISES_EPOCHS, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        (0, Producer(OLD, EXHAUSTED_EPOCH - 1), RAISES_EPOCHS, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        (0, Producer(STRANGER, EXHAUSTED_EPOCH), RAISES_EPOCHS, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
    ],
)
def test_a_repeated_end_is_told_by_the_epoch_that_the_first_one_gave(epoch, producer, version, code):
    ended = found(epoch, state=State.COMPLETE_COMMIT, client_version=version)
    step = end_raising(ended, producer, True, NEW, 50)
    assert (step.code, step.next) == (code, None)
