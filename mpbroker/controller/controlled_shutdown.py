"""A broker that is to stop asks the cluster's controller to have others lead what it leads (ControlledShutdown, key 7).
Controller process of a broker of a cluster only, while the broker's state is *handing over*.

By Kafka's settings: `controlled.shutdown.max.retries` attempts, `controlled.shutdown.retry.backoff.ms` between them
while partitions remain. An attempt that finds no controller looks again every 100 ms, for as long as that pause. Then
the roles here follow what was decided. Nothing is kept: a successor of this process asks again.
"""

from collections.abc import Callable
from typing import Final

from mpbroker.client.broker_channel import REQUEST_TIMEOUT_MS, BrokerChannel, Outcome
from mpbroker.controller.cluster_topics import ClusterTopics
from mpbroker.errors import ErrorCode
from mpbroker.log.log_manager import Log
from mpbroker.metadata.cluster_records import PartitionRecord
from mpbroker.metadata.keys import Keys
from mpbroker.metadata.meta_store import ClusterStore
from mpbroker.metadata.topic_record import decode_record
from mpbroker.protocol.messages.controlled_shutdown import ControlledShutdownRequest, ControlledShutdownResponse
from mpbroker.shm.cluster_table import assignment_read
from mpbroker.shm.core import Core
from mpbroker.shm.events import Events
from mpbroker.shm.layout import PARTITION_ONLINE, ReplicaRole

SOON_MS: Final = 100
FOLLOW_MS: Final = 2000
"""What was decided is here a moment later; a controller that died meanwhile is not waited for."""


class ControlledShutdown:
    """`controller()`: its address, None: there is none. `follows()`: whether the roles here are as the store has them,
    asked once nothing remains."""

    def __init__(
        self,
        *,
        node_id: int,
        broker_epoch: Callable[[], int],
        controller: Callable[[], tuple[str, int] | None],
        follows: Callable[[], bool],
        attempts: int,
        backoff_ms: int,
        log: Events,
        now_ms: int,
    ) -> None:
        self.channel: BrokerChannel | None = None
        self._node_id = node_id
        self._broker_epoch = broker_epoch
        self._controller = controller
        self._follows = follows
        self._attempts = attempts
        self._backoff_ms = backoff_ms
        self._log = log
        self._began_ms = self._not_before_ms = now_ms
        self._follow_until_ms: int | None = None

    def turn(self, now_ms: int) -> bool:
        """Go on without waiting. True: the broker may stop."""
        if self._follow_until_ms is not None:
            return now_ms >= self._follow_until_ms or self._follows()
        if self._channel_is_of_another():
            self._close()
        outcome = None if self.channel is None else self.channel.turn(now_ms)  # the other side may close an idle one
        if self.channel is not None and self.channel.busy:
            return False
        if outcome is not None:
            self._judge(outcome, now_ms)
        elif now_ms >= self._not_before_ms:
            self._ask(now_ms)
        return self._attempts <= 0

    def _channel_is_of_another(self) -> bool:
        return self.channel is not None and self.channel.address != self._controller()

    def _ask(self, now_ms: int) -> None:
        address = self._controller()
        if address is None:
            self._failed("there is no controller", now_ms)
            return
        if self.channel is None:
            timeout_ms = min(REQUEST_TIMEOUT_MS, max(1000, self._backoff_ms))
            self.channel = BrokerChannel(*address, client_id=str(self._node_id), timeout_ms=timeout_ms)
        request = ControlledShutdownRequest(broker_id=self._node_id, broker_epoch=self._broker_epoch())
        self.channel.send(request, now_ms)

    def _judge(self, outcome: Outcome, now_ms: int) -> None:
        response = outcome.response
        if not isinstance(response, ControlledShutdownResponse):
            self._failed(outcome.problem, now_ms)
        elif response.error_code != ErrorCode.NONE:
            self._failed(f"error {response.error_code}", now_ms)
        elif response.remaining_partitions:
            self._log.info("leaders_remain", partitions=len(response.remaining_partitions))
            self._next_attempt(now_ms)
            self._not_before_ms = now_ms + self._backoff_ms
        else:
            self._follow_until_ms = now_ms + FOLLOW_MS
            self._close()

    def _failed(self, problem: str, now_ms: int) -> None:
        self._not_before_ms = now_ms + SOON_MS
        if now_ms - self._began_ms >= self._backoff_ms:
            self._log.warning("controlled_shutdown_failed", problem=problem)
            self._next_attempt(now_ms)

    def _next_attempt(self, now_ms: int) -> None:
        self._attempts -= 1
        self._began_ms = now_ms

    def _close(self) -> None:
        if self.channel is not None:
            self.channel.close()
        self.channel = None


def follows_the_store(
    store: ClusterStore, keys: Keys, topics: ClusterTopics, log: Log, core: Core, node_id: int
) -> bool:
    """Whether what others lead by the store is led here no more, and clients are told so."""
    for topic in topics.context.by_id.values():
        if not any(node_id in replicas for replicas in topic.replicas):
            continue
        for page in store.scan(keys.partitions_of(topic.id)):
            for entry in page.entries:
                number = int(entry.key.rpartition("/")[2])
                if decode_record(PartitionRecord, entry.value, entry.key).leader == node_id:
                    continue
                if number < len(topic.ordinals) and _leads(topics, log, core, topic.ordinals[number], node_id):
                    return False
    return True


def _leads(topics: ClusterTopics, log: Log, core: Core, ordinal: int, node_id: int) -> bool:
    shown = assignment_read(core, ordinal)
    row = log.state(ordinal)
    is_usable = row.flags & PARTITION_ONLINE and log.log_dir_online(row.log_dir)
    state = log.replica_state(ordinal) if is_usable and topics.has_log(ordinal) else None
    return (state is not None and state.role == ReplicaRole.LEADER) or (shown is not None and shown.leader == node_id)
