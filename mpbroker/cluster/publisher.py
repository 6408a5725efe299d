"""Messages after the store: what a change of the image means for what each broker is to be told. Pure.

It compares what was told last with what the image says now, so it does not matter who made a change, how often, or in
which order its parts came in. Kafka's batches of control requests per event come out of this comparison:

partition new or in a new leader epoch   LeaderAndIsr to its replicas, as new to those that did not have it
other change of a partition              UpdateMetadata only
replica not in the assignment any more   StopReplica with deletion
topic gone                               UpdateMetadata with leader -2, StopReplica with deletion
broker came                              everything to it, the list of brokers to all
"""

from collections.abc import Collection, Iterable, Iterator, Mapping

from mpbroker.cluster.cluster_image import DELETED_LEADER, NO_LEADER, Change, ClusterImage, LiveBroker, PartitionId
from mpbroker.cluster.wanted_state import PartitionView, Stop, WantedState

DELETED_EPOCH = -2


class Publisher:
    """Keeps `targets`, one WantedState per live broker. `shutting_down` and `offline` belong to the controller."""

    def __init__(
        self, image: ClusterImage, shutting_down: set[int], offline: Mapping[PartitionId, Collection[int]]
    ) -> None:
        self.targets: dict[int, WantedState] = {}
        self._image = image
        self._shutting_down = shutting_down
        self._offline = offline
        self._told: dict[PartitionId, PartitionView] = {}

    def start(self, now_ms: int) -> None:
        """A new term: every broker is told everything."""
        views = ((partition, self._view(partition)) for partition in self._image.partitions)
        self._told = {partition: view for partition, view in views if view}
        for broker in self._image.brokers.values():
            self._broker_came(broker, now_ms)

    def publish(
        self, changes: Iterable[Change], now_ms: int
    ) -> list[tuple[PartitionView | None, PartitionView | None]]:
        """Tell everybody concerned; returns what each changed partition was and is, for the state-change log."""
        touched: dict[PartitionId, None] = {}
        for change in changes:
            if change.kind == "broker":
                self._broker_changed(change, now_ms)
            touched.update(dict.fromkeys(self.touched(change)))
        pairs = [self._publish_partition(partition, now_ms) for partition in touched]
        return [pair for pair in pairs if pair[0] != pair[1]]

    def look_again(self, partitions: Iterable[PartitionId], now_ms: int) -> None:
        """Which replicas of these are offline has changed."""
        for partition in partitions:
            self._publish_partition(partition, now_ms)

    def ask_again(self, broker: int, now_ms: int) -> None:
        """A broker has other log directories than before: its answers will say which replicas it cannot serve."""
        target = self.targets.get(broker)
        for partition in sorted(self._image.hosted[broker]) if target else ():
            if target and partition in self._told:
                self._lead(target, partition, self._told[partition], False, now_ms)

    def touched(self, change: Change) -> Iterator[PartitionId]:
        """Partitions for which a change may mean something."""
        match change.id:
            case PartitionId():
                yield change.id
            case bytes():
                for topic in (change.before, change.after):
                    for index in range(len(getattr(topic, "assignments", ()))):
                        yield PartitionId(change.id, index)
            case int():
                yield from sorted(self._image.hosted[change.id])

    def stop_follower(self, broker: int, partition: PartitionId, now_ms: int) -> None:
        """A broker that shuts down gives up what it follows (and keeps its log)."""
        view, target = self._told.get(partition), self.targets.get(broker)
        if view and target:
            target.stop(Stop(view.topic, view.topic_id, view.number, view.leader_epoch, delete=False), now_ms)

    def _broker_changed(self, change: Change, now_ms: int) -> None:
        before, after = change.before, change.after
        assert isinstance(change.id, int)
        for broker, target in self.targets.items():
            if broker != change.id:
                target.brokers_changed(now_ms)
        if isinstance(after, LiveBroker):
            if isinstance(before, LiveBroker) and before.epoch == after.epoch:
                self.targets[change.id].brokers_changed(now_ms)
            else:
                self._broker_came(after, now_ms)
        else:
            self.targets.pop(change.id, None)

    def _broker_came(self, broker: LiveBroker, now_ms: int) -> None:
        """A new life of a broker knows nothing; what its last one was still to be told is void."""
        target = self.targets[broker.id] = WantedState(broker.id, broker.epoch)
        target.want_all(now_ms)
        for view in self._told.values():
            target.know(view, now_ms)
        for partition in sorted(self._image.hosted[broker.id]):
            if partition in self._told:
                self._lead(target, partition, self._told[partition], False, now_ms)

    def _publish_partition(
        self, partition: PartitionId, now_ms: int
    ) -> tuple[PartitionView | None, PartitionView | None]:
        before, after = self._told.get(partition), self._view(partition)
        if after and after != before:
            self._told[partition] = after
            for target in self.targets.values():
                target.know(after, now_ms)
            if after.leader != NO_LEADER and (before is None or before.leader_epoch != after.leader_epoch):
                self._tell_replicas(partition, before, after, now_ms)
            self._delete_replicas(before, after.replicas, after.leader_epoch, now_ms)
        elif before and not after:
            del self._told[partition]
            gone = before._replace(leader=DELETED_LEADER, leader_epoch=DELETED_EPOCH)
            for target in self.targets.values():
                target.know(gone, now_ms)
            self._delete_replicas(before, (), DELETED_EPOCH, now_ms)
        return before, after

    def _tell_replicas(
        self, partition: PartitionId, before: PartitionView | None, after: PartitionView, now_ms: int
    ) -> None:
        for broker in after.replicas:
            target = self.targets.get(broker)
            if target is None:
                continue
            if broker in self._shutting_down and broker not in after.isr:
                target.stop(Stop(after.topic, after.topic_id, after.number, after.leader_epoch, delete=False), now_ms)
            else:
                self._lead(target, partition, after, before is None or broker not in before.replicas, now_ms)

    def _lead(
        self, target: WantedState, partition: PartitionId, view: PartitionView, is_new: bool, now_ms: int
    ) -> None:
        """A leader that has restarted since it was elected may lack records it had: it leads no more in this epoch,
        and waits for the election that follows."""
        state = self._image.partitions.get(partition)
        if view.leader == target.broker and (state is None or target.broker_epoch > state.mod_rev):
            view = view._replace(leader=NO_LEADER)
        target.lead(view, is_new, now_ms)

    def _delete_replicas(
        self, before: PartitionView | None, staying: tuple[int, ...], leader_epoch: int, now_ms: int
    ) -> None:
        if before is None:
            return
        for broker in before.replicas:
            target = self.targets.get(broker)
            if target and broker not in staying:
                target.stop(Stop(before.topic, before.topic_id, before.number, leader_epoch, delete=True), now_ms)

    def _view(self, partition: PartitionId) -> PartitionView | None:
        state, assignment = self._image.partitions.get(partition), self._image.assignment(partition)
        if state is None or assignment is None:
            return None
        record = state.record
        return PartitionView(
            topic=self._image.topics[partition.topic_id].name,
            topic_id=partition.topic_id,
            number=partition.number,
            controller_epoch=record.controller_epoch,
            leader=record.leader,
            leader_epoch=record.leader_epoch,
            isr=tuple(record.isr),
            partition_epoch=state.epoch,
            replicas=assignment.replicas,
            adding=assignment.adding,
            removing=assignment.removing,
            offline=tuple(
                broker
                for broker in assignment.replicas
                if broker not in self._image.brokers or broker in self._offline.get(partition, ())
            ),
            recovering=record.recovering,
        )
