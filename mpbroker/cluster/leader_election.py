"""Who leads a partition, and who is in sync, after what happened to brokers: Kafka's election strategies. Pure.

A decision depends on the present state alone, not on how it came about: it may be computed again after a conflict, by
the next controller, or for a partition that nothing happened to (the answer is then None). That somebody restarted is
seen from revisions: whoever registered after the state was written has been away since.
"""

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import NamedTuple

from mpbroker.cluster.cluster_image import NO_LEADER, Assignment, LiveBroker, Partition, PartitionId
from mpbroker.metadata.cluster_records import PartitionRecord


class Surroundings(NamedTuple):
    """What decisions look at besides the partition. `unclean`: a replica that is not in sync may lead; `offline`: of a
    partition the brokers whose log directory with it failed."""

    brokers: Mapping[int, LiveBroker]
    shutting_down: Collection[int]
    controller_epoch: int
    unclean: bool = False
    offline: Mapping[PartitionId, Collection[int]] = MappingProxyType({})

    def of(self, partition: PartitionId) -> "Surroundings":
        """As this partition sees them: who cannot serve it is as good as dead."""
        offline = self.offline.get(partition)
        if not offline:
            return self
        return self._replace(brokers={id: live for id, live in self.brokers.items() if id not in offline})

    def can_lead(self, broker: int) -> bool:
        """Whether a broker lives and means to stay."""
        return broker in self.brokers and broker not in self.shutting_down


def first_state(assignment: Assignment, around: Surroundings) -> PartitionRecord | None:
    """New → Online: the first live replica leads, all live ones are in sync; none: it stays new."""
    live = [broker for broker in assignment.replicas if broker in around.brokers]
    staying = [broker for broker in live if around.can_lead(broker)] or live
    return PartitionRecord(staying[0], 0, staying, around.controller_epoch) if staying else None


def next_state(partition: Partition, assignment: Assignment, around: Surroundings) -> PartitionRecord | None:
    """What has to be written because brokers are lost, restarted or shutting down; None: nothing."""
    record = partition.record
    keep = _kept(partition, around)
    if not keep:
        return _without_leader(partition, assignment, around)
    staying = [broker for broker in keep if around.can_lead(broker)]
    if staying:
        keep = staying  # else the only replica in sync stops: it goes on until it is gone
    leader = record.leader
    if leader not in keep or _restarted(leader, partition, around):
        leader = next(broker for broker in (*assignment.replicas, *keep) if broker in keep)
    elif len(keep) == len(record.isr):
        return None
    return _written(record, leader, [broker for broker in record.isr if broker in keep], around)


def preferred_state(partition: Partition, assignment: Assignment, around: Surroundings) -> PartitionRecord | None:
    """The first of the assignment leads if it lives and is in sync; None: it cannot."""
    target = assignment.target or assignment.replicas
    if not target or target[0] not in partition.record.isr or not around.can_lead(target[0]):
        return None
    return _written(partition.record, target[0], partition.record.isr, around)


def unclean_state(partition: Partition, assignment: Assignment, around: Surroundings) -> PartitionRecord | None:
    """Any live replica leads, alone in sync and perhaps without records that were acknowledged (KIP-704)."""
    leader = next((broker for broker in assignment.replicas if around.can_lead(broker)), None)
    return None if leader is None else _written(partition.record, leader, [leader], around, recovering=True)


def reassigned_state(partition: Partition, assignment: Assignment, around: Surroundings) -> PartitionRecord | None:
    """The end of a reassignment: only the target is left, one of it leads; None: it is not in sync yet."""
    record, target = partition.record, assignment.target
    if record.leader == NO_LEADER or not target or not set(target) <= set(record.isr):
        return None
    leader = record.leader
    if leader not in target or not around.can_lead(leader):
        leader = next((broker for broker in target if around.can_lead(broker)), NO_LEADER)
    if leader == NO_LEADER:
        return None
    return _written(record, leader, [broker for broker in record.isr if broker in target], around)


def narrowed_state(partition: Partition, assignment: Assignment, around: Surroundings) -> PartitionRecord | None:
    """The beginning of a reassignment: a new epoch, without those that are no replicas any more; None: nobody of the
    ISR would stay. A partition without a leader keeps none."""
    record = partition.record
    isr = [broker for broker in record.isr if broker in assignment.replicas]
    if not isr:
        return None
    leader = record.leader
    if leader != NO_LEADER and leader not in isr:
        able = [broker for broker in assignment.replicas if broker in isr and around.can_lead(broker)]
        if not able:
            return None
        leader = able[0]
    return _written(record, leader, isr, around)


def _restarted(broker: int, partition: Partition, around: Surroundings) -> bool:
    live = around.brokers.get(broker)
    return live is not None and live.epoch > partition.mod_rev


def _kept(partition: Partition, around: Surroundings) -> list[int]:
    """Who of the ISR may stay in it: those that were never away, else those that came back with all they had."""
    isr = partition.record.isr
    live = [broker for broker in isr if broker in around.brokers]
    never_away = [broker for broker in live if not _restarted(broker, partition, around)]
    clean = [broker for broker in live if not around.brokers[broker].record.unclean]
    if never_away or clean:
        return never_away or clean
    return live if len(live) == len(isr) else []  # after a power failure somebody who is away may have more


def _without_leader(partition: Partition, assignment: Assignment, around: Surroundings) -> PartitionRecord | None:
    record = partition.record
    if around.unclean:
        elected = unclean_state(partition, assignment, around)
        if elected:
            return elected
    away = [broker for broker in record.isr if broker not in around.brokers]
    isr = away or record.isr  # never empty: who was in sync last is the only one that may lead again
    if record.leader == NO_LEADER and len(isr) == len(record.isr):
        return None
    return _written(record, NO_LEADER, isr, around)


def _written(
    record: PartitionRecord, leader: int, isr: list[int], around: Surroundings, recovering: bool | None = None
) -> PartitionRecord:
    still = record.recovering if recovering is None else recovering
    return PartitionRecord(leader, record.leader_epoch + 1, isr, around.controller_epoch, still)
