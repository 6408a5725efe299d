"""InitProducerId with a transactional id: a producer starts, and everything before it is over. Coordinator process."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from mpbroker.coordinator.effects import GroupRequest, Now
from mpbroker.coordinator.transactions.transaction import State, Transaction
from mpbroker.coordinator.transactions.transaction_answers import append_error, failure
from mpbroker.coordinator.transactions.transaction_shard import Entry, TransactionShard
from mpbroker.coordinator.transactions.transitions import Producer, Step, create, init, needs_new_id
from mpbroker.errors import ErrorCode
from mpbroker.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse


def handle(shard: TransactionShard, request: GroupRequest, message: InitProducerIdRequest, now: Now) -> None:
    """Answer with id and epoch when they are recorded."""
    if not 0 < message.transaction_timeout_ms <= shard.env.settings.max_timeout_ms:
        refuse(shard, request, ErrorCode.INVALID_TRANSACTION_TIMEOUT)
        return
    entry = shard.entries.get(message.transactional_id or "")
    if shard.partition in request.appended and entry is not None and entry.found.state is State.EMPTY:
        _answer(shard, request, entry.found)  # an earlier run recorded it
    elif entry is None:
        _create(shard, request, message, now)
    elif entry.is_moving:
        refuse(shard, request, ErrorCode.CONCURRENT_TRANSACTIONS)
    elif needs_new_id(entry.found, _expected(message)):
        with_new_id(shard, request, entry, now, partial(_init, shard, request, message, entry))
    else:
        _init(shard, request, message, entry, -1, now)


def refuse(shard: TransactionShard, request: GroupRequest, code: int) -> None:
    """Answer with an error alone."""
    shard.env.answer(request.token, failure(request, code))


def _expected(message: InitProducerIdRequest) -> Producer:
    return Producer(message.producer_id, message.producer_epoch)


def _answer(shard: TransactionShard, request: GroupRequest, found: Transaction) -> None:
    shard.env.answer(request.token, InitProducerIdResponse(producer_id=found.producer_id, producer_epoch=found.epoch))


def _create(shard: TransactionShard, request: GroupRequest, message: InitProducerIdRequest, now: Now) -> None:
    """An id that nobody knows. Another request may have made it while a producer id was fetched."""
    name = message.transactional_id or ""

    def then(producer_id: int | None, later: Now) -> None:
        if not shard.is_open:
            refuse(shard, request, ErrorCode.NOT_COORDINATOR)
            return
        if producer_id is None:
            refuse(shard, request, ErrorCode.COORDINATOR_NOT_AVAILABLE)
            return
        if name in shard.entries:
            handle(shard, request, message, later)
            return
        entry = shard.add(create(name, producer_id, later.wall_ms))
        if entry is None:
            refuse(shard, request, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        else:
            _init(shard, request, message, entry, -1, later)

    shard.env.take_producer_id(now, then)


def with_new_id(
    shard: TransactionShard, request: GroupRequest, entry: Entry, now: Now, go_on: Callable[[int, Now], None]
) -> None:
    """Call `go_on` with a new producer id; until there is one the transactional id is moving. Without one the request
    is refused."""
    entry.is_moving = True

    def then(producer_id: int | None, later: Now) -> None:
        entry.is_moving = False
        if not shard.is_open:
            refuse(shard, request, ErrorCode.NOT_COORDINATOR)
        elif producer_id is None:
            refuse(shard, request, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        else:
            go_on(producer_id, later)

    shard.env.take_producer_id(now, then)


def _init(
    shard: TransactionShard,
    request: GroupRequest,
    message: InitProducerIdRequest,
    entry: Entry,
    new_id: int,
    now: Now,
) -> None:
    version = shard.env.feature_level()
    step = init(entry.found, _expected(message), message.transaction_timeout_ms, new_id, now.wall_ms, version)
    if step.next is None:
        refuse(shard, request, step.code)
    elif step.code == ErrorCode.NONE:
        _record(shard, request, entry, step.next, now)
    else:
        _fence(shard, request, entry, step, now)


def _record(shard: TransactionShard, request: GroupRequest, entry: Entry, found: Transaction, now: Now) -> None:
    def then(code: int, later: Now) -> None:
        if code == ErrorCode.NONE:
            _answer(shard, request, found)
        else:
            refuse(shard, request, append_error(code))

    shard.record(entry, found, request.token, now, then)


def _fence(shard: TransactionShard, request: GroupRequest, entry: Entry, step: Step, now: Now) -> None:
    """The transaction of an older producer is aborted first. Its record has no cell: a second run of the request sees
    from the state how far this went."""
    assert step.next is not None

    def then(code: int, later: Now) -> None:
        refuse(shard, request, step.code if code == ErrorCode.NONE else append_error(code))
        if code == ErrorCode.NONE:
            shard.send_markers(entry)

    shard.record(entry, step.next, None, now, then)
