"""A fetcher's way to one leader: the connection, what is asked over it, and the steps that answers come to.

One for each broker that leads something here; made again with all its state after a death. Owns no truth: what it
appends, and where, is checked under the partition's lock (native/log/append_follower.h). An answer may come when its
topic is deleted and its row another partition's, so every step names the topic.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple, Protocol

from mpbroker.errors import ErrorCode, ProtocolError
from mpbroker.log.leader_epochs import EpochEnd
from mpbroker.log.log_manager import Log, LogOptions
from mpbroker.protocol.messages.fetch import FetchResponse
from mpbroker.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from mpbroker.protocol.types import Struct
from mpbroker.replication.follower import (
    Append,
    Followed,
    LeaderFetch,
    OutOfRange,
    SteadyEnd,
    SteadyStart,
    Step,
    Truncate,
    truncation_target,
)
from mpbroker.replication.leader_connection import ConnectionEnded, LeaderConnection
from mpbroker.shm.clock import Clock

FETCH_VERSION: Final = 17
LIST_OFFSETS_VERSION: Final = 7
LATEST, EARLIEST = -1, -2
HELD_BACK_MS: Final = 50
"""An answer with records, or an error, has come by then."""
_LAST_OFFSET: Final = slice(23, 27)
"""Of a record batch: counted from its first."""


class FollowerLog(Protocol):
    """What the steps need of this broker's logs."""

    log: Log

    def row(self, ordinal: int) -> Followed | None:
        """As the partition is now; None: it is no follower."""
        ...

    def options(self, ordinal: int) -> LogOptions | None:
        """The topic's settings; None: the topic is not known here yet."""
        ...

    def topic_name(self, ordinal: int) -> str:
        """Empty: not known."""
        ...

    def end_of_epoch(self, ordinal: int, epoch: int) -> EpochEnd:
        """Where an epoch ended here."""
        ...


class _Question(NamedTuple):
    """Something to ask besides Fetch."""

    message: Struct
    answer: type[Struct]
    version: int
    then: Callable[[Struct], None]


class LeaderLink:
    """`crash_point` and `say` as a process context has them; `rescan` asks for a look at all rows soon;
    `fetched_bytes` is told what was appended to a partition."""

    def __init__(
        self,
        leader: int,
        fetch: LeaderFetch,
        logs: FollowerLog,
        clock: Clock,
        rescan: Callable[[], None],
        say: Callable[..., None] = lambda event, **fields: None,
        crash_point: Callable[[str], None] = lambda name: None,
        fetched_bytes: Callable[[int, int], None] = lambda ordinal, size: None,
    ) -> None:
        self.leader = leader
        self.fetch = fetch
        self.connection: LeaderConnection | None = None
        self.address: tuple[str, int] | None = None
        self.epoch = -1  # of the leader's registration, as the connection was made for it
        self._logs = logs
        self._clock = clock
        self._rescan = rescan
        self._say = say
        self._crash_point = crash_point
        self._fetched_bytes = fetched_bytes
        self._questions: deque[_Question] = deque()
        self._then: Callable[[Struct], None] | None = None
        self.asked_ms = 0
        """When the last request was sent."""
        self.lacks_since_ms: int | None = None
        """Since when a partition waits that the request in flight does not name; None: none does."""

    def ask(self) -> bool:
        """Sends what is to be asked, if nothing is in flight. False: there is nothing now."""
        if self.connection is None or not self.connection.is_idle:
            return False
        self.asked_ms, self.lacks_since_ms = self._clock.monotonic_ms(), None
        if self._questions:
            message, answer, version, self._then = self._questions.popleft()
            self.connection.ask(message, answer, version)
            return True
        request = self.fetch.next_request(self._clock.monotonic_ms())
        if request is None:
            return False
        self._then = self._fetched
        self.connection.ask(request, FetchResponse, FETCH_VERSION)
        return True

    def is_overdue(self, timeout_ms: int) -> bool:
        """Whether an answer has not come for so long that none will."""
        return self._then is not None and self._clock.monotonic_ms() - self.asked_ms > timeout_ms

    def note_what_it_lacks(self) -> None:
        """The rows were looked at."""
        if self.lacks_since_ms is None and self._then == self._fetched and self.fetch.lacks():
            self.lacks_since_ms = self._clock.monotonic_ms()

    def held_back_until_ms(self) -> int | None:
        """When the request in flight is to be given up if nothing of its answer has come: the leader has nothing for
        its partitions and holds it back, perhaps for `replica.fetch.wait.max.ms`, and acks=all waits for another one
        that it has come to lead. None: no reason to."""
        is_held = self.connection is not None and self.connection.correlation_id is not None
        return self.lacks_since_ms + HELD_BACK_MS if is_held and self.lacks_since_ms is not None else None

    @property
    def wants_to_write(self) -> bool:
        """Whether the last request is not sent whole."""
        return self.connection is not None and self.connection.wants_to_write

    def write(self) -> None:
        """Something may be sent; ConnectionEnded."""
        assert self.connection is not None
        self.connection.write()

    def read(self) -> None:
        """Something may have come; ConnectionEnded."""
        assert self.connection is not None
        try:
            answer = self.connection.read()
        except ProtocolError as error:
            raise ConnectionEnded(str(error)) from error
        if answer is None or self._then is None:
            return
        self._crash_point("fetcher.answered")
        then, self._then = self._then, None
        then(answer)

    def steady(self) -> tuple[int, int, list[SteadyStart]] | None:
        """As `LeaderFetch.steady`, if a Fetch was sent whole, nothing of its answer has come and nothing else is to be
        asked."""
        is_free = self._then == self._fetched and not self._questions
        if not is_free or self.connection is None or self.connection.correlation_id is None:
            return None
        return self.fetch.steady()

    def resumed(self, session_epoch: int, is_asked: bool, ends: list[SteadyEnd]) -> None:
        """It was served natively since `steady`."""
        self.fetch.resumed(session_epoch, is_asked, ends)
        if not is_asked:
            self._then = None
        for end in ends:
            if end.error:
                self._append_failed(end.ordinal, end.error)

    def lose(self) -> None:
        """The connection is of no use any more."""
        self.close()
        self.fetch.connection_lost(self._clock.monotonic_ms())

    def close(self) -> None:
        """What is under way over it is forgotten; the next one may be made at once."""
        if self.connection is not None:
            self.connection.close()
        self.connection, self._then, self.lacks_since_ms = None, None, None
        self._questions.clear()
        self.fetch.begin_anew()

    def _fetched(self, response: Struct) -> None:
        assert isinstance(response, FetchResponse)
        for step in self.fetch.answered(response, self._clock.monotonic_ms()):
            self._do(step)

    def _do(self, step: Step) -> None:
        if isinstance(step, Append):
            self._append(step)
        elif isinstance(step, Truncate):
            self._truncate(step)
        else:
            self._ask_end(step, LATEST)

    def _append(self, step: Append) -> None:
        options = self._logs.options(step.ordinal)
        if options is None:
            self.fetch.failed(step.ordinal, self._clock.monotonic_ms())
            return
        code, batches, leo, _, last_epoch, log_start = self._logs.log.append_follower(
            step.ordinal,
            step.leader_epoch,
            step.offset,
            step.records,
            step.high_watermark,
            step.log_start,
            options,
            self._clock.wall_ms(),
            step.topic_id,
        )
        self._crash_point("fetcher.appended")
        if code == ErrorCode.OFFSET_OUT_OF_RANGE and not batches and self._begin_with_whole_batch(step):
            return
        if batches:
            self._fetched_bytes(step.ordinal, len(step.records))
        if batches or not code:
            self.fetch.moved(step.ordinal, leo, last_epoch, log_start)
        if code:
            self._append_failed(step.ordinal, code)

    def _append_failed(self, ordinal: int, code: int) -> None:
        is_gone = code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        self._step_failed(ordinal, ErrorCode.FENCED_LEADER_EPOCH if is_gone else code)

    def _begin_with_whole_batch(self, step: Append) -> bool:
        """An empty log that begins within the leader's first batch, as after DeleteRecords: it begins with that batch,
        as Kafka's does, and the leader's log start comes with the records. Killed in between, it finds its place again
        as any that is behind the start."""
        row, records = self._row_of(step), step.records
        if row is None or row.log_start != row.leo or len(records) < _LAST_OFFSET.stop:
            return False
        first = int.from_bytes(records[:8], "big", signed=True)
        last = first + int.from_bytes(records[_LAST_OFFSET], "big", signed=True)
        if not 0 <= first < row.leo <= last:
            return False
        code = self._logs.log.start_at(step.ordinal, first, step.leader_epoch, self._clock.wall_ms())
        self._crash_point("fetcher.begun_earlier")
        if code:
            self._step_failed(step.ordinal, code)
        else:
            self._append(step._replace(offset=first))
        return True

    def _row_of(self, step: Step) -> Followed | None:
        """None: what was asked for is not followed here any more, or in another epoch."""
        row = self._logs.row(step.ordinal)
        is_same = row is not None and (row.topic_id, row.leader_epoch) == (step.topic_id, step.leader_epoch)
        return row if is_same else None

    def _step_failed(self, ordinal: int, code: int) -> None:
        """Another role or epoch, or another end than was thought: the row says which."""
        self.fetch.failed(ordinal, self._clock.monotonic_ms(), code == ErrorCode.FENCED_LEADER_EPOCH)
        if code in (ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.OFFSET_OUT_OF_RANGE):
            self._look_again(ordinal)
            self._rescan()
        elif code != ErrorCode.REQUEST_TIMED_OUT:
            self._say("replica_append_failed", ordinal=ordinal, leader=self.leader, error=code)

    def _look_again(self, ordinal: int) -> None:
        """A row that is no follower's, or whose lock is not to be had now, is looked for with all the others."""
        row = self._logs.row(ordinal)
        if row is not None:
            self.fetch.moved(ordinal, row.leo, row.last_epoch, row.log_start)
        else:
            self.fetch.failed(ordinal, self._clock.monotonic_ms(), is_fenced=True)
            self._rescan()

    def _truncate(self, step: Truncate) -> None:
        row = self._row_of(step)
        if row is None:
            self._step_failed(step.ordinal, ErrorCode.FENCED_LEADER_EPOCH)
            return
        own_end = self._logs.end_of_epoch(step.ordinal, step.epoch).end_offset
        self._cut(row, truncation_target(own_end, step.end_offset, row.leo))

    def _cut(self, row: Followed, target: int) -> None:
        code = self._logs.log.truncate_follower(row.ordinal, target, row.leader_epoch, self._clock.wall_ms())
        self._crash_point("fetcher.truncated")
        if code:
            self._step_failed(row.ordinal, code)
            return
        self._say("replica_truncated", ordinal=row.ordinal, leader=self.leader, end=row.leo, to=target)
        self._look_again(row.ordinal)

    def _ask_end(self, step: OutOfRange, timestamp: int) -> None:
        row, name = self._row_of(step), self._logs.topic_name(step.ordinal)
        if row is None or not name:
            self._step_failed(step.ordinal, ErrorCode.FENCED_LEADER_EPOCH)
            return
        asked = ListOffsetsPartition(
            partition_index=row.partition, current_leader_epoch=row.leader_epoch, timestamp=timestamp
        )
        message = ListOffsetsRequest(
            replica_id=self.fetch.node_id, topics=[ListOffsetsTopic(name=name, partitions=[asked])]
        )
        self._questions.append(
            _Question(
                message, ListOffsetsResponse, LIST_OFFSETS_VERSION, lambda found: self._ended(step, timestamp, found)
            )
        )

    def _ended(self, step: OutOfRange, timestamp: int, response: Struct) -> None:
        """Where the leader's log ends, then where it begins: as Kafka's followers find their place again."""
        assert isinstance(response, ListOffsetsResponse)
        row = self._row_of(step)
        told = [partition for topic in response.topics for partition in topic.partitions]
        if row is None or not told or told[0].error_code:
            self.fetch.failed(step.ordinal, self._clock.monotonic_ms())
            return
        offset = told[0].offset
        if timestamp == LATEST and offset >= row.leo:
            self._ask_end(step, EARLIEST)
        elif timestamp == LATEST:
            self._cut(row, offset)
        elif offset > row.leo:
            self._begin_anew(row, offset)
        else:
            self.fetch.failed(step.ordinal, self._clock.monotonic_ms())

    def _begin_anew(self, row: Followed, offset: int) -> None:
        code = self._logs.log.start_at(row.ordinal, offset, row.leader_epoch, self._clock.wall_ms())
        self._crash_point("fetcher.begun_anew")
        if code:
            self._step_failed(row.ordinal, code)
            return
        self._say("replica_begun_anew", ordinal=row.ordinal, leader=self.leader, end=row.leo, at=offset)
        self._look_again(row.ordinal)
