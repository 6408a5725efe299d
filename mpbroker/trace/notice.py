"""What processors report to the tracer about their connections, and the agent about roles: one JSON line each, through
one pipe all of them share.

Encoding and decoding are pure; a NoticeWriter belongs to one process. The supervisor makes the pipe, non-blocking at
both ends: `ctx.trace_notices_fd` is its writing end in a processor and in a cluster's agent, its reading end in the
tracer, -1 while tracing is off. A line is no longer than PIPE_BUF, so lines of several writers never mix, and one that
finds the pipe full is dropped and counted: after a loss, the next notice written is followed by a NoticesLost that says
how many. Nothing is sent per request.

    {"k":"begin","t0":ns,"proc":index}                  a processor begins: whatever its predecessor had open is gone
    {"k":"open","t0":ns,"conn":id,"proc":index,"listener":index,"peer":"host:port"}
    {"k":"close","t0":ns,"conn":id,"proc":index,"listener":index,"requests":n,"reason":CloseReason}
    {"k":"client","conn":id,"hash":h,"name":text}       the first request of a connection with this client id
    {"k":"software","conn":id,"name":text,"version":text}   KIP-511
    {"k":"role","t0":ns,"topic":hash,"partition":n,"epoch":leader epoch,"old":role,"new":role,"end":log end,"hw":n,
     "controller":epoch,"leader":id or role_change.NO_LEADER}
    {"k":"lost","proc":index,"n":lines}

`t0` is CLOCK_MONOTONIC. `conn` is a record's conn_id: unique in the life of a broker (the processor's index is in its
top five bits).
"""

import json
import os
from enum import IntEnum
from typing import NamedTuple

PIPE_BUF = 4096
NO_PROCESSOR = 0xFFFF
MAX_CLIENT_ID, MAX_SOFTWARE, MAX_PEER = 255, 100, 64  # characters; each becomes at most 12 bytes
_U32, _U64 = 2**32 - 1, 2**64 - 1


class CloseReason(IntEnum):
    """Why a connection ended; `error` of its record of kind 2."""

    CLIENT = 0  # the client closed or reset it
    ANSWERED = 1  # a handler's answer said so
    REFUSED = 2  # it sent what cannot be answered
    IDLE = 3
    FRAME_TIMEOUT = 4
    EXCESS = 5  # max.connections
    STUCK = 6  # it did not take its answers
    STOPPING = 7  # the broker stops
    DIED = 8  # the processor died without a notice
    FAILED = 9  # serving it raised an unexpected exception


class ProcessorBegan(NamedTuple):
    """The first notice of a processor; those of a predecessor that was killed all come before it."""

    t0_ns: int
    processor: int


class ConnectionOpened(NamedTuple):
    """A processor has taken a connection, which was accepted at t0_ns. `peer` is host:port, a colon inside the host
    means brackets."""

    t0_ns: int
    conn_id: int
    processor: int
    listener: int
    peer: str


class ConnectionClosed(NamedTuple):
    """A connection ended after so many requests."""

    t0_ns: int
    conn_id: int
    processor: int
    listener: int
    requests: int
    reason: int


class ClientNamed(NamedTuple):
    """The client id behind a client_hash, and a connection that uses it."""

    conn_id: int
    client_hash: int
    name: str


class SoftwareNamed(NamedTuple):
    """What a connection's ApiVersions request said about the client."""

    conn_id: int
    name: str
    version: str


class NoticesLost(NamedTuple):
    """Lines a processor could not write since its last such notice."""

    processor: int
    count: int  # type: ignore[assignment]  # hides tuple.count, which nobody calls


class RoleChanged(NamedTuple):
    """A partition's role at this broker is another one, or another leader epoch's (trace/role_change.py)."""

    t0_ns: int
    topic_hash: int
    partition: int
    leader_epoch: int
    old_role: int
    new_role: int
    log_end: int
    high_watermark: int
    controller_epoch: int
    leader: int


Notice = ProcessorBegan | ConnectionOpened | ConnectionClosed | ClientNamed | SoftwareNamed | RoleChanged | NoticesLost

#: kind → (class, key and bound of each field in its order: the largest number, or minus the characters of a text)
_KINDS: dict[str, tuple[type[Notice], tuple[tuple[str, int], ...]]] = {
    "begin": (ProcessorBegan, (("t0", _U64), ("proc", 0xFFFF))),
    "open": (
        ConnectionOpened,
        (("t0", _U64), ("conn", _U32), ("proc", 0xFFFF), ("listener", 0xFF), ("peer", -MAX_PEER)),
    ),
    "close": (
        ConnectionClosed,
        (("t0", _U64), ("conn", _U32), ("proc", 0xFFFF), ("listener", 0xFF), ("requests", _U64), ("reason", 0x7FFF)),
    ),
    "client": (ClientNamed, (("conn", _U32), ("hash", _U32), ("name", -MAX_CLIENT_ID))),
    "software": (SoftwareNamed, (("conn", _U32), ("name", -MAX_SOFTWARE), ("version", -MAX_SOFTWARE))),
    "role": (
        RoleChanged,
        (
            ("t0", _U64),
            ("topic", _U32),
            ("partition", 0x7FFFFFFF),
            ("epoch", 0x7FFFFFFF),
            ("old", 0xFF),
            ("new", 0xFF),
            ("end", _U64),
            ("hw", _U64),
            ("controller", 0x7FFFFFFF),
            ("leader", _U32),
        ),
    ),
    "lost": (NoticesLost, (("proc", 0xFFFF), ("n", _U64))),
}
_NAMES = {kind: name for name, (kind, _) in _KINDS.items()}


def encode(notice: Notice) -> bytes:
    """One line with its newline, at most PIPE_BUF bytes: texts are cut, everything beyond ASCII is escaped."""
    name = _NAMES[type(notice)]
    row: dict[str, str | int] = {"k": name}
    values: tuple[str | int, ...] = notice
    for (key, bound), value in zip(_KINDS[name][1], values, strict=True):
        row[key] = str(value)[:-bound] if bound < 0 else min(int(value), bound)
    return json.dumps(row, separators=(",", ":")).encode() + b"\n"


def decode(line: bytes) -> Notice | None:
    """The notice in a line, with or without its newline; None when it is none."""
    if len(line) > PIPE_BUF:
        return None
    try:
        row = json.loads(line)
        kind, fields = _KINDS[row["k"]]
        values = [row[key] for key, _ in fields]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    if not all(_fits(value, bound) for value, (_, bound) in zip(values, fields, strict=True)):
        return None
    return kind(*values)


def _fits(value: object, bound: int) -> bool:
    if bound < 0:
        return isinstance(value, str) and len(value) <= -bound
    return type(value) is int and 0 <= value <= bound


class NoticeWriter:
    """One writer's end of the pipe (`processor` NO_PROCESSOR: the agent's); `fd` -1: writes nothing. `dropped` counts
    lines that found no room."""

    def __init__(self, fd: int, processor: int) -> None:
        self.dropped = 0
        self._untold = 0
        self._fd = fd
        self._processor = processor

    def tell(self, notice: Notice) -> bool:
        """Write one line without waiting. False: it was dropped."""
        if self._fd < 0:
            return False
        if not self._write(encode(notice)):
            self.dropped += 1
            self._untold += 1
            return False
        if self._untold and self._write(encode(NoticesLost(self._processor, self._untold))):
            self._untold = 0
        return True

    def _write(self, line: bytes) -> bool:
        try:
            return os.write(self._fd, line) == len(line)
        except OSError:
            return False  # full, or nobody holds the other end any more
