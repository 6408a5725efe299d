"""The state of one transactional id: a value; what may follow it says `transitions.py`. Coordinator process."""

from __future__ import annotations

from enum import Enum, unique
from typing import Final, TypeAlias

import msgspec

#: (topic, partition)
Partition: TypeAlias = tuple[str, int]
NO_EPOCH: Final = -1
NO_ID: Final = -1
NO_TIME: Final = -1
LAST_EPOCH: Final = 2**15 - 1
EXHAUSTED_EPOCH: Final = LAST_EPOCH - 1  # the highest one for a producer: the last is for fencing it
RAISES_EPOCHS: Final = 2  # the version of transactions in which each end of one raises the epoch (KIP-890)


@unique
class State(Enum):
    """Kafka's numbers in records; `label` is the name clients see. PrepareEpochFence (7) is never written."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def label(self) -> str:
        """As DescribeTransactions writes it."""
        return "".join(part.capitalize() for part in self.name.split("_"))


COMPLETE: Final = frozenset({State.COMPLETE_COMMIT, State.COMPLETE_ABORT})
PREPARED: Final = frozenset({State.PREPARE_COMMIT, State.PREPARE_ABORT})
RESTING: Final = COMPLETE | {State.EMPTY}


class Transaction(msgspec.Struct, frozen=True):
    """One transactional id. Times are since 1970, -1: none.

    `last_epoch`: the epoch before the present one, whose InitProducerId may be repeated; known only to the process that
    raised it. `previous_producer_id`, `next_producer_id`: around a change of the id because its epochs are used up.
    `client_version`: 2 if the producer speaks KIP-890's second part, which raises the epoch with every transaction.
    """

    id: str
    producer_id: int
    epoch: int = NO_EPOCH
    timeout_ms: int = 0
    state: State = State.EMPTY
    partitions: frozenset[Partition] = frozenset()
    start_ms: int = NO_TIME
    last_update_ms: int = NO_TIME
    last_epoch: int = NO_EPOCH
    previous_producer_id: int = NO_ID
    next_producer_id: int = NO_ID
    client_version: int = 0

    @property
    def successor(self) -> tuple[int, int]:
        """Producer id and epoch with which the producer goes on when a prepared transaction is complete."""
        return (self.producer_id, self.epoch) if self.next_producer_id == NO_ID else (self.next_producer_id, 0)

    @property
    def is_exhausted(self) -> bool:
        """Whether its producer id has no further epoch for a producer."""
        return self.epoch >= EXHAUSTED_EPOCH

    @property
    def is_committed(self) -> bool:
        """How it ended, or is ending."""
        return self.state in (State.PREPARE_COMMIT, State.COMPLETE_COMMIT)

    @property
    def over_time_ms(self) -> int:
        """From when on an ongoing transaction lasts longer than its producer allowed."""
        return self.start_ms + self.timeout_ms + 1

    def is_over_time(self, wall_ms: int) -> bool:
        """Whether the transaction lasts longer than its producer allowed."""
        return self.state is State.ONGOING and self.over_time_ms <= wall_ms

    def is_unused(self, wall_ms: int, expiration_ms: int) -> bool:
        """Whether it has rested long enough to be forgotten."""
        return self.state in RESTING and self.last_update_ms + expiration_ms <= wall_ms
