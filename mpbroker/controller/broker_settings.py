"""The dynamic settings of this broker, of all brokers and of groups: judged, kept, handed to the supervisor.
Controller process only.

The store is the truth. What it says is published to the supervisor after every change and at every start of the
controller, so that a controller which dies between the two leaves that to its successor.
"""

from collections.abc import Callable
from typing import Final, NamedTuple, TypeAlias

import msgspec

from mpbroker.config.broker_changes import (
    UnknownList,
    UnknownOperation,
    changed_broker_configs,
    refusal,
)
from mpbroker.config.broker_config import BrokerConfig
from mpbroker.config.dynamic import DynamicSettings
from mpbroker.config.group_changes import changed_group_configs, group_refusal
from mpbroker.config.load_config import build_broker_config
from mpbroker.config.sources import Given
from mpbroker.config.topic_changes import NotAList
from mpbroker.controller.controller_store import BrokerLayer, ControllerStore, GroupLayer
from mpbroker.errors import ConfigError, ErrorCode
from mpbroker.metadata.commands import ConfigChanges
from mpbroker.metadata.topic_validation import Refusal

MAX_LAYER_BYTES: Final = 65536
MAX_GROUPS_BYTES: Final = 262_144
GROUP: Final = 32  # the type of its resource (KIP-848)
Layer: TypeAlias = BrokerLayer | GroupLayer


class Room(NamedTuple):
    """How many of a kind the shared memory has places for."""

    processors: int
    handlers: int


class BrokerSettings:
    """All layers. `publish(settings)`: hands them to the supervisor; `room`: bounds of what can run at once."""

    def __init__(
        self,
        *,
        store: ControllerStore,
        config: Callable[[], BrokerConfig],
        publish: Callable[[DynamicSettings], object],
        room: Room,
    ) -> None:
        self._config = config
        self._publish = publish
        self._room = room
        node_id = config().node_id
        layers = store.load_broker_configs()
        self.cluster = layers.get(None) or BrokerLayer(None, {})
        self.broker = layers.get(node_id) or BrokerLayer(node_id, {})
        self.groups = store.load_group_configs()

    @property
    def stored(self) -> DynamicSettings:
        """What the store holds."""
        groups = {name: layer.configs for name, layer in self.groups.items()}
        return DynamicSettings(self.cluster.configs, self.broker.configs, groups)

    def announce(self) -> None:
        """The supervisor is told what the store holds."""
        self._publish(self.stored)

    def judge(self, wanted: ConfigChanges, replace: bool, before: DynamicSettings) -> DynamicSettings | Refusal:
        """What the settings will be on top of those of the resources before it in the command."""
        if wanted.resource_type == GROUP:
            return self._judge_group(wanted, replace, before)
        own = before.broker if wanted.name else before.cluster
        try:
            layer = changed_broker_configs({} if replace else own, wanted.changes)
        except NotAList as error:
            return Refusal(ErrorCode.INVALID_CONFIG, str(error))
        except UnknownOperation as error:
            return Refusal(ErrorCode.INVALID_REQUEST, str(error))
        except UnknownList:
            return Refusal(ErrorCode.UNKNOWN_SERVER_ERROR, None)
        after = before._replace(broker=layer) if wanted.name else before._replace(cluster=layer)
        present = self._in_force(before)
        sentence = refusal(present, after, bool(wanted.name)) or self._beyond_room(present, after)
        if sentence is not None:
            return Refusal(ErrorCode.INVALID_REQUEST, sentence)
        if len(msgspec.json.encode(layer)) > MAX_LAYER_BYTES:
            sentence = f"There is no room for so many settings of one broker ({MAX_LAYER_BYTES} bytes are kept)."
            return Refusal(ErrorCode.POLICY_VIOLATION, sentence)
        return after

    def _judge_group(self, wanted: ConfigChanges, replace: bool, before: DynamicSettings) -> DynamicSettings | Refusal:
        own = {} if replace else before.groups.get(wanted.name, {})
        try:
            layer = changed_group_configs(own, wanted.changes)
        except NotAList as error:
            return Refusal(ErrorCode.INVALID_CONFIG, str(error))
        sentence = group_refusal(layer, self._in_force(before))
        if sentence is not None:
            return Refusal(ErrorCode.INVALID_CONFIG, sentence)
        groups = {name: configs for name, configs in before.groups.items() if name != wanted.name}
        after = before._replace(groups=groups | {wanted.name: layer} if layer else groups)
        if len(msgspec.json.encode(after.groups)) > MAX_GROUPS_BYTES:
            sentence = f"There is no room for settings of so many groups ({MAX_GROUPS_BYTES} bytes are kept)."
            return Refusal(ErrorCode.POLICY_VIOLATION, sentence)
        return after

    def changed(self, after: DynamicSettings) -> list[Layer]:
        """The layers that differ from the store's."""
        pairs = ((self.cluster, after.cluster), (self.broker, after.broker))
        found: list[Layer] = [
            BrokerLayer(layer.broker, dict(configs), layer.version)
            for layer, configs in pairs
            if configs != layer.configs
        ]
        for name in self.groups.keys() | after.groups.keys():
            stored, configs = self._group(name), dict(after.groups.get(name, {}))
            if configs != stored.configs:
                found.append(stored._replace(configs=configs))
        return found

    def _group(self, name: str) -> GroupLayer:
        return self.groups.get(name) or GroupLayer(name, {})

    def committed(self, layers: list[Layer]) -> list[str]:
        """The store holds these now; returns the names that changed."""
        names: set[str] = set()
        for layer in layers:
            old = self._took(layer)
            names |= {name for name in old | layer.configs if old.get(name) != layer.configs.get(name)}
        self.announce()
        return sorted(names)

    def _took(self, layer: Layer) -> dict[str, str]:
        """The layer's settings before."""
        if isinstance(layer, GroupLayer):
            before = self._group(layer.group).configs
            self.groups.pop(layer.group, None)
            if layer.configs:
                self.groups[layer.group] = layer
        elif layer.broker is None:
            before, self.cluster = self.cluster.configs, layer
        else:
            before, self.broker = self.broker.configs, layer
        return before

    def _in_force(self, dynamic: DynamicSettings) -> BrokerConfig:
        config = self._config()
        try:
            return build_broker_config(Given(config.texts, {}, ()), config.cores, dynamic)
        except ConfigError:  # what is stored does not go with the file of this start, and is not in force
            return config

    def _beyond_room(self, before: BrokerConfig, after: DynamicSettings) -> str | None:
        """A broker cannot have more processes than its memory was laid out for."""
        config = build_broker_config(Given(before.texts, {}, ()), before.cores, after)
        processors = sum(config.processors(each.listener_name) for each in config.end_points.all)
        handlers = config.num_io_threads + config.reserved_handlers
        if processors > self._room.processors:
            return f"There is room for {self._room.processors} processors over all listeners, not for {processors}"
        if handlers > self._room.handlers:
            return f"There is room for {self._room.handlers} request handlers, not for {handlers}"
        return None
