"""The frozen BrokerConfig: the settings table with the values in force. Built by load_config.py, in the
supervisor before it forks.

Workers inherit it and never change it; SIGHUP makes the supervisor build a new one and compare (`compare`).
"""

from collections.abc import Mapping
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from mpbroker.config.admin_listener import AdminAddress
from mpbroker.config.dynamic import DynamicSettings
from mpbroker.config.frozen import FrozenSettings
from mpbroker.config.listeners import Listeners
from mpbroker.config.table import SETTINGS, locate, scoped_name

if TYPE_CHECKING:
    from mpbroker.config.cluster_store import ClusterStorePlace


DISCIPLINE: Final = "mpbroker.queue.discipline"
ONE_CLASS: Final = ("fifo", "plane")  # disciplines that put all requests into one class


class ConfigSource(IntEnum):
    """Where a value comes from, with DescribeConfigs' numbers."""

    TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    GROUP_CONFIG = 8


class BrokerConfig(FrozenSettings):
    """Every setting as an attribute (`config.num_io_threads`), and what follows from them.

    Beside the settings: `end_points` (Listeners), `data_dir` and `trace_dir` (absolute paths), `data_dirs` (`data_dir`
    first), `cores`, `warnings` (sentences to log once at start), `connection_overrides` (address → connections),
    `admin_address` (None: no admin process), `cluster_store` (None: a broker by itself).
    """

    end_points: Listeners
    data_dir: str
    data_dirs: tuple[str, ...]
    trace_dir: str
    cores: int
    warnings: tuple[str, ...]
    connection_overrides: dict[str, int]
    admin_address: AdminAddress | None
    cluster_store: "ClusterStorePlace | None"

    def value(self, name: str) -> Any:
        """The value of a setting by Kafka's name, also `listener.name.<l>.<key>`; KeyError for an unknown name."""
        if name in self._values:
            return self._values[name]
        located = locate(name)
        if located is None:
            raise KeyError(name)
        return self._values[located.setting.name]

    def source(self, name: str) -> ConfigSource:
        """The highest layer that gives the setting."""
        return next((source for source, texts in self.layers if name in texts), ConfigSource.DEFAULT_CONFIG)

    @property
    def texts(self) -> dict[str, str]:
        """The texts of all settings that were given at the start, by name; a copy."""
        return dict(self._static)

    @property
    def dynamic(self) -> DynamicSettings:
        """What was changed since."""
        changed: DynamicSettings = self._dynamic
        return changed

    @property
    def layers(self) -> tuple[tuple[ConfigSource, Mapping[str, str]], ...]:
        """Texts by where they come from, the layer that wins first."""
        return (
            (ConfigSource.DYNAMIC_BROKER_CONFIG, self._dynamic.broker),
            (ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG, self._dynamic.cluster),
            (ConfigSource.STATIC_BROKER_CONFIG, self._static),
        )

    def given_text(self, name: str) -> str | None:
        """The text a setting was given, None when it has its default."""
        text: str | None = self._texts.get(name)
        return text

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

    def queue_discipline(self, listener_name: str) -> str:
        """How requests of a listener are put into classes."""
        return str(self.for_listener(listener_name, DISCIPLINE))

    @property
    def handlers_discipline(self) -> str:
        """How handlers choose among the classes: the one discipline that data listeners use beside `fifo`, if any."""
        chosen = [self.queue_discipline(end_point.listener_name) for end_point in self.end_points.data]
        return next((name for name in chosen if name not in ONE_CLASS), chosen[0])

    @property
    def reserved_handlers(self) -> int:
        """Handlers that take control requests only; 0 without a control plane."""
        return int(self.value("mpbroker.control.reserved.handlers")) if self.end_points.control else 0


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
