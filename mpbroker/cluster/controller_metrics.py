"""Kafka's numbers about the controller's work, collected in its own process; the process around it shows them. Pure."""

from mpbroker.cluster.timer import Timer
from mpbroker.cluster.wanted_state import PartitionView


class ControllerMetrics:
    """Besides those of each broker's channel (wanted_state.py). EventQueueTimeMs: from a command's arrival at the
    process until it is handled, which the process tells. `election_time`: from what made partitions be looked at until
    all that were given another leader have it in the store."""

    def __init__(self) -> None:
        self.event_queue_time = Timer()
        self.election_time = Timer()
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
