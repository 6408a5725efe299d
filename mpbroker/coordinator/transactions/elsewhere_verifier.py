"""Lets a producer write within a transaction that another broker coordinates (KIP-890). Coordinator process of a broker
of a cluster.

The partition's row of the producer is given a guard, the coordinator is asked, and the row is told if the guard is
still there: a marker that came meanwhile has taken it out, and what the coordinator said was of the transaction before.
Without that a late batch would begin a transaction that nobody ends.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from mpbroker.coordinator.effects import AskCoordinator
from mpbroker.coordinator.transactions.other_brokers import Codes, OtherBrokers, Partition
from mpbroker.errors import ErrorCode
from mpbroker.log.log_manager import LogManager
from mpbroker.metadata.metadata_cache import MetadataCache
from mpbroker.metadata.topic_names import TRANSACTIONS_TOPIC

FIRST_GUARD, GUARDS, TAKE_BACK = -2, 32_000, -1
#: Guards by partition.
Guards = dict[Partition, int]
_NOT_HERE: Final = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


class ElsewhereVerifier:
    """`state_partition(id)`: of `__transaction_state`; `asked(number, code)` hears what became of a question."""

    def __init__(
        self,
        log_manager: LogManager,
        metadata: MetadataCache,
        others: OtherBrokers,
        state_partition: Callable[[str], int],
        asked: Callable[[int, int], None],
    ) -> None:
        self._logs = log_manager
        self._metadata = metadata
        self._others = others
        self._state_partition = state_partition
        self._asked = asked
        self._guards = 0

    def ask(self, effect: AskCoordinator) -> None:
        """Answered at once or later."""
        guards: Guards = {}
        for one in effect.partitions:
            code, guard = self._guard(one, effect)
            if code in _NOT_HERE:  # whoever appends there is told so
                continue
            if code:
                self._take_back(guards, effect)
                self._asked(effect.number, code)
                return
            if guard <= FIRST_GUARD:
                guards[one] = guard
        if not guards:
            self._asked(effect.number, ErrorCode.NONE)
            return
        asked = effect._replace(partitions=frozenset(guards))
        address = self._others.address(TRANSACTIONS_TOPIC, self._state_partition(effect.transactional_id))
        self._others.ask(asked, address, partial(self._answered, effect, guards))

    def _guard(self, one: Partition, effect: AskCoordinator) -> tuple[int, int]:
        topic = self._metadata.topic(one[0])
        if topic is None or one[1] >= len(topic.partitions):
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0
        self._guards = (self._guards + 1) % GUARDS
        new = FIRST_GUARD - self._guards
        producer_id, epoch = effect.producer_id, effect.producer_epoch
        return self._logs.log.guard(topic.partitions[one[1]], producer_id, epoch, new, topic.id)

    def _take_back(self, guards: Guards, effect: AskCoordinator) -> None:
        for one, guard in guards.items():
            self._tell(one, effect.producer_id, TAKE_BACK, guard)

    def _tell(self, one: Partition, producer_id: int, epoch: int, guard: int) -> int:
        topic = self._metadata.topic(one[0])
        if topic is None or one[1] >= len(topic.partitions):
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return self._logs.log.verify(topic.partitions[one[1]], producer_id, epoch, topic.id, guard)

    def _answered(self, effect: AskCoordinator, guards: Guards, codes: Codes) -> None:
        """Of several partitions with an error the first one's code counts."""
        worst = ErrorCode.NONE
        for one, guard in sorted(guards.items()):
            code = codes[one]
            told = self._tell(one, effect.producer_id, TAKE_BACK if code else effect.producer_epoch, guard)
            code = code or (told if told not in _NOT_HERE else ErrorCode.NONE)
            worst = worst or code
        self._asked(effect.number, worst)
