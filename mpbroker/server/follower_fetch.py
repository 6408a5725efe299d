"""What a follower's Fetch means to the leader, partition by partition. Runs in request handlers of a cluster's broker.

That it asks for an offset says that it has everything below: its position counts for the high watermark and the ISR, in
one native call under the partition's lock, which first fences it by leader epoch and compares its last epoch with this
log (KIP-101, KIP-320, KIP-595). Once for each request: a fetch that is answered from the purgatory says nothing new.
"""

from __future__ import annotations

from typing import Protocol

from mpbroker.errors import ErrorCode
from mpbroker.log.leader_epochs import NOT_KNOWN, UNDEFINED, EpochEnd
from mpbroker.metadata.metadata_cache import Topic
from mpbroker.protocol.messages.fetch import FetchPartition, FetchRequest
from mpbroker.server.server_context import ServerContext


class Found(Protocol):
    """What is needed of replica_read's PartitionRead."""

    ordinal: int
    error: int
    diverging: EpochEnd | None
    high_watermark: int
    last_stable_offset: int
    log_start: int
    leader_epoch: int


def replica_of(message: FetchRequest) -> int:
    """Who asks: a broker's id, −1 for a consumer. Versions 15 and later say it in a tag."""
    return message.replica_id if message.replica_state is None else message.replica_state.replica_id


def is_by_follower(context: ServerContext, message: FetchRequest) -> bool:
    """Whether a broker asks, and this one is of a cluster."""
    return replica_of(message) >= 0 and context.log_manager.log.is_replicated()


def count_position(
    context: ServerContext, topic: Topic, asked: FetchPartition, message: FetchRequest, read: Found
) -> bool:
    """Takes note of a follower's position. True: that is all there is to it, an error or a diverging epoch."""
    broker_epoch = -1 if message.replica_state is None else message.replica_state.replica_epoch
    last_epoch = max(asked.last_fetched_epoch, UNDEFINED)
    while True:
        code, ask_file, epoch, end_offset, is_proposed = context.log_manager.log.follower_fetched(
            read.ordinal,
            replica_of(message),
            broker_epoch,
            max(asked.current_leader_epoch, UNDEFINED),
            asked.fetch_offset,
            last_epoch,
            asked.log_start_offset,
            context.clock.monotonic_ms(),
            topic.id,
        )
        if not ask_file:
            break
        code, (epoch, end_offset) = _ask_file(context, asked, read)
        if code or end_offset >= 0:
            break
        last_epoch = UNDEFINED  # it is a prefix: only the position is left to be counted
    if is_proposed:
        context.request_isr_change()
    if code == ErrorCode.REQUEST_TIMED_OUT:
        return False  # its lock is not to be had now: the next fetch says it again
    if code or end_offset >= 0:
        _tell(context, read, code, EpochEnd(epoch, end_offset))
    return bool(code or end_offset >= 0)


def _ask_file(context: ServerContext, asked: FetchPartition, read: Found) -> tuple[int, EpochEnd]:
    """An epoch older than those in memory: as the native call compares, but with what the file says."""
    state = context.log_manager.state(read.ordinal)
    if state is None:
        return ErrorCode.KAFKA_STORAGE_ERROR, NOT_KNOWN
    end = context.log_manager.end_of_epoch(read.ordinal, state, asked.last_fetched_epoch)
    if end == NOT_KNOWN:
        return ErrorCode.OFFSET_OUT_OF_RANGE, NOT_KNOWN
    diverges = end.epoch < asked.last_fetched_epoch or end.end_offset < asked.fetch_offset
    return ErrorCode.NONE, end if diverges else NOT_KNOWN


def _tell(context: ServerContext, read: Found, code: int, diverging: EpochEnd) -> None:
    read.error = code
    state = context.log_manager.state(read.ordinal)
    if state is None:
        return
    read.leader_epoch = state.leader_epoch
    if not code:
        read.diverging = diverging
        read.high_watermark, read.last_stable_offset, read.log_start = state.hw, state.lso, state.log_start
