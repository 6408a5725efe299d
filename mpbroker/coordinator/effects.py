"""What goes into the coordinator's logic and what comes out of it: values only. Runs in the coordinator process.

The logic calls nothing. The shell (the process) hands it one request, acknowledgement or passing of time after the
other and then carries out, in order, the effects that it returns:

- `Answer`: send this message and free the entry. Each token that came in is answered exactly once, perhaps much later.
- `Append`: append these records to a partition of the topic as one batch, now; when they are acknowledged, or cannot
  be, call `appended` of the topic's logic with the number and the code. An append that names a token uses the result
  cell that the token's entry keeps for this partition, so that a re-run does not append again.
- `Verify`: let a producer write to partitions within its transaction; then call `TransactionCoordinator.verified`.
- `SendMarkers`: end a transaction in its partitions, however long that takes; then call
  `TransactionCoordinator.marked`.
- `TakeProducerIds`: get a block of them from the controller; then call `TransactionCoordinator.add_producer_ids`.
- `AskCoordinator`: add partitions to a transaction at its coordinator on another broker, or ask whether they are part
  of it (KIP-890); then call `TransactionCoordinator.asked`.
- `PassOn`: transactions have nothing against this request, which groups now answer.
- `GiveBack`: a Produce request whose partitions were added to its transaction goes back to the request handlers; with a
  code they were not, and the code goes into the cells of those partitions that have no result yet.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import msgspec

from mpbroker.metadata.topic_names import OFFSETS_TOPIC
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
    made from them. `appended`: the partitions of the request's internal topic for which the entry's cell is filled: an
    earlier run of this request appended there already.
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
    is_verified: bool = False  # the coordinator, on another broker, has said that its transaction is on


class Answer(NamedTuple):
    """The response to a request, of the request's API and meant for its version."""

    token: Token
    message: Struct


class Append(NamedTuple):
    """One batch for one partition of an internal topic. A value of None is a tombstone. `producer`: id and epoch of the
    transaction the batch belongs to."""

    partition: int
    leader_epoch: int
    number: int
    token: Token | None
    timestamp_ms: int
    records: tuple[tuple[bytes, bytes | None], ...]
    topic: str = OFFSETS_TOPIC
    producer: tuple[int, int] | None = None
    is_verified: bool = False  # the partition knows of the transaction already, or is not to take the batch


class Verify(NamedTuple):
    """Partitions (topic, partition) that a producer may write to from now on."""

    shard: int
    number: int
    producer_id: int
    producer_epoch: int
    partitions: frozenset[tuple[str, int]]


class AskCoordinator(NamedTuple):
    """Partitions (topic, partition), led here, that a producer writes to. `verify_only`: its transaction should have
    them; else they are added to it."""

    number: int
    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: frozenset[tuple[str, int]]
    verify_only: bool


class SendMarkers(NamedTuple):
    """Partitions (topic, partition) in which a transaction ends. `shard`: the partition of `__transaction_state` that
    decided it, -1: an administrator did; `coordinator_epoch`: its leader epoch."""

    shard: int
    number: int
    producer_id: int
    producer_epoch: int
    committed: bool
    coordinator_epoch: int
    partitions: frozenset[tuple[str, int]]


class TakeProducerIds(NamedTuple):
    """There are no producer ids left."""


class PassOn(NamedTuple):
    """A request that groups answer, after transactions looked at it."""

    request: GroupRequest


class GiveBack(NamedTuple):
    """A Produce request that request handlers go on with."""

    request: GroupRequest
    code: int


Effect: TypeAlias = Answer | Append | Verify | AskCoordinator | SendMarkers | TakeProducerIds | PassOn | GiveBack
