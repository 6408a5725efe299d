"""Kafka's numbers about the controller's work, collected in its own process; the process around it shows them. Pure."""

from mpbroker.cluster.timer import Timer
from mpbroker.cluster.wanted_state import PartitionView


class ControllerMetrics:
    """Besides those of each broker's channel (wanted_state.py). EventQueueTimeMs: from an event's arrival at the
    process until it is handled, which the process tells."""

    def __init__(self) -> None:
        self.event_queue_time = Timer()
        self.elections = 0
        self.unclean_elections = 0
        self.transactions = 0
        self.conflicts = 0
        self.unknown = 0

    def partition_changed(self, before: PartitionView | None, after: PartitionView | None) -> None:
        """LeaderElectionRateAndTimeMs and UncleanLeaderElectionsPerSec count these."""
        if before and after and after.leader >= 0 and after.leader != before.leader:
            self.elections += 1
            self.unclean_elections += after.recovering and not before.recovering
