"""Replicas that their brokers cannot serve because a log directory failed, as their answers to LeaderAndIsr say. Of the
elected controller, for one term: the next one tells every broker everything, and hears it again. Pure.

For elections such a broker counts as dead, for that partition alone, until it starts again.
"""

from collections.abc import Iterable
from typing import Any

from mpbroker.cluster.cluster_image import PartitionId
from mpbroker.errors import ErrorCode
from mpbroker.protocol.messages.leader_and_isr import LeaderAndIsrResponse


class OfflineReplicas:
    """`by_partition`: the brokers that cannot serve it."""

    def __init__(self) -> None:
        self.by_partition: dict[PartitionId, set[int]] = {}

    def answered(self, broker: int, response: Any) -> list[PartitionId]:
        """What a broker answered; returns the partitions for which it means something new."""
        if not isinstance(response, LeaderAndIsrResponse):
            return []
        changed = []
        for topic in response.topics:
            for one in topic.partition_errors:
                partition = PartitionId(topic.topic_id, one.partition_index)
                if one.error_code == ErrorCode.KAFKA_STORAGE_ERROR and broker not in self._of(partition):
                    self.by_partition.setdefault(partition, set()).add(broker)
                    changed.append(partition)
                elif one.error_code == ErrorCode.NONE and broker in self._of(partition):
                    self._forget(partition, broker)
                    changed.append(partition)
        return changed

    def restarted(self, broker: int) -> None:
        """A new life of a broker: it will say anew what it cannot serve."""
        for partition in [each for each, brokers in self.by_partition.items() if broker in brokers]:
            self._forget(partition, broker)

    def _of(self, partition: PartitionId) -> Iterable[int]:
        return self.by_partition.get(partition, ())

    def _forget(self, partition: PartitionId, broker: int) -> None:
        self.by_partition[partition].discard(broker)
        if not self.by_partition[partition]:
            del self.by_partition[partition]
