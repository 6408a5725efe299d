"""The frozen BrokerConfig: the settings table with the values in force. Built by the supervisor before it forks.

Workers inherit it and never change it; SIGHUP makes the supervisor build a new one and compare (`compare`).
"""

import os
from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Any, NamedTuple

from mpbroker.config.cores import available_cores
from mpbroker.config.cross_checks import MAX_PROCESSORS, check_together
from mpbroker.config.frozen import FrozenSettings
from mpbroker.config.listeners import Listeners, ListenerSettings, build_listeners
from mpbroker.config.sources import Given, gather
from mpbroker.config.table import SETTINGS, locate, scoped_name
from mpbroker.errors import ConfigError


class ConfigSource(IntEnum):
    """Where a value comes from, with DescribeConfigs' numbers."""

    TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5


class BrokerConfig(FrozenSettings):
    """Every setting as an attribute (`config.num_io_threads`), and what follows from them.

    Beside the settings: `end_points` (Listeners), `data_dir` and `trace_dir` (absolute paths), `cores`, `warnings`
    (sentences to log once at start), `connection_overrides` (address → connections).
    """

    end_points: Listeners
    data_dir: str
    trace_dir: str
    cores: int
    warnings: tuple[str, ...]
    connection_overrides: dict[str, int]

    def value(self, name: str) -> Any:
        """The value of a setting by Kafka's name, also `listener.name.<l>.<key>`; KeyError for an unknown name."""
        if name in self._values:
            return self._values[name]
        located = locate(name)
        if located is None:
            raise KeyError(name)
        return self._values[located.setting.name]

    def source(self, name: str) -> ConfigSource:
        """STATIC_BROKER_CONFIG when file, environment or override gave the setting, else DEFAULT_CONFIG."""
        return ConfigSource.STATIC_BROKER_CONFIG if name in self._texts else ConfigSource.DEFAULT_CONFIG

    @property
    def texts(self) -> dict[str, str]:
        """The texts of all settings that were given, by name; a copy."""
        return dict(self._texts)

    def given_text(self, name: str) -> str | None:
        """The text a setting was given, None when it has its default."""
        return self._texts.get(name)

    def default(self, name: str) -> Any:
        """The default of a setting on this machine; where it is in force, that value."""
        return SETTINGS[name].default_for(self.cores) if name in self._texts else self._values[name]

    def for_listener(self, listener_name: str, name: str) -> Any:
        """A setting as it holds for one listener: `listener.name.<l>.<name>` before `<name>`."""
        return self._values.get(scoped_name(listener_name, name), self._values[name])

    def processors(self, listener_name: str) -> int:
        """How many processors serve a listener; the control plane has one."""
        control = self.end_points.control
        if control is not None and control.listener_name == listener_name:
            return 1
        return int(self.for_listener(listener_name, "num.network.threads"))

    @property
    def reserved_handlers(self) -> int:
        """Handlers that take control requests only; 0 without a control plane."""
        return int(self.value("mpbroker.control.reserved.handlers")) if self.end_points.control else 0


def load_broker_config(
    path: str | None = None,
    *,
    overrides: Iterable[str] = (),
    environ: Mapping[str, str] | None = None,
    cores: int | None = None,
) -> BrokerConfig:
    """The configuration from a properties file, the environment and `key=value` overrides. ConfigError when it is
    wrong."""
    given = gather(path, os.environ if environ is None else environ, overrides)
    return build_broker_config(given, available_cores() if cores is None else cores)


def build_broker_config(given: Given, cores: int) -> BrokerConfig:
    """Parse every text, fill in defaults, check settings against each other."""
    values = {name: row.default_for(cores) for name, row in SETTINGS.items()}
    for name, text in given.texts.items():
        located = locate(name)
        assert located is not None, name  # the sources let no unknown name through
        values[name] = located.setting.parse(text, name)
    texts = dict(given.texts)
    _join_node_id(values, texts)
    end_points = build_listeners(_listener_settings(values, texts))
    if "num.network.threads" not in texts:
        values["num.network.threads"] = _processors_that_fit(values["num.network.threads"], end_points)
    derived = {
        "end_points": end_points,
        "data_dir": _data_dir(values),
        "cores": cores,
        "warnings": (*given.warnings, *_no_effect(texts)),
        "_values": values,
        "_texts": texts,
        "connection_overrides": parse_connection_overrides(values["max.connections.per.ip.overrides"]),
    }
    derived["trace_dir"] = os.path.abspath(values["mpbroker.trace.dir"] or os.path.join(derived["data_dir"], "traces"))
    attributes = {SETTINGS[name].attribute: value for name, value in values.items() if name in SETTINGS}
    config = BrokerConfig(attributes | derived)
    check_together(config)
    return config


def _join_node_id(values: dict[str, Any], texts: dict[str, str]) -> None:
    """`node.id` and `broker.id` are one setting: either gives both."""
    node, broker = "node.id", "broker.id"
    if node in texts and broker in texts and values[node] != values[broker]:
        raise ConfigError(broker, values[broker], f"the same number as node.id ({values[node]}), or only one of them")
    for one, other in ((node, broker), (broker, node)):
        if one in texts:
            values[other], texts[other] = values[one], texts[one]


def _listener_settings(values: dict[str, Any], texts: dict[str, str]) -> ListenerSettings:
    return ListenerSettings(
        listeners=values["listeners"],
        advertised=values["advertised.listeners"],
        protocol_map=values["listener.security.protocol.map"],
        control_plane=values["control.plane.listener.name"],
        inter_broker=values["inter.broker.listener.name"],
        inter_broker_protocol=texts.get("security.inter.broker.protocol"),
    )


def _processors_that_fit(wanted: int, end_points: Listeners) -> int:
    """The default number of processors must not exceed the slots, however many cores and listeners there are."""
    slots = MAX_PROCESSORS - (1 if end_points.control else 0)
    return max(1, min(wanted, slots // len(end_points.data)))


def _data_dir(values: dict[str, Any]) -> str:
    """The one data directory, absolute."""
    text = values["log.dirs"] or values["log.dir"]
    directories = [item for part in text.split(",") if (item := part.strip())]
    if len(directories) != 1:
        raise ConfigError("log.dirs", text, "one directory; several are not supported yet")
    return os.path.abspath(directories[0])


def _no_effect(texts: dict[str, str]) -> list[str]:
    """A sentence for each setting that was given although nothing reads it yet."""
    located = ((name, found) for name in texts if (found := locate(name)))
    return [f"{name} is accepted but has no effect yet" for name, found in located if found.setting.later]


def parse_connection_overrides(text: str) -> dict[str, int]:
    """`HOST:COUNT,…` as a dict; an IPv6 host may stand in brackets."""
    key, overrides = "max.connections.per.ip.overrides", {}
    for item in (item for part in text.split(",") if (item := part.strip())):
        host, colon, count = item.rpartition(":")
        if not (colon and host.strip() and count.strip().isdecimal() and len(count) <= 10):
            raise ConfigError(key, text, "HOST:COUNT, separated by commas")
        overrides[host.strip().strip("[]")] = int(count)
    return overrides


class Changes(NamedTuple):
    """What differs between two configurations, by setting name: what a running broker takes on, what needs a
    restart."""

    taken: tuple[str, ...]
    restart: tuple[str, ...]


def compare(old: BrokerConfig, new: BrokerConfig) -> Changes:
    """Compare the values in force, names of the table and of single listeners alike."""
    names = [*SETTINGS, *sorted((set(old._values) | set(new._values)) - set(SETTINGS))]
    changed = [name for name in names if old.value(name) != new.value(name)]
    reloadable = {name for name in changed if (found := locate(name)) and found.setting.reloadable}
    return Changes(tuple(n for n in changed if n in reloadable), tuple(n for n in changed if n not in reloadable))
