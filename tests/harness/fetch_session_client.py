"""The client's half of a fetch session, as careful clients keep it: what it reads, and what it was told."""

from __future__ import annotations

from mpbroker.errors import ErrorCode
from mpbroker.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from mpbroker.protocol.types import ZERO_UUID

BY_ID_SINCE = 13
Place = tuple[str, int]  # topic, partition
LOST = (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ErrorCode.INVALID_FETCH_SESSION_EPOCH)


class SessionClient:
    """`ids`: topic ids by name, for versions that want them. `reads`: place → offset; `knows`: place → (high watermark,
    log start, error) as the answers said."""

    def __init__(self, version: int, ids: dict[str, bytes] | None = None) -> None:
        self.version, self.ids = version, ids or {}
        self.session_id, self.epoch = 0, 0
        self.reads: dict[Place, int] = {}
        self.told: dict[Place, int] = {}  # what the session has
        self.knows: dict[Place, tuple[int, int, int]] = {}

    def request(self, **fields) -> FetchRequest:
        """The next request: everything, or what has changed."""
        is_new = self.epoch == 0
        changed = {p: at for p, at in self.reads.items() if is_new or self.told.get(p) != at}
        gone = [] if is_new else [p for p in self.told if p not in self.reads]
        self.told = dict(self.reads)
        for place in self.knows.keys() - self.reads.keys():  # also without a session: all is told anew
            del self.knows[place]
        return fetch_of(
            self.version, self.ids, changed, gone, session_id=self.session_id, session_epoch=self.epoch, **fields
        )

    def take(self, answer) -> dict[Place, object]:
        """Takes an answer in; what was in it by place. A session that is lost is begun anew by the next request."""
        if answer.error_code in LOST:
            self.session_id = self.epoch = 0
            self.knows.clear()
            return {}
        assert answer.error_code == 0, answer
        if self.epoch == 0:
            self.session_id = answer.session_id
        self.epoch = self.epoch % (2**31 - 1) + 1 if answer.session_id else 0
        assert answer.session_id in (0, self.session_id)
        if not answer.session_id:
            self.session_id = 0
        found = places_of(answer, self.ids)
        self.knows.update({p: (d.high_watermark, d.log_start_offset, d.error_code) for p, d in found.items()})
        return found


def fetch_of(version, ids, asked, forgotten=(), partition_bytes=1 << 20, **fields) -> FetchRequest:
    """A request for places at offsets; `forgotten`: places."""

    def named(name: str) -> dict[str, object]:
        by_id = version >= BY_ID_SINCE
        return {"topic": "" if by_id else name, "topic_id": ids[name] if by_id else ZERO_UUID}

    topics = {}
    for (name, number), offset in asked.items():
        topic = topics.setdefault(name, FetchTopic(**named(name), partitions=[]))
        topic.partitions.append(
            FetchPartition(partition=number, fetch_offset=offset, partition_max_bytes=partition_bytes)
        )
    gone = [ForgottenTopic(**named(name), partitions=[number]) for name, number in forgotten]
    defaults = {"max_wait_ms": 0, "min_bytes": 0, "max_bytes": 1 << 20}
    return FetchRequest(**defaults | fields, topics=list(topics.values()), forgotten_topics_data=gone)


def places_of(answer, ids) -> dict[Place, object]:
    """The partitions of an answer by place."""
    names = {topic_id: name for name, topic_id in ids.items()}
    return {
        (names.get(topic.topic_id) or topic.topic, each.partition_index): each
        for topic in answer.responses
        for each in topic.partitions
    }
