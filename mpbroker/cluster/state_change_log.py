"""What Kafka's state-change.log says, as lines of our log: transitions of partitions and replicas, requests to brokers
and their answers, with the controller epoch. Single partitions and requests at DEBUG, what an operator should see at
INFO. Pure."""

from typing import Any

from mpbroker.cluster.cluster_image import NO_LEADER
from mpbroker.cluster.events import Log
from mpbroker.cluster.partition_states import (
    PARTITION_PREDECESSORS,
    REPLICA_PREDECESSORS,
    partition_state,
    path,
    replica_state,
)
from mpbroker.cluster.wanted_state import Batch, Lead, PartitionView
from mpbroker.errors import error_name


class StateChangeLog:
    """Makes the lines of one term. `partitions`: also those about single partitions and replicas."""

    def __init__(self, controller_epoch: int, partitions: bool) -> None:
        self._epoch = controller_epoch
        self._partitions = partitions

    def partition_changed(self, before: PartitionView | None, after: PartitionView | None) -> list[Log]:
        """A partition is in another state, or in the same with another leader or ISR."""
        view = after or before
        assert view is not None
        about = {"controller_epoch": self._epoch, "topic": view.topic, "partition": view.number}
        lines = []
        if after and after.leader == NO_LEADER and (before is None or before.leader != NO_LEADER):
            lines.append(Log("INFO", "partition_offline", {**about, "isr": _ids(after.isr)}))
        if self._partitions:
            lines += _partition_lines(about, before, after) + _replica_lines(about, before, after)
        return lines

    def request_sent(self, broker: int, batch: Batch) -> list[Log]:
        """A request goes to a broker."""
        return [Log("DEBUG", "control_request_sent", self._about(broker, batch))] if self._partitions else []

    def request_answered(self, broker: int, batch: Batch, response: Any) -> list[Log]:
        """Its answer came, or none; partitions that were refused have lines of their own."""
        outcome = "no answer" if response is None else error_name(response.error_code)
        lines = []
        if batch.full or outcome != "NONE" or self._partitions:
            level = "INFO" if batch.full or outcome != "NONE" else "DEBUG"
            lines.append(Log(level, "control_request_answered", {**self._about(broker, batch), "outcome": outcome}))
        for topic in getattr(response, "topics", ()) if self._partitions else ():
            for error in topic.partition_errors:
                if error.error_code:
                    refused = {"topic_id": topic.topic_id.hex(), "partition": error.partition_index}
                    refused |= {"broker": broker, "error": error_name(error.error_code)}
                    lines.append(Log("DEBUG", "partition_refused", refused))
        return lines

    def _about(self, broker: int, batch: Batch) -> dict[str, Any]:
        if batch.brokers:
            kind = "UpdateMetadata"
        else:
            leads = batch.full or any(isinstance(item, Lead) for item in batch.roles.values())
            kind = "LeaderAndIsr" if leads else "StopReplica"
        about = {"controller_epoch": self._epoch, "broker": broker, "request": kind}
        return {**about, "partitions": batch.partitions, "full": batch.full}


def _partition_lines(about: dict[str, Any], before: PartitionView | None, after: PartitionView | None) -> list[Log]:
    lines = []
    for old, new in path(partition_state(before), partition_state(after), PARTITION_PREDECESSORS):
        lines.append(Log("DEBUG", "partition_state_changed", {**about, "from": old.value, "to": new.value}))
    if after and lines:
        lines[-1].fields.update(
            leader=after.leader,
            leader_epoch=after.leader_epoch,
            isr=_ids(after.isr),
            partition_epoch=after.partition_epoch,
        )
    return lines


def _replica_lines(about: dict[str, Any], before: PartitionView | None, after: PartitionView | None) -> list[Log]:
    lines = []
    for broker in dict.fromkeys((*(before.replicas if before else ()), *(after.replicas if after else ()))):
        old, new = replica_state(before, broker), replica_state(after, broker)
        if old != new:
            for here, there in path(old, new, REPLICA_PREDECESSORS):
                fields = {**about, "replica": broker, "from": here.value, "to": there.value}
                lines.append(Log("DEBUG", "replica_state_changed", fields))
    return lines


def _ids(brokers: tuple[int, ...]) -> str:
    return ",".join(map(str, brokers))
