"""The read path of Fetch: which bytes of which partitions answer a request, under Kafka's limits. Request handlers.

Two steps: `plan_fetch` decides error codes, offsets and byte ranges without reading a record; `fill` copies the ranges
into the answer. A parked fetch plans again when something moved, so nothing is read twice. KIP-74: the first
partition with data may exceed every limit by one whole batch.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from operator import itemgetter

from msgspec import Struct

from mpbroker.config.limits import LARGEST_ANSWER_BYTES
from mpbroker.errors import ErrorCode
from mpbroker.log.leader_epochs import NOT_KNOWN, EpochEnd
from mpbroker.log.leadership import LEADER
from mpbroker.log.log_manager import (
    READ_REPLICA_TO_HIGH_WATERMARK,
    READ_REPLICA_TO_STABLE,
    READ_TO_END,
    READ_TO_HIGH_WATERMARK,
    READ_TO_STABLE,
    PartitionState,
    ReadPlan,
)
from mpbroker.metadata.metadata_cache import Topic
from mpbroker.protocol.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchPartition,
    FetchRequest,
    FetchTopic,
    PartitionData,
)
from mpbroker.server.follower_fetch import count_position, is_by_follower, replica_of
from mpbroker.server.leader_throttle import holds_back, lists
from mpbroker.server.preferred_replica import NOBODY, preferred_replica, selects_by_rack
from mpbroker.server.server_context import ServerContext

CONSUMER = -1
READ_UNCOMMITTED, READ_COMMITTED = ISOLATION_LEVELS = 0, 1
UNKNOWN_OFFSET = -1
KNOWN_HERE = frozenset((ErrorCode.NONE, ErrorCode.OFFSET_OUT_OF_RANGE, ErrorCode.NOT_LEADER_OR_FOLLOWER))
FIRST_WITH_ZSTD, FIRST_WITH_RACK, FIRST_WITH_IDS = 10, 11, 13  # versions of Fetch


class PartitionRead(Struct):
    """What one partition contributes. `plan` is the native ReadPlan, None when there is an error or nothing to read.
    `is_busy`: its files are being changed by a process that is slow, or stopped; the next look may find it readable."""

    partition: int
    ordinal: int = -1
    error: int = ErrorCode.NONE
    high_watermark: int = UNKNOWN_OFFSET
    last_stable_offset: int = UNKNOWN_OFFSET
    log_start: int = UNKNOWN_OFFSET
    plan: ReadPlan | None = None
    length: int = 0
    committed_only: bool = False
    leader_epoch: int = -1
    diverging: EpochEnd | None = None
    aborted: list[tuple[int, int]] = []
    preferred: int = NOBODY
    throttled: bool = False  # by KIP-73: what is sent counts
    is_busy: bool = False

    def to_message(self) -> PartitionData:
        """Records travel as a length to reserve; the bytes are read into the answer in place."""
        refused = not self.was_looked_at or self.error == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
        told = refused or (self.committed_only and self.error == ErrorCode.NONE)
        nothing = None if self.error == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE else b""
        return PartitionData(
            partition_index=self.partition,
            error_code=self.error,
            high_watermark=self.high_watermark,
            last_stable_offset=self.last_stable_offset,
            log_start_offset=self.log_start,
            diverging_epoch=None if self.diverging is None else EpochEndOffset(*self.diverging),
            aborted_transactions=[AbortedTransaction(*row) for row in self.aborted] if told else None,
            preferred_read_replica=self.preferred,
            records=self.length or nothing,
        )

    @property
    def was_looked_at(self) -> bool:
        """False: there was nothing to look at, only to say that it is not here."""
        return self.ordinal >= 0 or self.error == ErrorCode.INCONSISTENT_TOPIC_ID

    def drop(self) -> None:
        """Sends no records of this partition after all."""
        self.plan, self.length, self.aborted = None, 0, []

    def refuse(self, code: int) -> None:
        """An error in place of whatever was found."""
        self.drop()
        self.error = code
        self.high_watermark = self.last_stable_offset = self.log_start = UNKNOWN_OFFSET


class FetchPlan(Struct):
    """All partitions of a request in its order, grouped by topic (its name and id as asked for), and the bytes they
    would send. `is_urgent`: there is an error or a diverging epoch to tell, so nothing is waited for. (That a partition
    is not here waits, as in Kafka, unless none is.)"""

    topics: list[tuple[tuple[str, bytes], list[PartitionRead]]]
    total_bytes: int = 0
    is_urgent: bool = False

    def reads(self) -> Iterator[PartitionRead]:
        """Every partition, in order."""
        for _, reads in self.topics:
            yield from reads


def plan_fetch(
    context: ServerContext,
    message: FetchRequest,
    version: int,
    most_bytes: int = LARGEST_ANSWER_BYTES,
    first_look: bool = False,
) -> FetchPlan:
    """Reads the state of every partition asked for and divides the byte budget over them in order. `most_bytes`: the
    budget, if the request allows more. `first_look`: what a follower asks for counts as its position, once.

    Partitions that are not here come last in the answer, those of unknown ids before others, as Kafka's do. `version`
    is the request's.
    """
    # a negative one is an error, for the first only
    left = min(message.max_bytes, context.config.fetch_max_bytes, most_bytes)
    bound = _bound(context, message, version)
    sends_away = replica_of(message) == CONSUMER and selects_by_rack(context, message.rack_id)
    by_follower = first_look and is_by_follower(context, message)
    follower = replica_of(message)
    plan = FetchPlan([])
    reads: list[tuple[tuple[str, bytes], PartitionRead]] = []
    for asked_topic in message.topics:
        topic = _topic(context, asked_topic, version)
        key = asked_topic.topic, asked_topic.topic_id
        zstd_refused = version < FIRST_WITH_ZSTD and topic is not None and topic.settings.compression_type == "zstd"
        for asked in asked_topic.partitions:
            read = _find(context, topic, asked_topic, asked, version)
            reads.append((key, read))
            if topic is not None and read.ordinal >= 0:
                if by_follower and count_position(context, topic, asked, message, read):
                    plan.is_urgent = True
                    continue
                if sends_away and _send_away(context, asked, message, read):
                    plan.is_urgent = True
                    continue
                _read(
                    context,
                    topic,
                    asked,
                    message,
                    read,
                    bound,
                    min(asked.partition_max_bytes, left),
                    not plan.total_bytes,
                )
                if follower >= 0 and read.length and _is_held_back(context, topic, follower, read):
                    read.drop()
                if zstd_refused:
                    read.refuse(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
                left = max(left - read.length, 0)
                plan.total_bytes += read.length
            plan.is_urgent |= read.was_looked_at and (read.error != ErrorCode.NONE or read.diverging is not None)
    plan.is_urgent |= not any(read.was_looked_at for _, read in reads)
    reads.sort(key=_place)
    plan.topics = [(key, [read for _, read in group]) for key, group in groupby(reads, itemgetter(0))]
    return plan


def _is_held_back(context: ServerContext, topic: Topic, follower: int, read: PartitionRead) -> bool:
    read.throttled = lists(context, topic, read.partition)
    return read.throttled and holds_back(context, read.ordinal, follower)


def _place(row: tuple[tuple[str, bytes], PartitionRead]) -> int:
    read = row[1]
    return 0 if read.was_looked_at else 1 if read.error == ErrorCode.UNKNOWN_TOPIC_ID else 2


def _topic(context: ServerContext, asked: FetchTopic, version: int) -> Topic | None:
    by_id = version >= FIRST_WITH_IDS
    return context.metadata.topic_by_id(asked.topic_id) if by_id else context.metadata.topic(asked.topic)


def _bound(context: ServerContext, message: FetchRequest, version: int) -> int:
    """From version 11 on consumers may read from followers, whoever sent them there."""
    if replica_of(message) != CONSUMER:
        return READ_TO_END
    if version >= FIRST_WITH_RACK and context.cluster is not None:
        committed = message.isolation_level == READ_COMMITTED
        return READ_REPLICA_TO_STABLE if committed else READ_REPLICA_TO_HIGH_WATERMARK
    return READ_TO_STABLE if message.isolation_level == READ_COMMITTED else READ_TO_HIGH_WATERMARK


def _send_away(context: ServerContext, asked: FetchPartition, message: FetchRequest, read: PartitionRead) -> bool:
    """Whether the consumer is told to read elsewhere: then it gets no records here."""
    state = context.log_manager.state(read.ordinal)
    if state is None or check_leadership(state, max(asked.current_leader_epoch, -1)):
        return False
    read.preferred = preferred_replica(context, read.ordinal, asked.fetch_offset, message.rack_id)
    if read.preferred == NOBODY:
        return False
    read.high_watermark, read.last_stable_offset, read.log_start = state.hw, state.lso, state.log_start
    read.leader_epoch = state.leader_epoch
    read.committed_only = message.isolation_level == READ_COMMITTED
    return True


def _find(
    context: ServerContext, topic: Topic | None, asked_topic: FetchTopic, asked: FetchPartition, version: int
) -> PartitionRead:
    if topic is None and version >= FIRST_WITH_IDS:
        return PartitionRead(asked.partition, error=_no_such_id(context, asked_topic.topic, asked.partition))
    if topic is None or not 0 <= asked.partition < len(topic.partitions):
        return PartitionRead(asked.partition, error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return PartitionRead(asked.partition, topic.partitions[asked.partition])


def _no_such_id(context: ServerContext, name: str, partition: int) -> int:
    """A fetch session remembers the `name` of an id that is no topic's any more; another topic may have it now."""
    if not name:
        return ErrorCode.UNKNOWN_TOPIC_ID
    other = context.metadata.topic(name)
    has_partition = other is not None and 0 <= partition < len(other.partitions)
    return ErrorCode.INCONSISTENT_TOPIC_ID if has_partition else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _read(
    context: ServerContext,
    topic: Topic,
    asked: FetchPartition,
    message: FetchRequest,
    read: PartitionRead,
    bound: int,
    limit_bytes: int,
    oversized: bool,
) -> None:
    """Finds one partition's byte range; the result carries Kafka's code on failure."""
    read.committed_only = message.isolation_level == READ_COMMITTED
    error, plan = context.log_manager.find(
        read.ordinal, asked.fetch_offset, bound, max(limit_bytes, 0), oversized or limit_bytes < 0, topic.id
    )
    if error == ErrorCode.REQUEST_TIMED_OUT:
        read.is_busy = True
        return
    readable = error in KNOWN_HERE  # else the plan has no epoch to check
    read.error = (readable and _refusal(context, asked, message, plan)) or error
    read.leader_epoch = plan.leader_epoch
    in_doubt = readable and read.error == error != ErrorCode.NOT_LEADER_OR_FOLLOWER and asked.last_fetched_epoch >= 0
    if in_doubt and _diverges(context, asked, read):
        read.high_watermark, read.last_stable_offset = plan.high_watermark, plan.last_stable
        read.log_start = plan.log_start
        return
    if limit_bytes < 0 and read.error == ErrorCode.NONE and plan.length:
        read.error = ErrorCode.UNKNOWN_SERVER_ERROR  # what Kafka makes of a negative limit where there is data
    if read.error == ErrorCode.NONE:
        read.high_watermark, read.last_stable_offset = plan.high_watermark, plan.last_stable
        read.log_start, read.length = plan.log_start, plan.length
        read.plan = plan if plan.length else None
        if read.committed_only and read.plan is not None and plan.aborted_end > asked.fetch_offset:
            _leave_out_aborted(context, asked.fetch_offset, read, plan)


def _leave_out_aborted(context: ServerContext, fetch_offset: int, read: PartitionRead, plan: ReadPlan) -> None:
    """Which transactions the reader must skip in what it gets: from the .txnindex files, after the plan, so that each
    whose marker lies below the plan's last stable offset is there."""
    error, read.aborted = context.log_manager.log.aborted(plan, fetch_offset)
    if error == ErrorCode.REQUEST_TIMED_OUT:
        read.drop()
        read.is_busy = True
    elif error:
        read.refuse(error)


def _diverges(context: ServerContext, asked: FetchPartition, read: PartitionRead) -> bool:
    """KIP-595: whether the reader's last epoch ended here before the offset that it asks for; no records then. An epoch
    that is not known is an offset out of range."""
    state = context.log_manager.state(read.ordinal)
    end = NOT_KNOWN
    if state is not None:
        end = context.log_manager.end_of_epoch(read.ordinal, state, asked.last_fetched_epoch)
    if end == NOT_KNOWN:
        read.error = ErrorCode.OFFSET_OUT_OF_RANGE
    elif end.epoch < asked.last_fetched_epoch or end.end_offset < asked.fetch_offset:
        read.error, read.diverging = ErrorCode.NONE, end
    return read.diverging is not None


def _refusal(context: ServerContext, asked: FetchPartition, message: FetchRequest, plan: ReadPlan) -> int:
    asked_epoch = max(asked.current_leader_epoch, -1)  # Fetch takes every negative epoch for −1, ListOffsets does not
    code = check_leader_epoch(asked_epoch, plan.leader_epoch)
    if code == ErrorCode.NONE and replica_of(message) >= 0 and not is_by_follower(context, message):
        return ErrorCode.NOT_LEADER_OR_FOLLOWER  # no broker but this one holds a replica
    return code


def check_leadership(state: PartitionState, asked_epoch: int) -> int:
    """Whether this broker leads the partition in that epoch, for requests that only a leader answers."""
    code = check_leader_epoch(asked_epoch, state.leader_epoch)
    return ErrorCode.NOT_LEADER_OR_FOLLOWER if code == ErrorCode.NONE and state.role != LEADER else code


def check_leader_epoch(asked_epoch: int, leader_epoch: int) -> int:
    """KIP-320: −1 is "do not check"; an older epoch is fenced, a newer one not known yet."""
    if asked_epoch == -1 or asked_epoch == leader_epoch:
        return ErrorCode.NONE
    return ErrorCode.FENCED_LEADER_EPOCH if asked_epoch < leader_epoch else ErrorCode.UNKNOWN_LEADER_EPOCH


def fill(context: ServerContext, plan: FetchPlan, answer: memoryview, holes: list[tuple[int, int]]) -> bool:
    """Copies every planned range into its place in the answer. False: a log changed underneath, plan again."""
    position_of = iter(holes)
    for read in plan.reads():
        if read.plan is None:
            continue
        position, length = next(position_of)
        error, count = context.log_manager.read_into(read.plan, answer[position : position + length])
        if error or count != length:
            return False
    return True
