"""What an agent knows from the store: topics with their settings, brokers' epochs, who is the controller. Pure.

It is read once and then follows the store's watch; what changed comes out as events for the agent. A key's newer entry
wins, so that an entry that was looked up before its watch event came does no harm; nor does what the watch tells after
that of an earlier topic of the same name.
"""

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

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


NEWEST: Final = 2**63 - 1
Seen = TopicPut | TopicGone | BrokersChanged | ControllerChanged | SettingsChanged


class LiveBroker(NamedTuple):
    """A registration and its epoch."""

    record: BrokerRecord
    epoch: int


class KnownTopic(NamedTuple):
    """A topic's record with the version of its key, the revision that changed it last and the one that made it."""

    record: TopicRecord
    version: int
    changed: int
    made: int


class ClusterView:
    """`brokers`, `controller` and topics as the store has them."""

    def __init__(self, keys: Keys) -> None:
        self._keys = keys
        self._topics: dict[bytes, KnownTopic] = {}
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

    def apply(self, key: str, entry: Entry | None, revision: int = NEWEST) -> list[Seen]:
        """A key holds that now (None: nothing). `revision`: of the change that a watch tells."""
        keys = self._keys
        if key.startswith(keys.topics):
            return self._topic(bytes.fromhex(key.removeprefix(keys.topics)), entry)
        if key.startswith(keys.topic_configs):
            changed = entry.mod_rev if entry is not None else revision
            return self._config(key.removeprefix(keys.topic_configs), entry, changed)
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
                if self._ids.get(known.record.name) == topic_id:
                    del self._ids[known.record.name]
            return [TopicGone(topic_id)]
        if known is not None and known.changed >= entry.mod_rev:
            return []
        record = decode_record(TopicRecord, entry.value, entry.key)
        namesake = self._topics.get(self._ids.get(record.name, topic_id))
        if namesake is not None and namesake.changed > entry.mod_rev:
            return []  # deleted since: the namesake was looked up, the watch is behind
        self._topics[topic_id] = KnownTopic(record, entry.version, entry.mod_rev, entry.create_rev)
        self._ids[record.name] = topic_id
        return [TopicPut(self._state(topic_id))]

    def _config(self, name: str, entry: Entry | None, changed: int) -> list[Seen]:
        topic_id = self._ids.get(name)
        made = 0 if topic_id is None else self._topics[topic_id].made
        if changed < made or (name in self._configs and changed < self._configs[name][1]):
            return []  # of an earlier topic of this name, or looked up before
        if entry is None:
            self._configs.pop(name, None)
        else:
            self._configs[name] = (decode_record(TopicConfigRecord, entry.value, entry.key).configs, entry.mod_rev)
        return [] if topic_id is None else [TopicPut(self._state(topic_id))]

    def _broker(self, broker: int, entry: Entry | None) -> list[Seen]:
        if entry is None:
            self.brokers.pop(broker, None)
        else:
            record = decode_record(BrokerRecord, entry.value, entry.key)
            self.brokers[broker] = LiveBroker(record, entry.create_rev)
        return [BrokersChanged()]

    def _state(self, topic_id: bytes) -> TopicState:
        record, version, revision, _ = self._topics[topic_id]
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
