"""Fetch sessions (KIP-227): what a Fetch request reads and what its answer may leave out. Request handlers.

A session lives in shared memory (channel/fetch_session_table.py) and any handler goes on with it. A request copies it
when it begins, which also moves the session's epoch, and writes down what the client was told when it is answered; in
between nobody holds it, however long the request waits. Who finds another epoch at its end was overtaken by another
request of the session, which only a client that uses it twice at a time can bring about: error 71, as in Kafka.

A handler that dies while it holds a session, or after it wrote down an answer that nobody got, loses the session: the
client gets error 70 and begins anew.
"""

from __future__ import annotations

from itertools import groupby

from mpbroker.channel.fetch_session_table import (
    SESSION_BUSY,
    SESSION_HELD,
    FetchSessionTable,
    SessionPartition,
    SessionRow,
)
from mpbroker.channel.handler_port import Request
from mpbroker.errors import ErrorCode
from mpbroker.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from mpbroker.protocol.types import ZERO_UUID
from mpbroker.server.follower_fetch import replica_of
from mpbroker.server.preferred_replica import NOBODY
from mpbroker.server.replica_read import FIRST_WITH_IDS, FetchPlan, PartitionRead
from mpbroker.server.server_context import ServerContext

FIRST_WITH_SESSIONS = 7
INITIAL_EPOCH, FINAL_EPOCH = 0, -1
LARGEST_EPOCH = 2**31 - 1
Key = tuple[bytes | str, int]
Topics = list[tuple[tuple[str, bytes], list[PartitionRead]]]


class SessionError(Exception):
    """The request cannot go on with its session: `code` is the whole answer."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


def next_epoch(epoch: int) -> int:
    return 1 if epoch == LARGEST_EPOCH else epoch + 1


class FetchContext:
    """A request without a session; the others are made of it. `message`: the request, which names all that is read."""

    session_id = 0

    def __init__(self, message: FetchRequest) -> None:
        self.message = message

    def told(self, plan: FetchPlan) -> Topics:
        """What the answer holds of what was read."""
        return plan.topics

    def conclude(self, plan: FetchPlan) -> int:
        """To be called right before the answer is written: the session knows from here on what the client knows, and
        `session_id` is the answer's. An error code that is the whole answer, or 0."""
        return ErrorCode.NONE

    def undo(self) -> None:
        """The answer after `conclude` was not sent after all; it will be concluded once more."""


class FullFetchContext(FetchContext):
    """A request that wants a session, which begins with its answer."""

    def __init__(self, context: ServerContext, message: FetchRequest, version: int) -> None:
        super().__init__(message)
        self._context = context
        self._by_id = version >= FIRST_WITH_IDS

    def conclude(self, plan: FetchPlan) -> int:
        asked = {key: each for topic in self.message.topics for key, each in _keyed(topic)}
        partitions = []
        for (name, topic_id), reads in plan.topics:
            known = _name(self._context, name, topic_id)
            for read in reads:
                each = _remembered(known, topic_id, asked[topic_id if self._by_id else name, read.partition])
                each.high_watermark, each.log_start = read.high_watermark, read.log_start
                partitions.append(each)
        is_follower = replica_of(self.message) >= 0
        now_ms = self._context.clock.monotonic_ms()
        self.session_id = self._context.fetch_sessions.make(now_ms, self._by_id, is_follower, partitions)
        return ErrorCode.NONE

    def undo(self) -> None:
        close_session(self._context.fetch_sessions, self.session_id)
        self.session_id = 0


class IncrementalFetchContext(FetchContext):
    """A request that goes on with a session. `row`: the session when the request began."""

    def __init__(self, table: FetchSessionTable, message: FetchRequest, row: SessionRow) -> None:
        super().__init__(message)
        self.session_id = message.session_id
        self._table = table
        self._row = row
        self._partitions = {each.key: each for each in row.partitions}
        message.topics = _topics_of(row.partitions)

    def told(self, plan: FetchPlan) -> Topics:
        told = []
        for (name, topic_id), reads in plan.topics:
            changed = [read for read in reads if self._is_news(self._cached(name, topic_id, read), read)]
            if changed:
                told.append(((name, topic_id), changed))
        return _joined(told)

    def _cached(self, name: str, topic_id: bytes, read: PartitionRead) -> SessionPartition:
        return self._partitions[topic_id if self._row.by_id else name, read.partition]

    @staticmethod
    def _is_news(cached: SessionPartition, read: PartitionRead) -> bool:
        return bool(
            read.length
            or read.error
            or read.diverging is not None
            or read.preferred != NOBODY
            or (cached.high_watermark, cached.log_start) != (read.high_watermark, read.log_start)
        )

    def conclude(self, plan: FetchPlan) -> int:
        changed, gave_records = self._changes(plan)
        found = self._table.hold(self.session_id)
        if found == SESSION_BUSY:
            return ErrorCode.INVALID_FETCH_SESSION_EPOCH
        if found != SESSION_HELD:  # it had to make room for another one; the next request will hear of that
            return ErrorCode.NONE
        if self._table.read()[0] != self._row.epoch:
            self._table.release()
            return ErrorCode.INVALID_FETCH_SESSION_EPOCH
        if not changed and not gave_records:
            self._table.release()
            return ErrorCode.NONE
        now = {key: changed.get(key, each) for key, each in self._partitions.items()}
        for key in gave_records:  # to the end, so that others have their turn
            now[key] = now.pop(key)
        self._table.put(self._row._replace(is_answered=True, partitions=list(now.values())))
        return ErrorCode.NONE

    def _changes(self, plan: FetchPlan) -> tuple[dict[Key, SessionPartition], list[Key]]:
        """What the client knows when it has the answer, and who gave records."""
        changed: dict[Key, SessionPartition] = {}
        gave_records = []
        for (name, topic_id), reads in plan.topics:
            for read in reads:
                cached = self._cached(name, topic_id, read)
                high_watermark = -1 if read.error else read.high_watermark  # told again when the error is gone
                if (cached.high_watermark, cached.log_start) != (high_watermark, read.log_start):
                    changed[cached.key] = _knowing(cached, high_watermark, read.log_start)
                if read.length:
                    gave_records.append(cached.key)
        return changed, gave_records


def open_fetch(context: ServerContext, request: Request, message: FetchRequest) -> FetchContext:
    """The request's context, whose message names everything that is to be read. SessionError."""
    version = request.api_version
    if version < FIRST_WITH_SESSIONS:
        return FetchContext(message)
    if message.session_epoch == FINAL_EPOCH:
        close_session(context.fetch_sessions, message.session_id)
        return FetchContext(message)
    if message.session_epoch == INITIAL_EPOCH:
        close_session(context.fetch_sessions, message.session_id)
        if _names_nothing(message, version):
            raise SessionError(ErrorCode.UNKNOWN_SERVER_ERROR)
        return FullFetchContext(context, message, version)
    try:
        return _go_on(context, request, message)
    except SessionError:
        context.count("fetch_sessions_wrong")
        raise


def close_session(table: FetchSessionTable, session_id: int) -> None:
    if session_id > 0 and table.hold(session_id) == SESSION_HELD:
        table.drop()


def _go_on(context: ServerContext, request: Request, message: FetchRequest) -> FetchContext:
    table = context.fetch_sessions
    found = table.hold(max(message.session_id, 0))
    if found != SESSION_HELD:
        busy = found == SESSION_BUSY
        raise SessionError(ErrorCode.INVALID_FETCH_SESSION_EPOCH if busy else ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
    try:
        row = table.row()
        if row.fill_number == request.fill_number:
            return _run_again(table, message, row)
        code = _refusal(row, message, request.api_version)
        if code:
            table.release()
            raise SessionError(code)
        row = _updated(context, row._replace(fill_number=request.fill_number), message)
    except Exception as error:
        if not isinstance(error, SessionError):
            table.drop()
        raise
    if not row.partitions:
        table.drop()
        return FetchContext(message)
    if not table.put(row, context.clock.monotonic_ms()):
        context.count("fetch_sessions_refused")
        raise SessionError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
    return IncrementalFetchContext(table, message, row)


def _run_again(table: FetchSessionTable, message: FetchRequest, row: SessionRow) -> FetchContext:
    """A handler that died, or the processor's, had gone on with the session for this request already."""
    if row.is_answered:
        table.drop()
        raise SessionError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
    table.release()
    return IncrementalFetchContext(table, message, row)


def _refusal(row: SessionRow, message: FetchRequest, version: int) -> int:
    if row.epoch != message.session_epoch:
        return ErrorCode.INVALID_FETCH_SESSION_EPOCH
    if row.by_id != (version >= FIRST_WITH_IDS):
        return ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
    return ErrorCode.UNKNOWN_SERVER_ERROR if _names_nothing(message, version) else ErrorCode.NONE


def _names_nothing(message: FetchRequest, version: int) -> bool:
    """An id of zeros: Kafka's sessions cannot remember it, and ours would take it for no id."""
    return version >= FIRST_WITH_IDS and any(
        topic.topic_id == ZERO_UUID and topic.partitions for topic in message.topics
    )


def _updated(context: ServerContext, row: SessionRow, message: FetchRequest) -> SessionRow:
    """The session after the request's changes to it; its epoch is the next one's."""
    partitions = {each.key: each for each in row.partitions}
    for topic in message.topics:
        for key, asked in _keyed(topic):
            known = partitions.get(key)
            new = _remembered(topic.topic, topic.topic_id, asked)
            if known is not None:
                new.topic, new.high_watermark, new.log_start = known.topic, known.high_watermark, known.log_start
            partitions[key] = new
    for forgotten in message.forgotten_topics_data:
        for number in forgotten.partitions:
            partitions.pop((forgotten.topic_id if row.by_id else forgotten.topic, number), None)
    for each in partitions.values():
        each.topic = _name(context, each.topic, each.topic_id)
    return row._replace(epoch=next_epoch(row.epoch), is_answered=False, partitions=list(partitions.values()))


def _name(context: ServerContext, name: str, topic_id: bytes) -> str:
    """The topic's name, for a session by ids too as soon as it is known: a session remembers it."""
    if name or topic_id == ZERO_UUID:
        return name
    topic = context.metadata.topic_by_id(topic_id)
    return "" if topic is None else topic.name


def _keyed(topic: FetchTopic) -> list[tuple[Key, FetchPartition]]:
    name = topic.topic_id if topic.topic_id != ZERO_UUID else topic.topic
    return [((name, each.partition), each) for each in topic.partitions]


def _remembered(name: str, topic_id: bytes, asked: FetchPartition) -> SessionPartition:
    return SessionPartition(
        name,
        topic_id,
        asked.partition,
        asked.fetch_offset,
        asked.partition_max_bytes,
        asked.current_leader_epoch,
        asked.last_fetched_epoch,
        asked.log_start_offset,
    )


def _knowing(cached: SessionPartition, high_watermark: int, log_start: int) -> SessionPartition:
    """A copy: an answer may have to be concluded again, from what was known before it."""
    return SessionPartition(
        cached.topic,
        cached.topic_id,
        cached.partition,
        cached.fetch_offset,
        cached.max_bytes,
        cached.leader_epoch,
        cached.last_epoch,
        cached.asked_log_start,
        high_watermark,
        log_start,
    )


def _topics_of(partitions: list[SessionPartition]) -> list[FetchTopic]:
    """What the session reads, in its order; a topic comes again where another one stands between."""
    return [
        FetchTopic(
            topic=name,
            topic_id=topic_id,
            partitions=[
                FetchPartition(
                    partition=each.partition,
                    current_leader_epoch=each.leader_epoch,
                    fetch_offset=each.fetch_offset,
                    last_fetched_epoch=each.last_epoch,
                    log_start_offset=each.asked_log_start,
                    partition_max_bytes=each.max_bytes,
                )
                for each in group
            ],
        )
        for (name, topic_id), group in groupby(partitions, key=lambda each: (each.topic, each.topic_id))
    ]


def _joined(told: Topics) -> Topics:
    """Neighbours that are the same topic are one."""
    return [
        (key, [read for _, reads in group for read in reads]) for key, group in groupby(told, key=lambda one: one[0])
    ]
