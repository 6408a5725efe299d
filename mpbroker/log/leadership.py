"""What a partition's state says about its leadership, for whoever waits for an acknowledgement. Pure; any process.

Kafka's controller raises the leader epoch at every change of the ISR, so an epoch that differs does not mean that the
leader was another one meanwhile: *leader since* is the epoch in which this broker took the lead that it still has.
"""

from __future__ import annotations

from mpbroker._native import PartitionState
from mpbroker.shm.layout import ReplicaRole

LEADER = int(ReplicaRole.LEADER)


def is_led_since(state: PartitionState, leader_epoch: int) -> bool:
    """Whether this broker has led the partition without a break since that epoch."""
    return state.role == LEADER and leader_epoch >= state.leader_since


def is_under_min_isr(state: PartitionState) -> bool:
    """Whether fewer replicas are in sync, those to come included, than min.insync.replicas asks for."""
    return state.maximal_isr.bit_count() < state.min_isr


def led_since(state: PartitionState | None, in_cluster: bool) -> int | None:
    """The leader epoch since which this broker leads; None: it does not. A broker that is alone leads all that it has,
    since its last epoch."""
    if state is None or state.role != LEADER:
        return None
    return state.leader_since if in_cluster else state.leader_epoch
