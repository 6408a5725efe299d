"""The read path of Fetch: which bytes of which partitions answer a request, under Kafka's limits. Request handlers.

Two steps: `plan_fetch` decides error codes, offsets and byte ranges without reading a record; `fill` copies the ranges
into the answer. A parked fetch plans again when something moved, so nothing is read twice. KIP-74: the first
partition with data may exceed every limit by one whole batch.
"""

from __future__ import annotations

from dataclasses import dataclass

from mpbroker.errors import ErrorCode
from mpbroker.protocol.messages.fetch import FetchRequest, PartitionData

CONSUMER, DEBUGGER = -1, -2
READ_COMMITTED = 1
UNKNOWN_OFFSET = -1


@dataclass(slots=True)
class PartitionRead:
    """What one partition contributes. `plan` is the log's own description of a byte range, None: no bytes."""

    partition: int
    ordinal: int = -1
    error: int = ErrorCode.NONE
    high_watermark: int = UNKNOWN_OFFSET
    last_stable_offset: int = UNKNOWN_OFFSET
    log_start: int = UNKNOWN_OFFSET
    end_offset: int = 0
    fetch_offset: int = 0
    plan: object = None
    length: int = 0

    def to_message(self) -> PartitionData:
        """Records travel as a length to reserve; the bytes are read into the answer in place."""
        return PartitionData(partition_index=self.partition, error_code=self.error,
                             high_watermark=self.high_watermark, last_stable_offset=self.last_stable_offset,
                             log_start_offset=self.log_start, aborted_transactions=None,
                             preferred_read_replica=-1, records=self.length if self.length else b"")


@dataclass(slots=True)
class FetchPlan:
    """All partitions of a request in its order, grouped by topic, and the bytes they would send."""

    topics: list[tuple[str, list[PartitionRead]]]
    total_bytes: int
    has_error: bool
    has_diverged: bool = False

    def reads(self):
        for _, reads in self.topics:
            yield from reads


def plan_fetch(context, message: FetchRequest, version: int) -> FetchPlan:
    """Reads the state of every partition asked for and divides the byte budget over them in order."""
    budget = min(max(message.max_bytes, 0), context.config.fetch_max_bytes)
    allow_oversized, total, has_error, topics = True, 0, False, []
    for topic in message.topics:
        known = context.metadata.topic(topic.topic)
        reads = []
        for asked in topic.partitions:
            read = _locate(context, known, asked, message)
            if read.error == ErrorCode.NONE:
                limit = min(max(asked.partition_max_bytes, 0), max(budget - total, 0))
                _plan_bytes(context, read, limit, allow_oversized)
            if read.length:
                allow_oversized = False
                total += read.length
            has_error |= read.error != ErrorCode.NONE
            reads.append(read)
        topics.append((topic.topic, reads))
    return FetchPlan(topics, total, has_error)


def _locate(context, topic, asked, message: FetchRequest) -> PartitionRead:
    """Finds the partition and checks epoch, replica and offset; the result carries Kafka's code on failure."""
    read = PartitionRead(asked.partition, fetch_offset=asked.fetch_offset)
    if topic is None or not 0 <= asked.partition < len(topic.partitions):
        read.error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return read
    read.ordinal = topic.partitions[asked.partition]
    state = context.log_manager.state(read.ordinal)
    read.error = _refusal(asked, message, state)
    if read.error:
        return read
    read.end_offset = _visible_end(message, state)
    if not state.log_start <= asked.fetch_offset <= state.leo:
        read.error = ErrorCode.OFFSET_OUT_OF_RANGE
        return read
    read.high_watermark, read.last_stable_offset, read.log_start = state.hw, state.lso, state.log_start
    return read


def _refusal(asked, message: FetchRequest, state) -> int:
    if state is None:
        return ErrorCode.KAFKA_STORAGE_ERROR
    code = check_leader_epoch(asked.current_leader_epoch, state.leader_epoch)
    if code == ErrorCode.NONE and message.replica_id >= 0:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER  # no broker but this one holds a replica
    return code


def check_leader_epoch(asked_epoch: int, leader_epoch: int) -> int:
    """KIP-320: −1 is "do not check"; an older epoch is fenced, a newer one not known yet."""
    if asked_epoch == -1 or asked_epoch == leader_epoch:
        return ErrorCode.NONE
    return ErrorCode.FENCED_LEADER_EPOCH if asked_epoch < leader_epoch else ErrorCode.UNKNOWN_LEADER_EPOCH


def _visible_end(message: FetchRequest, state) -> int:
    if message.replica_id != CONSUMER:
        return state.leo
    return state.lso if message.isolation_level == READ_COMMITTED else state.hw


def _plan_bytes(context, read: PartitionRead, limit_bytes: int, allow_oversized: bool) -> None:
    if read.fetch_offset >= read.end_offset:
        return
    plan = context.log_manager.plan_read(read.ordinal, read.fetch_offset, read.end_offset, limit_bytes,
                                         allow_oversized)
    if isinstance(plan, int):
        read.error = plan
    elif plan is not None:
        read.plan, read.length = plan, plan.length


def fill(context, plan: FetchPlan, answer, holes: list[tuple[int, int]]) -> bool:
    """Copies every planned range into its place in the answer. False: a log changed underneath, plan again."""
    position_of = iter(holes)
    for read in plan.reads():
        if not read.length:
            continue
        position, length = next(position_of)
        if context.log_manager.read_into(read.plan, answer[position:position + length]) != length:
            return False
    return True
