"""LeaderAndIsr, StopReplica and UpdateMetadata from what a broker is to be told, in their newest versions. Pure."""

from collections.abc import Iterable, Mapping
from typing import Final

from mpbroker.cluster.cluster_image import LiveBroker
from mpbroker.cluster.wanted_state import Batch, Lead, PartitionView, Stop
from mpbroker.metadata.cluster_records import BrokerRecord, ListenerRecord
from mpbroker.protocol.messages.leader_and_isr import (
    LeaderAndIsrLiveLeader,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from mpbroker.protocol.messages.stop_replica import (
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaTopicState,
)
from mpbroker.protocol.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)

INCREMENTAL: Final = 1
FULL: Final = 2
RECOVERED, RECOVERING = 0, 1
_SECURITY_PROTOCOLS: Final = {"PLAINTEXT": 0, "SSL": 1, "SASL_PLAINTEXT": 2, "SASL_SSL": 3}

ControlRequest = LeaderAndIsrRequest | StopReplicaRequest | UpdateMetadataRequest


class RequestBuilder:
    """Makes requests of one controller. `listener_name`: where a follower reaches its leader."""

    def __init__(self, controller_id: int, controller_epoch: int, listener_name: str) -> None:
        self._controller_id = controller_id
        self._controller_epoch = controller_epoch
        self._listener_name = listener_name

    def build(self, batch: Batch, broker_epoch: int, brokers: Mapping[int, LiveBroker]) -> ControlRequest:
        """The request for a batch."""
        if batch.brokers:
            return self._update_metadata(batch, broker_epoch, brokers)
        stops = [item for item in batch.roles.values() if isinstance(item, Stop)]
        if stops:
            return self._stop_replica(stops, broker_epoch)
        leads = [item for item in batch.roles.values() if isinstance(item, Lead)]
        return self._leader_and_isr(leads, FULL if batch.full else INCREMENTAL, broker_epoch, brokers)

    def _leader_and_isr(
        self, leads: list[Lead], kind: int, broker_epoch: int, brokers: Mapping[int, LiveBroker]
    ) -> LeaderAndIsrRequest:
        topics: dict[bytes, LeaderAndIsrTopicState] = {}
        for view, is_new in leads:
            topic = topics.setdefault(
                view.topic_id, LeaderAndIsrTopicState(topic_name=view.topic, topic_id=view.topic_id)
            )
            topic.partition_states.append(_role_state(view, is_new))
        return LeaderAndIsrRequest(
            controller_id=self._controller_id,
            controller_epoch=self._controller_epoch,
            broker_epoch=broker_epoch,
            type=kind,
            topic_states=list(topics.values()),
            live_leaders=self._live_leaders({item.view.leader for item in leads}, brokers),
        )

    def _live_leaders(self, leaders: Iterable[int], brokers: Mapping[int, LiveBroker]) -> list[LeaderAndIsrLiveLeader]:
        found = []
        for leader in sorted(leaders):
            listener = listener_of(brokers[leader].record, self._listener_name) if leader in brokers else None
            if listener:
                found.append(LeaderAndIsrLiveLeader(broker_id=leader, host_name=listener.host, port=listener.port))
        return found

    def _stop_replica(self, stops: list[Stop], broker_epoch: int) -> StopReplicaRequest:
        topics: dict[str, StopReplicaTopicState] = {}
        for stop in stops:
            topic = topics.setdefault(stop.topic, StopReplicaTopicState(topic_name=stop.topic))
            topic.partition_states.append(
                StopReplicaPartitionState(
                    partition_index=stop.number, leader_epoch=stop.leader_epoch, delete_partition=stop.delete
                )
            )
        return StopReplicaRequest(
            controller_id=self._controller_id,
            controller_epoch=self._controller_epoch,
            broker_epoch=broker_epoch,
            topic_states=list(topics.values()),
        )

    def _update_metadata(
        self, batch: Batch, broker_epoch: int, brokers: Mapping[int, LiveBroker]
    ) -> UpdateMetadataRequest:
        topics: dict[bytes, UpdateMetadataTopicState] = {}
        for view in batch.metadata.values():
            topic = topics.setdefault(
                view.topic_id, UpdateMetadataTopicState(topic_name=view.topic, topic_id=view.topic_id)
            )
            topic.partition_states.append(_metadata_state(view))
        return UpdateMetadataRequest(
            controller_id=self._controller_id,
            type=FULL if batch.full else INCREMENTAL,
            controller_epoch=self._controller_epoch,
            broker_epoch=broker_epoch,
            topic_states=list(topics.values()),
            live_brokers=[_live_broker(broker.record) for _, broker in sorted(brokers.items())],
        )


def listener_of(record: BrokerRecord, name: str) -> ListenerRecord | None:
    """A broker's listener of this name."""
    return next((listener for listener in record.listeners if listener.name == name), None)


def _role_state(view: PartitionView, is_new: bool) -> LeaderAndIsrPartitionState:
    return LeaderAndIsrPartitionState(
        partition_index=view.number,
        controller_epoch=view.controller_epoch,
        leader=view.leader,
        leader_epoch=view.leader_epoch,
        isr=list(view.isr),
        partition_epoch=view.partition_epoch,
        replicas=list(view.replicas),
        adding_replicas=list(view.adding),
        removing_replicas=list(view.removing),
        is_new=is_new,
        leader_recovery_state=RECOVERING if view.recovering else RECOVERED,
    )


def _metadata_state(view: PartitionView) -> UpdateMetadataPartitionState:
    return UpdateMetadataPartitionState(
        partition_index=view.number,
        controller_epoch=view.controller_epoch,
        leader=view.leader,
        leader_epoch=view.leader_epoch,
        isr=list(view.isr),
        zk_version=view.partition_epoch,
        replicas=list(view.replicas),
        offline_replicas=list(view.offline),
    )


def _live_broker(record: BrokerRecord) -> UpdateMetadataBroker:
    endpoints = [
        UpdateMetadataEndpoint(
            port=listener.port,
            host=listener.host,
            listener=listener.name,
            security_protocol=_SECURITY_PROTOCOLS.get(listener.protocol, 0),
        )
        for listener in record.listeners
    ]
    return UpdateMetadataBroker(id=record.id, endpoints=endpoints, rack=record.rack)
