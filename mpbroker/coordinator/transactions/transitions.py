"""What may follow a transaction's state: Kafka's rules as pure functions, without log, clock or markers.

Each takes the present state of a transactional id and an event, and says what is answered and which state is to be
recorded, if any. Nothing is in force before its record is.
"""

from __future__ import annotations

from typing import NamedTuple

from msgspec.structs import replace

from mpbroker.coordinator.transactions.transaction import (
    EXHAUSTED_EPOCH,
    NO_EPOCH,
    NO_ID,
    NO_TIME,
    PREPARED,
    RAISES_EPOCHS,
    RESTING,
    Partition,
    State,
    Transaction,
)
from mpbroker.errors import ErrorCode


class Step(NamedTuple):
    """`code`: for the client. `next`: what to record, None: nothing. With both, the client hears the code when the
    record is there."""

    code: int
    next: Transaction | None = None


class Producer(NamedTuple):
    """What a request says of its producer."""

    id: int = NO_ID
    epoch: int = NO_EPOCH


def create(transactional_id: str, producer_id: int, now_ms: int) -> Transaction:
    """A transactional id that is heard of for the first time; its first InitProducerId gives it epoch 0."""
    return Transaction(transactional_id, producer_id, last_update_ms=now_ms)


# InitProducerId


def needs_new_id(found: Transaction, expected: Producer) -> bool:
    """Whether the next InitProducerId changes the producer id, because its epochs are used up."""
    is_current = expected.epoch in (NO_EPOCH, found.epoch)
    return found.state in RESTING and found.is_exhausted and is_current


def init(found: Transaction, expected: Producer, timeout_ms: int, new_id: int, now_ms: int, version: int) -> Step:
    """A producer starts, or starts again. `expected`: what it thinks it has (KIP-360). `new_id`: used if
    `needs_new_id`. `version`: of transactions, that of the cluster."""
    if expected.id != NO_ID and not _is_valid(found, expected):
        return Step(ErrorCode.PRODUCER_FENCED)
    if found.state in PREPARED:
        return Step(ErrorCode.CONCURRENT_TRANSACTIONS)
    if found.state is State.ONGOING:
        return Step(ErrorCode.CONCURRENT_TRANSACTIONS, fence(found, now_ms, version))
    if needs_new_id(found, expected):
        last = found.epoch if expected.epoch != NO_EPOCH else NO_EPOCH
        return Step(ErrorCode.NONE, _begun(found, new_id, 0, last, timeout_ms, now_ms))
    return _raise_epoch(found, expected, timeout_ms, now_ms)


def _is_valid(found: Transaction, expected: Producer) -> bool:
    """Whether a producer with this id may still be this one."""
    if found.epoch == NO_EPOCH or expected.id == found.producer_id:
        return True
    was_before = expected.id == found.previous_producer_id
    return was_before and Transaction("", expected.id, expected.epoch).is_exhausted


def _raise_epoch(found: Transaction, expected: Producer, timeout_ms: int, now_ms: int) -> Step:
    if expected.epoch == NO_EPOCH:
        epoch, last = found.epoch + 1, NO_EPOCH
    elif found.epoch in (NO_EPOCH, expected.epoch):
        epoch, last = found.epoch + 1, found.epoch
    elif expected.epoch == found.last_epoch:  # it did not hear the answer
        epoch, last = found.epoch, found.last_epoch
    else:
        return Step(ErrorCode.PRODUCER_FENCED)
    return Step(ErrorCode.NONE, _begun(found, found.producer_id, epoch, last, timeout_ms, now_ms))


def _begun(found: Transaction, producer_id: int, epoch: int, last: int, timeout_ms: int, now_ms: int) -> Transaction:
    return replace(
        found,
        producer_id=producer_id,
        previous_producer_id=found.producer_id if producer_id != found.producer_id else found.previous_producer_id,
        next_producer_id=NO_ID,
        epoch=epoch,
        last_epoch=last,
        timeout_ms=timeout_ms,
        state=State.EMPTY,
        partitions=frozenset(),
        start_ms=NO_TIME,
        last_update_ms=now_ms,
    )


def fence(found: Transaction, now_ms: int, version: int) -> Transaction:
    """The ongoing transaction is aborted by somebody else than its producer, whose epoch is over with that. From
    version 2 on it may go on with the raised one if it asks for it."""
    last = found.epoch if version >= RAISES_EPOCHS else NO_EPOCH
    return replace(found, epoch=found.epoch + 1, last_epoch=last, state=State.PREPARE_ABORT, last_update_ms=now_ms)


# partitions


def add_partitions(
    found: Transaction, producer: Producer, partitions: frozenset[Partition], now_ms: int, version: int
) -> Step:
    """The producer is going to write to these, in its version of transactions."""
    code = _producer_error(found, producer)
    if code != ErrorCode.NONE:
        return Step(code)
    if found.state in PREPARED:
        return Step(ErrorCode.CONCURRENT_TRANSACTIONS)
    if found.state is State.ONGOING and partitions <= found.partitions:
        return Step(ErrorCode.NONE)
    is_on = found.state is State.ONGOING
    added = replace(
        found,
        state=State.ONGOING,
        partitions=(found.partitions | partitions) if is_on else partitions,
        start_ms=found.start_ms if is_on else now_ms,
        last_update_ms=now_ms,
        client_version=version,
    )
    return Step(ErrorCode.NONE, added)


def _producer_error(found: Transaction, producer: Producer) -> int:
    if found.producer_id != producer.id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    return ErrorCode.NONE if found.epoch == producer.epoch else ErrorCode.PRODUCER_FENCED


def verify(found: Transaction, producer: Producer) -> int:
    """Whether the producer is in a transaction; which partitions take part says the transaction."""
    code = _producer_error(found, producer)
    if code == ErrorCode.NONE and found.state in PREPARED:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    return code


# the end


def end(found: Transaction, producer: Producer, committed: bool, now_ms: int) -> Step:
    """The producer's decision, in the protocol's version 1."""
    code = _producer_error(found, producer)
    if code != ErrorCode.NONE:
        return Step(code)
    prepare = State.PREPARE_COMMIT if committed else State.PREPARE_ABORT
    if found.state is State.ONGOING:
        return Step(ErrorCode.NONE, replace(found, state=prepare, last_update_ms=now_ms, client_version=0))
    if found.state is prepare:
        return Step(ErrorCode.CONCURRENT_TRANSACTIONS)
    is_done = found.state is _complete(prepare)
    return Step(ErrorCode.NONE if is_done else ErrorCode.INVALID_TXN_STATE)


def end_raising(found: Transaction, producer: Producer, committed: bool, new_id: int, now_ms: int) -> Step:
    """The producer's decision in version 2: whoever ends a transaction goes on with the next epoch, so that nothing
    late of this one can be taken for the next one's. `new_id`: used if the epochs are used up. A repeat, of which the
    next epoch tells, hears what the first one heard; an abort of nothing raises the epoch too."""
    is_repeat = _is_repeated_end(found, producer)
    if found.producer_id != producer.id and not is_repeat:
        return Step(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if is_repeat and found.state in (State.ONGOING, State.EMPTY):
        return Step(ErrorCode.PRODUCER_FENCED)  # the producer has gone on since, or somebody else in its place
    if found.epoch != producer.epoch and not is_repeat:
        return Step(ErrorCode.PRODUCER_FENCED)
    prepare = State.PREPARE_COMMIT if committed else State.PREPARE_ABORT
    if found.state in PREPARED:
        is_same = found.state is prepare
        return Step(ErrorCode.CONCURRENT_TRANSACTIONS if is_same else ErrorCode.INVALID_TXN_STATE)
    if is_repeat:
        is_done = found.state is _complete(prepare)
        return Step(ErrorCode.NONE if is_done else ErrorCode.INVALID_TXN_STATE)
    if committed and found.state is not State.ONGOING:
        return Step(ErrorCode.INVALID_TXN_STATE)
    return Step(ErrorCode.NONE, _prepared(found, prepare, new_id, now_ms))


def _is_repeated_end(found: Transaction, producer: Producer) -> bool:
    if found.client_version < RAISES_EPOCHS:
        return False
    if found.producer_id == producer.id:
        return found.epoch == producer.epoch + 1
    has_new_id = found.previous_producer_id == producer.id and found.epoch == 0
    return has_new_id and producer.epoch == EXHAUSTED_EPOCH


def _prepared(found: Transaction, prepare: State, new_id: int, now_ms: int) -> Transaction:
    return replace(
        found,
        state=prepare,
        epoch=found.epoch + 1,
        last_epoch=found.epoch,
        next_producer_id=new_id if found.is_exhausted else NO_ID,
        start_ms=found.start_ms if found.state is State.ONGOING else now_ms,
        last_update_ms=now_ms,
        client_version=RAISES_EPOCHS,
    )


def complete(found: Transaction, now_ms: int) -> Transaction:
    """All markers of a prepared transaction are written."""
    producer_id, epoch = found.successor
    has_new_id = producer_id != found.producer_id
    return replace(
        found,
        state=_complete(found.state),
        producer_id=producer_id,
        epoch=epoch,
        previous_producer_id=found.producer_id if has_new_id else found.previous_producer_id,
        next_producer_id=NO_ID,
        partitions=frozenset(),
        last_update_ms=now_ms,
    )


def _complete(prepare: State) -> State:
    return State.COMPLETE_COMMIT if prepare is State.PREPARE_COMMIT else State.COMPLETE_ABORT
