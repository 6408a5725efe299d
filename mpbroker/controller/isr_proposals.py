"""Changes of in-sync replicas that this broker's leaders want, sent to the controller as AlterPartition (KIP-497).
Controller process of a broker of a cluster only.

One request is in flight at a time, as in Kafka. What is wanted stands in the rows (Log.take_isr_proposals), so
nothing is kept here that a successor would miss: it asks again for what is pending."""

from collections.abc import Callable
from typing import Any, Final

from mpbroker.errors import ErrorCode
from mpbroker.protocol.messages.alter_partition import (
    AlterPartitionPartition,
    AlterPartitionRequest,
    AlterPartitionResponse,
    AlterPartitionTopic,
    BrokerState,
)
from mpbroker.shm.counters import Counter

MAX_PARTITIONS: Final = 500
RETRY_MS: Final = 50
UNKNOWN_EPOCH: Final = -1
NO_EPOCH: Final = 0

Proposal = tuple[int, int, int, tuple[int, ...]]  # ordinal, leader epoch, partition epoch, wanted ISR


class IsrProposals:
    """`identity_of(ordinal)`: topic id and number of a row's partition; `broker_epoch(id)`: -1 not
    known; `count(counter, n)`: of changes."""

    def __init__(
        self,
        *,
        log: Any,
        self_id: int,
        lag_ms: int,
        identity_of: Callable[[int], tuple[bytes, int]],
        broker_epoch: Callable[[int], int],
        count: Callable[[Counter, int], object] = lambda counter, n: None,
    ) -> None:
        self._log = log
        self._self_id = self_id
        self._lag_ms = lag_ms
        self._identity_of = identity_of
        self._broker_epoch = broker_epoch
        self._count = count
        self._in_flight: dict[tuple[bytes, int], Proposal] = {}
        self._again = True  # a predecessor's were perhaps never answered
        self._not_before_ms = 0
        self._looked_ms = 0

    def next_request(self, now_ms: int) -> AlterPartitionRequest | None:
        """None: nothing is wanted, or it was refused a moment ago."""
        if now_ms < self._not_before_ms:
            return None
        shrink = now_ms - self._looked_ms >= self._lag_ms // 2
        found, busy = self._log.take_isr_proposals(self._lag_ms if shrink else -1, now_ms, self._again)
        self._again = self._again and busy  # one that was asked for already would wait for good
        if shrink:
            self._looked_ms = now_ms
        if not found:
            return None
        if len(found) > MAX_PARTITIONS:
            self._again = True
            found = found[:MAX_PARTITIONS]
        self._in_flight = {self._identity_of(proposal[0]): proposal for proposal in found}
        try:
            return self._request()
        except TimeoutError:  # a partition whose lock is not to be had
            self._in_flight, self._again, self._not_before_ms = {}, True, now_ms + RETRY_MS
            return None

    def _request(self) -> AlterPartitionRequest:
        topics: dict[bytes, AlterPartitionTopic] = {}
        for (topic_id, partition), (ordinal, leader_epoch, partition_epoch, isr) in self._in_flight.items():
            topic = topics.setdefault(topic_id, AlterPartitionTopic(topic_id=topic_id))
            topic.partitions.append(
                AlterPartitionPartition(
                    partition_index=partition,
                    leader_epoch=leader_epoch,
                    new_isr_with_epochs=self._members(ordinal, isr),
                    partition_epoch=partition_epoch,
                )
            )
        own_epoch = self._broker_epoch(self._self_id)
        return AlterPartitionRequest(broker_id=self._self_id, broker_epoch=own_epoch, topics=list(topics.values()))

    def _members(self, ordinal: int, isr: tuple[int, ...]) -> list[BrokerState]:
        """Each with the broker epoch of the fetch that was counted (KIP-903), not the one it has by now: a follower
        that lost records with its machine must not be in sync by what it had before. Of those that fetch anew and are
        behind again, an epoch that nobody has."""
        state = self._log.replica_state(ordinal)
        epochs = {self._self_id: self._broker_epoch(self._self_id)}
        for broker, log_end, _, broker_epoch in () if state is None else state.followers:
            epochs[broker] = broker_epoch if broker in state.isr or log_end >= state.hw else NO_EPOCH
        return [BrokerState(broker, epochs.get(broker, UNKNOWN_EPOCH)) for broker in isr]

    def answered(self, response: AlterPartitionResponse | None, now_ms: int) -> int:
        """The controller's answer, None: none came. Returns the code of the whole."""
        code = ErrorCode.NETWORK_EXCEPTION if response is None else response.error_code
        if response is None or code:
            self._again, self._not_before_ms = True, now_ms + RETRY_MS
            self._in_flight = {}
            return int(code)
        for topic in response.topics:
            for result in topic.partitions:
                identity = topic.topic_id, result.partition_index
                proposal = self._in_flight.pop(identity, None)
                if proposal is None or self._identity_of(proposal[0]) != identity:
                    continue  # its row is another partition's by now
                ordinal, leader_epoch, *_ = proposal
                isr = tuple(result.isr)
                self._count_change(ordinal, isr, result.error_code)
                told = self._log.isr_answered(ordinal, leader_epoch, result.partition_epoch, isr, result.error_code)
                is_busy = told == ErrorCode.REQUEST_TIMED_OUT  # it has not heard: asked again, which does no harm
                self._again |= is_busy
                if result.error_code or is_busy:
                    self._not_before_ms = now_ms + RETRY_MS
        if self._in_flight:
            self._again, self._in_flight = True, {}
        return 0

    def _count_change(self, ordinal: int, isr: tuple[int, ...], error_code: int) -> None:
        """Before the partition hears of it."""
        if error_code:
            self._count(Counter.ISR_UPDATES_FAILED, 1)
            return
        try:
            state = self._log.replica_state(ordinal)
        except TimeoutError:  # it is busy: asked again and counted then
            return
        before = set(() if state is None else state.isr)
        self._count(Counter.ISR_SHRINKS, len(before - set(isr)))
        self._count(Counter.ISR_EXPANDS, len(set(isr) - before))
