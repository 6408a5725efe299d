"""What goes into the coordinator's logic and what comes out of it: values only. Runs in the coordinator process.

The logic calls nothing. The shell (the process) hands it one request, acknowledgement or passing of time after the
other and then carries out, in order, the effects that it returns:

- `Answer`: send this message and free the entry. Each token that came in is answered exactly once, perhaps much later.
- `Append`: append these records to a partition of `__consumer_offsets` as one batch, now; when they are acknowledged,
  or cannot be, call `GroupCoordinator.appended` with the number and the code. An append that names a token uses the
  result cell that the token's entry keeps for this partition, so that a re-run does not append again.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import msgspec

from mpbroker.protocol.types import Struct

#: An entry that was handed over; the logic only keeps it and gives it back. None in an Append: no entry's cell.
Token: TypeAlias = object


class Now(NamedTuple):
    """The present. `ms`: monotonic, for deadlines; `wall_ms`: since 1970, for what is written into records."""

    ms: int
    wall_ms: int


class GroupRequest(msgspec.Struct, frozen=True):
    """One request for the coordinator.

    `client_host` as Kafka writes it: a slash, then the address. `lane`: the processor whose entry the token is.
    `identity`: bytes that no other request of this boot has, and that a re-run of this one has again; member ids are
    made from them. `appended`: the partitions of `__consumer_offsets` for which the entry's cell is filled: an earlier
    run of this request appended there already.
    """

    token: Token
    api_key: int
    version: int
    message: Struct
    client_id: str = ""
    client_host: str = ""
    lane: int = 0
    identity: bytes = b""
    appended: frozenset[int] = frozenset()


class Answer(NamedTuple):
    """The response to a request, of the request's API and meant for its version."""

    token: Token
    message: Struct


class Append(NamedTuple):
    """One batch for one partition of `__consumer_offsets`. A value of None is a tombstone."""

    partition: int
    leader_epoch: int
    number: int
    token: Token | None
    timestamp_ms: int
    records: tuple[tuple[bytes, bytes | None], ...]


Effect: TypeAlias = Answer | Append
