"""The table of fetch sessions in shared memory (native/fetch/session_table.h), for a request handler process.

A session is held while its row is read and written, which is short, and let go of between a request's beginning and its
answer. Here is only how it is stored; what requests do to it is server/fetch_session.py's business.
"""

import struct
from collections.abc import Iterable
from typing import Final, NamedTuple

from msgspec import Struct

from mpbroker import _native
from mpbroker._native import LAYOUT, SESSION_BUSY, SESSION_HELD, SESSION_UNKNOWN
from mpbroker.protocol.types import ZERO_UUID

__all__ = ["SESSION_BUSY", "SESSION_HELD", "SESSION_UNKNOWN", "FetchSessionTable", "SessionPartition", "SessionRow"]

BY_ID: Final = LAYOUT["session_by_id"]
PRIVILEGED: Final = LAYOUT["session_privileged"]
ANSWERED: Final = LAYOUT["session_answered"]
NAME_BYTES: Final = LAYOUT["session_name_bytes"]
EVICTION_MS: Final = 120_000  # Kafka's min.incremental.fetch.session.eviction.ms, which is no setting there either

_TOPIC: Final = struct.Struct(f"<16sI{NAME_BYTES}s")
_PARTITION: Final = struct.Struct("<qqqqIiiii12x")


class SessionPartition(Struct):
    """A partition of a session: what the client asked for last, and what it knows. In a session by ids `topic` is
    empty until the id is known, and `topic_id` is zeros in one by names."""

    topic: str
    topic_id: bytes
    partition: int
    fetch_offset: int
    max_bytes: int
    leader_epoch: int
    last_epoch: int
    asked_log_start: int
    high_watermark: int = -1
    log_start: int = -1

    @property
    def key(self) -> tuple[bytes | str, int]:
        """What makes it this partition."""
        return self.topic_id if self.topic_id != ZERO_UUID else self.topic, self.partition


class SessionRow(NamedTuple):
    """A session as it is stored. `epoch`: that the next request must have; `fill_number`: of the last request."""

    epoch: int
    by_id: bool
    is_answered: bool
    fill_number: int
    flags: int
    partitions: list[SessionPartition]


def rows_of(partitions: Iterable[SessionPartition]) -> tuple[int, int, bytes] | None:
    """(topics, partitions, their rows) as they are stored; None: a name is too long to be a topic's."""
    topics: dict[tuple[bytes, str], int] = {}
    rows = bytearray()
    count = 0
    for each in partitions:
        topic = topics.setdefault((each.topic_id, each.topic), len(topics))
        rows += _PARTITION.pack(
            each.fetch_offset,
            each.high_watermark,
            each.log_start,
            each.asked_log_start,
            topic,
            each.partition,
            each.max_bytes,
            each.leader_epoch,
            each.last_epoch,
        )
        count += 1
    names = bytearray()
    for topic_id, name in topics:
        encoded = name.encode()
        if len(encoded) > NAME_BYTES:
            return None
        names += _TOPIC.pack(topic_id, len(encoded), encoded)
    return len(topics), count, bytes(names + rows)


def _partitions_of(topics: int, rows: bytes) -> list[SessionPartition]:
    at = topics * _TOPIC.size
    named = [(topic_id, name[:length].decode()) for topic_id, length, name in _TOPIC.iter_unpack(rows[:at])]
    found = []
    for (
        offset,
        high_watermark,
        log_start,
        asked,
        topic,
        partition,
        max_bytes,
        leader_epoch,
        last_epoch,
    ) in _PARTITION.iter_unpack(memoryview(rows)[at:]):
        topic_id, name = named[topic]
        found.append(
            SessionPartition(
                name, topic_id, partition, offset, max_bytes, leader_epoch, last_epoch, asked, high_watermark, log_start
            )
        )
    return found


class FetchSessionTable(_native.FetchSessions):
    """`hold`, then `row`, and `put`, `release` or `drop`. What it inherits: these and `recover`."""

    def row(self) -> SessionRow:
        """The session that is held."""
        epoch, flags, fill_number, topics, _, rows = self.read()
        return SessionRow(
            epoch, bool(flags & BY_ID), bool(flags & ANSWERED), fill_number, flags, _partitions_of(topics, rows)
        )

    def put(self, row: SessionRow, now_ms: int = 0) -> bool:
        """Stores the session that is held and lets go of it. False: there is no room for it, and it is no more."""
        stored = rows_of(row.partitions)
        if stored is None or not self.write(*stored):
            self.drop()
            return False
        flags = row.flags & ~ANSWERED | (ANSWERED if row.is_answered else 0)
        self.keep(row.epoch, flags, row.fill_number, now_ms)
        return True

    def make(self, now_ms: int, by_id: bool, privileged: bool, partitions: list[SessionPartition]) -> int:
        """A new session's id; 0: there is no room for it."""
        stored = rows_of(partitions)
        if stored is None:
            return 0
        flags = (BY_ID if by_id else 0) | (PRIVILEGED if privileged else 0)
        session_id = self.create(now_ms, EVICTION_MS, flags, stored[0], stored[1])
        if session_id:
            self.write(*stored)
            self.keep(1, flags, 0, now_ms)
        return session_id
