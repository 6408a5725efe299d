"""When leaders should go back to the preferred replicas by themselves (auto.leader.rebalance.enable). Pure."""

from collections import Counter

from mpbroker.cluster.cluster_config import FIRST_BALANCE_MS, ClusterConfig
from mpbroker.cluster.cluster_image import ClusterImage, PartitionId


class Balance:
    """Looks every leader.imbalance.check.interval.seconds, the first time 5 s after the term began."""

    def __init__(self, image: ClusterImage, config: ClusterConfig) -> None:
        self._image = image
        self._config = config
        self._next_ms = 0

    def start(self, now_ms: int) -> None:
        """The term begins."""
        self._next_ms = now_ms + FIRST_BALANCE_MS

    def due(self, now_ms: int) -> list[PartitionId]:
        """Partitions to give back now. After a step of the clock it looks at once, or late by one interval at most."""
        interval_ms = self._config.leader_imbalance_check_interval_seconds * 1000
        if not self._config.auto_leader_rebalance_enable or self._next_ms - interval_ms <= now_ms < self._next_ms:
            return []
        self._next_ms = now_ms + interval_ms
        return self.misplaced()

    def misplaced(self) -> list[PartitionId]:
        """Partitions led by another than the preferred replica, of brokers that miss more than the share allowed."""
        preferred: Counter[int] = Counter()
        elsewhere: dict[int, list[PartitionId]] = {}
        for partition, state in sorted(self._image.partitions.items()):
            assignment = self._image.assignment(partition)
            if assignment is None or not assignment.target:
                continue
            first = assignment.target[0]
            preferred[first] += 1
            possible = first in state.record.isr and first in self._image.brokers
            if state.record.leader != first and possible and not (assignment.adding or assignment.removing):
                elsewhere.setdefault(first, []).append(partition)
        allowed = self._config.leader_imbalance_per_broker_percentage
        found = []
        for broker, partitions in sorted(elsewhere.items()):
            if len(partitions) * 100 > allowed * preferred[broker]:
                found += partitions
        return found

    def imbalance(self) -> int:
        """PreferredReplicaImbalanceCount: partitions that another than the preferred replica leads."""
        count = 0
        for partition, state in self._image.partitions.items():
            assignment = self._image.assignment(partition)
            count += assignment is not None and state.record.leader != assignment.target[0]
        return count
