"""What an agent knows from the store: topics with their settings, brokers' epochs, who is the controller. Pure.

It is read once and then follows the store's watch; what changed comes out as events for the agent. A key's newer entry
wins, so that an entry that was looked up before its watch event came does no harm.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

from mpbroker.controller.controller_context import TopicState
from mpbroker.metadata.cluster_records import BrokerRecord, ControllerRecord
from mpbroker.metadata.keys import Keys
from mpbroker.metadata.meta_store import Entry
from mpbroker.metadata.topic_record import TopicConfigRecord, TopicRecord, decode_record


class TopicPut(NamedTuple):
    """A topic is new or has changed."""

    topic: TopicState


class TopicGone(NamedTuple):
    """A topic was deleted."""

    topic_id: bytes


class BrokersChanged(NamedTuple):
    """A broker came, went or came again."""


class ControllerChanged(NamedTuple):
    """Another controller, or none."""


class SettingsChanged(NamedTuple):
    """Dynamic settings of brokers or groups."""


Seen = TopicPut | TopicGone | BrokersChanged | ControllerChanged | SettingsChanged


class LiveBroker(NamedTuple):
    """A registration and its epoch."""

    record: BrokerRecord
    epoch: int


class ClusterView:
    """`brokers`, `controller` and topics as the store has them."""

    def __init__(self, keys: Keys) -> None:
        self._keys = keys
        self._topics: dict[bytes, tuple[TopicRecord, int, int]] = {}
        self._configs: dict[str, tuple[dict[str, str], int]] = {}
        self._ids: dict[str, bytes] = {}
        self.brokers: dict[int, LiveBroker] = {}
        self.controller: ControllerRecord | None = None

    def load(self, entries: Iterable[Entry]) -> None:
        """A part of the first scan."""
        for entry in entries:
            self.apply(entry.key, entry)

    def topics(self) -> list[TopicState]:
        """All of them."""
        return [self._state(topic_id) for topic_id in self._topics]

    def apply(self, key: str, entry: Entry | None) -> list[Seen]:
        """A key holds that now (None: nothing)."""
        keys = self._keys
        if key.startswith(keys.topics):
            return self._topic(bytes.fromhex(key.removeprefix(keys.topics)), entry)
        if key.startswith(keys.topic_configs):
            return self._config(key.removeprefix(keys.topic_configs), entry)
        if key.startswith(keys.brokers):
            return self._broker(int(key.removeprefix(keys.brokers)), entry)
        if key == keys.controller:
            self.controller = decode_record(ControllerRecord, entry.value, key) if entry else None
            return [ControllerChanged()]
        return [SettingsChanged()] if key.startswith((keys.broker_configs, keys.group_configs)) else []

    def _topic(self, topic_id: bytes, entry: Entry | None) -> list[Seen]:
        known = self._topics.get(topic_id)
        if entry is None:
            if known is not None:
                del self._topics[topic_id]
                if self._ids.get(known[0].name) == topic_id:
                    del self._ids[known[0].name]
            return [TopicGone(topic_id)]
        if known is not None and known[2] >= entry.mod_rev:
            return []
        record = decode_record(TopicRecord, entry.value, entry.key)
        self._topics[topic_id] = (record, entry.version, entry.mod_rev)
        self._ids[record.name] = topic_id
        return [TopicPut(self._state(topic_id))]

    def _config(self, name: str, entry: Entry | None) -> list[Seen]:
        if entry is None:
            self._configs.pop(name, None)
        else:
            self._configs[name] = (decode_record(TopicConfigRecord, entry.value, entry.key).configs, entry.mod_rev)
        topic_id = self._ids.get(name)
        return [] if topic_id is None else [TopicPut(self._state(topic_id))]

    def _broker(self, broker: int, entry: Entry | None) -> list[Seen]:
        if entry is None:
            self.brokers.pop(broker, None)
        else:
            record = decode_record(BrokerRecord, entry.value, entry.key)
            self.brokers[broker] = LiveBroker(record, entry.create_rev)
        return [BrokersChanged()]

    def _state(self, topic_id: bytes) -> TopicState:
        record, version, revision = self._topics[topic_id]
        configs, changed = self._configs.get(record.name, ({}, 0))
        return TopicState(
            id=topic_id,
            name=record.name,
            replicas=[list(replicas) for replicas in record.replicas],
            configs=configs,
            created_ms=record.created_ms,
            record_version=version,
            revision=max(revision, changed),
        )


def address_of(record: BrokerRecord, end_points: Any) -> tuple[str, int] | None:
    """Where a broker takes control requests: on the control plane's listener if we have one, else on the brokers'
    own."""
    control = end_points.control
    wanted = [control.listener_name] if control is not None else []
    for name in [*wanted, end_points.inter_broker]:
        for listener in record.listeners:
            if listener.name == name:
                return listener.host, listener.port
    return None
