"""What a follower asks one leader for, and what it does with the answers. Pure: no socket, no clock, no shared memory.

One `LeaderFetch` for each broker that leads something here. It knows of each followed partition where its log ends and
in which epoch, makes the next Fetch of an incremental session (KIP-227) and turns the answer into steps for the shell
that owns the log (leader_link.py): append, truncate, ask for the leader's ends. What a step came to is told back with
`moved` or `failed`. Nothing here must survive: a successor begins with the ends that stand in shared memory.

Truncation is by the diverging epoch that the leader finds (KIP-595), so no partition is read in an epoch before its end
was compared with the leader's (KIP-101, KIP-279, KIP-320).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple, TypeAlias

import msgspec

from mpbroker.errors import ErrorCode
from mpbroker.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
    ReplicaState,
)

Key: TypeAlias = tuple[bytes, int]
"""Topic id and partition."""

FIRST_PAUSE_MS: Final = 20
THROTTLED_MS: Final = 100
"""A partition that is held back is looked at again after so long."""
NO_SESSION, NEW_SESSION, LAST_EPOCH = 0, 0, 2**31 - 1
SESSION_ERRORS: Final = frozenset(
    (
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
    )
)


class Followed(NamedTuple):
    """A partition that this broker follows, as its row says."""

    ordinal: int
    topic_id: bytes
    partition: int
    leader: int
    leader_epoch: int
    leo: int
    last_epoch: int
    log_start: int
    hw: int

    @property
    def key(self) -> Key:
        """How requests and answers name it."""
        return self.topic_id, self.partition


class Append(NamedTuple):
    """Records from the leader, perhaps none, with its high watermark and log start."""

    ordinal: int
    topic_id: bytes
    leader_epoch: int
    offset: int
    records: bytes | bytearray | memoryview
    high_watermark: int
    log_start: int


class Truncate(NamedTuple):
    """The leader's log and this one part: `epoch` is the largest of its own that is not beyond the last one here, and
    `end_offset` where it ended there."""

    ordinal: int
    topic_id: bytes
    leader_epoch: int
    epoch: int
    end_offset: int


class OutOfRange(NamedTuple):
    """What was asked for is not there: the shell asks for the leader's ends, then truncates or begins anew."""

    ordinal: int
    topic_id: bytes
    leader_epoch: int


Step: TypeAlias = Append | Truncate | OutOfRange


class FetchLimits(NamedTuple):
    """By Kafka's settings replica.fetch.*."""

    wait_max_ms: int = 500
    min_bytes: int = 1
    max_bytes: int = 1 << 20
    response_max_bytes: int = 10 << 20
    backoff_ms: int = 1000


class SteadyStart(NamedTuple):
    """Where a partition's log is when its session begins to be served natively, as the leader was told last."""

    topic_id: bytes
    partition: int
    ordinal: int
    leader_epoch: int
    offset: int
    last_epoch: int
    log_start: int
    leader_hw: int


class SteadyEnd(NamedTuple):
    """Where a partition's log is after it was served natively. `is_untold`: the leader was not told so far; `error`: of
    the last append, 0 most often."""

    ordinal: int
    offset: int
    last_epoch: int
    log_start: int
    leader_hw: int
    is_untold: bool
    error: int


class _Partition(msgspec.Struct):
    """One followed partition on its way. `pause_ms`: the last one after an error; it doubles."""

    row: Followed
    offset: int
    last_epoch: int
    log_start: int
    not_before_ms: int = 0
    pause_ms: int = 0
    leader_hw: int = -1  # as it was told last; −1: not yet
    is_waiting: bool = False  # for a step of the shell
    is_failed: bool = False  # fenced: until the rows are looked at again


class LeaderFetch:
    """The partitions that one broker leads and this one follows, `own_epoch` being this broker's registration.
    `holds_back`: whether a partition that lags is throttled and may not go on now (KIP-73)."""

    def __init__(
        self,
        node_id: int,
        own_epoch: int,
        limits: FetchLimits,
        holds_back: Callable[[int], bool] = lambda ordinal: False,
    ) -> None:
        self.node_id = node_id
        self._holds_back = holds_back
        self.own_epoch = own_epoch
        self.limits = limits
        self._partitions: dict[Key, _Partition] = {}
        self._by_ordinal: dict[int, Key] = {}
        self._told: dict[Key, FetchPartition] = {}
        self._session_id = NO_SESSION
        self._session_epoch = NEW_SESSION
        self._not_before_ms = 0
        self._pause_ms = 0

    def __len__(self) -> int:
        return len(self._partitions)

    def follow(self, rows: Iterable[Followed]) -> None:
        """These and no others from now on. One of the same epoch goes on where it is; one that was fenced and is
        still followed in this epoch begins again after its pause: its row was busy, or had lost its role meanwhile."""
        wanted = {row.key: row for row in rows}
        for key in [key for key in self._partitions if key not in wanted]:
            del self._partitions[key]
        for key, row in wanted.items():
            known = self._partitions.get(key)
            if known is None or (known.row.ordinal, known.row.leader_epoch) != (row.ordinal, row.leader_epoch):
                self._partitions[key] = _begun(row)
            elif known.is_failed:
                again = self._partitions[key] = _begun(row)
                again.pause_ms, again.not_before_ms = known.pause_ms, known.not_before_ms
        self._by_ordinal = {each.row.ordinal: key for key, each in self._partitions.items()}

    def connection_lost(self, now_ms: int) -> None:
        """No session survives its connection here; nothing is asked before the pause is over."""
        self.begin_anew()
        self._pause_ms = self._longer(self._pause_ms)
        self._not_before_ms = now_ms + self._pause_ms

    def begin_anew(self) -> None:
        """With another session, over another connection."""
        self._forget_session()
        for each in self._partitions.values():
            each.is_waiting = False

    def not_before(self, at_ms: int) -> None:
        """Nothing can be asked before that."""
        self._not_before_ms = max(self._not_before_ms, at_ms)

    def next_request(self, now_ms: int) -> FetchRequest | None:
        """What to ask now; None: nothing yet (`due_ms` says when to look again)."""
        if now_ms < self._not_before_ms:
            return None
        for each in self._partitions.values():
            lags = not 0 <= each.leader_hw <= each.offset
            if lags and _is_ready(each, now_ms) and self._holds_back(each.row.ordinal):
                each.not_before_ms = now_ms + THROTTLED_MS
        asked = {key: self._asked(each) for key, each in self._partitions.items() if _is_ready(each, now_ms)}
        if not asked:
            return None
        is_new = self._session_id == NO_SESSION
        changed = asked if is_new else {key: one for key, one in asked.items() if self._told.get(key) != one}
        gone = [] if is_new else [key for key in self._told if key not in asked]
        self._told = asked
        return FetchRequest(
            replica_state=ReplicaState(replica_id=self.node_id, replica_epoch=self.own_epoch),
            max_wait_ms=self._wait_ms(now_ms),
            min_bytes=self.limits.min_bytes,
            max_bytes=self.limits.response_max_bytes,
            session_id=self._session_id,
            session_epoch=self._session_epoch,
            topics=[FetchTopic(topic_id=topic, partitions=some) for topic, some in _by_topic(changed).items()],
            forgotten_topics_data=[
                ForgottenTopic(topic_id=topic, partitions=[number for each, number in gone if each == topic])
                for topic in dict.fromkeys(topic for topic, _ in gone)
            ],
        )

    def due_ms(self, now_ms: int) -> int | None:
        """When something is to be asked that may not be asked now; None: nothing waits for time alone."""
        waiting = [each.not_before_ms for each in self._partitions.values() if not (each.is_waiting or each.is_failed)]
        return max(min(waiting), self._not_before_ms, now_ms) if waiting else None

    def lacks(self) -> bool:
        """Whether a partition is followed by now that the last request does not name."""
        return any(each.not_before_ms == 0 and key not in self._told for key, each in self._partitions.items())

    def answered(self, response: FetchResponse, now_ms: int) -> list[Step]:
        """Steps for the shell, each for another partition."""
        self._pause_ms = 0
        if response.error_code:
            self._forget_session()
            if response.error_code not in SESSION_ERRORS:
                self.connection_lost(now_ms)
            return []
        if response.session_id != self._session_id or self._session_id == NO_SESSION:
            self._session_id = response.session_id
            self._session_epoch = NEW_SESSION
        if self._session_id != NO_SESSION:
            self._session_epoch = _next_epoch(self._session_epoch)
        steps = []
        for topic in response.responses:
            for data in topic.partitions:
                step = self._step((topic.topic_id, data.partition_index), data, now_ms)
                if step is not None:
                    steps.append(step)
        return steps

    def moved(self, ordinal: int, leo: int, last_epoch: int, log_start: int) -> None:
        """A step is done: the log ends here now."""
        each = self._of(ordinal)
        if each is not None:
            each.offset, each.last_epoch, each.log_start = leo, last_epoch, log_start
            each.is_waiting, each.pause_ms = False, 0

    def failed(self, ordinal: int, now_ms: int, is_fenced: bool = False) -> None:
        """A step came to nothing: tried again after a pause, a fenced one once the rows have been looked at."""
        each = self._of(ordinal)
        if each is not None:
            each.is_waiting = False
            each.is_failed = is_fenced
            self._pause(each, now_ms)

    def steady(self) -> tuple[int, int, list[SteadyStart]] | None:
        """With a request under way: the session's id and epoch and its partitions, those of a topic beside each other,
        if they can be served natively from here on. None: one waits for something besides the leader's answer."""
        is_ordered = self._session_id != NO_SESSION and self._told.keys() == self._partitions.keys()
        if not is_ordered or not all(_is_ordinary(each) for each in self._partitions.values()):
            return None
        starts = [
            SteadyStart(
                each.row.topic_id,
                each.row.partition,
                each.row.ordinal,
                each.row.leader_epoch,
                each.offset,
                each.last_epoch,
                each.log_start,
                each.leader_hw,
            )
            for _, each in sorted(self._partitions.items())
        ]
        return self._session_id, self._session_epoch, starts

    def resumed(self, session_epoch: int, is_asked: bool, ends: Iterable[SteadyEnd]) -> None:
        """What was served natively is asked for from here again. `session_epoch`: of the last request; `is_asked`: it
        is still under way."""
        self._session_epoch = session_epoch if is_asked else _next_epoch(session_epoch)
        for end in ends:
            key = self._by_ordinal[end.ordinal]
            each = self._partitions[key]
            each.offset, each.last_epoch, each.log_start = end.offset, end.last_epoch, end.log_start
            each.leader_hw = end.leader_hw
            if not end.is_untold:
                self._told[key] = self._asked(each)

    def lag(self) -> int:
        """Partitions that are not asked for now because of an error."""
        return sum(each.is_failed or each.pause_ms > 0 for each in self._partitions.values())

    def largest_lag(self) -> int:
        """Records that the partition which lags most lacks of what its leader has committed."""
        return max((max(0, each.leader_hw - each.offset) for each in self._partitions.values()), default=0)

    def _of(self, ordinal: int) -> _Partition | None:
        key = self._by_ordinal.get(ordinal)
        return None if key is None else self._partitions.get(key)

    def _asked(self, each: _Partition) -> FetchPartition:
        return FetchPartition(
            partition=each.row.partition,
            current_leader_epoch=each.row.leader_epoch,
            fetch_offset=each.offset,
            last_fetched_epoch=each.last_epoch,
            log_start_offset=each.log_start,
            partition_max_bytes=self.limits.max_bytes,
        )

    def _wait_ms(self, now_ms: int) -> int:
        """For how long the leader may hold the answer back: a partition that waits for its pause, or for a look at its
        row, is to be asked for when that is over, since acks=all waits for it."""
        late = [each for each in self._partitions.values() if not _is_ready(each, now_ms)]
        pauses = [each.pause_ms if each.is_failed else each.not_before_ms - now_ms for each in late]
        return min([self.limits.wait_max_ms, *(max(pause, FIRST_PAUSE_MS) for pause in pauses)])

    def _step(self, key: Key, data: PartitionData, now_ms: int) -> Step | None:
        each = self._partitions.get(key)
        told = self._told.get(key)
        if each is None or told is None or told != self._asked(each) or each.is_waiting:
            return None  # it was asked under another epoch, or is not followed any more
        row = each.row
        if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            each.is_waiting = True
            return OutOfRange(row.ordinal, row.topic_id, row.leader_epoch)
        if data.error_code:
            each.is_failed = data.error_code == ErrorCode.FENCED_LEADER_EPOCH
            self._pause(each, now_ms)
            return None
        each.is_waiting = True
        each.leader_hw = data.high_watermark
        diverging = data.diverging_epoch
        if diverging is not None and diverging.end_offset >= 0:
            return Truncate(row.ordinal, row.topic_id, row.leader_epoch, diverging.epoch, diverging.end_offset)
        return Append(
            row.ordinal,
            row.topic_id,
            row.leader_epoch,
            each.offset,
            b"" if data.records is None or isinstance(data.records, int) else data.records,
            data.high_watermark,
            data.log_start_offset,
        )

    def _pause(self, each: _Partition, now_ms: int) -> None:
        each.pause_ms = self._longer(each.pause_ms)
        each.not_before_ms = now_ms + each.pause_ms

    def _longer(self, pause_ms: int) -> int:
        return min(max(2 * pause_ms, FIRST_PAUSE_MS), max(self.limits.backoff_ms, 1))

    def _forget_session(self) -> None:
        self._session_id, self._session_epoch = NO_SESSION, NEW_SESSION
        self._told = {}


def truncation_target(own_end: int, leader_end: int, leo: int) -> int:
    """Where to cut. `own_end`: where the leader's epoch, or the largest smaller one, ended here; −1: none is known."""
    return min(leader_end, leo) if own_end < 0 else min(own_end, leader_end, leo)


def _begun(row: Followed) -> _Partition:
    return _Partition(row, row.leo, row.last_epoch, row.log_start)


def _next_epoch(epoch: int) -> int:
    return epoch + 1 if epoch < LAST_EPOCH else 1


def _is_ordinary(each: _Partition) -> bool:
    return not (each.is_waiting or each.is_failed or each.pause_ms)


def _is_ready(each: _Partition, now_ms: int) -> bool:
    return not (each.is_waiting or each.is_failed) and each.not_before_ms <= now_ms


def _by_topic(asked: Mapping[Key, FetchPartition]) -> dict[bytes, list[FetchPartition]]:
    topics: dict[bytes, list[FetchPartition]] = {}
    for (topic_id, _), one in asked.items():
        topics.setdefault(topic_id, []).append(one)
    return topics
