"""Builds the BrokerConfig: gathers the sources, parses texts, fills in defaults, checks settings against each other.

Run by the supervisor and by commands; workers build theirs again from the texts that the supervisor has checked. All
that is wrong is found before anything is raised: one start names every mistake. Pure but for the file that is read.
"""

import os
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from mpbroker.config.admin_listener import KEY as ADMIN_LISTENER
from mpbroker.config.admin_listener import parse_admin_listener
from mpbroker.config.broker_config import BrokerConfig
from mpbroker.config.cores import available_cores
from mpbroker.config.cross_checks import check_together
from mpbroker.config.dynamic import NOTHING_DYNAMIC, DynamicSettings
from mpbroker.config.limits import MAX_LOG_DIRS, MAX_PROCESSORS
from mpbroker.config.listeners import Listeners, ListenerSettings, build_listeners, left_out
from mpbroker.config.sources import Given, gather
from mpbroker.config.table import SETTINGS, locate
from mpbroker.errors import ConfigError, raise_all

if TYPE_CHECKING:
    from mpbroker.config.cluster_store import ClusterStorePlace

T = TypeVar("T")


def load_broker_config(
    path: str | None = None,
    *,
    overrides: Iterable[str] = (),
    environ: Mapping[str, str] | None = None,
    cores: int | None = None,
) -> BrokerConfig:
    """The configuration from a properties file, the environment and `key=value` overrides.

    ConfigError when something is wrong, ConfigErrors when more than one thing is.
    """
    given = gather(path, os.environ if environ is None else environ, overrides)
    return build_broker_config(given, available_cores() if cores is None else cores)


def build_broker_config(given: Given, cores: int, dynamic: DynamicSettings = NOTHING_DYNAMIC) -> BrokerConfig:
    """The configuration that the texts make on a machine with so many cores, under what was changed since. Raises as
    `load_broker_config`."""
    errors = list(given.errors)
    values, texts = _parse(given._replace(texts=dynamic.over(given.texts)), cores, errors)
    _join_node_id(values, texts, errors)
    listeners = _listener_settings(values, texts)
    end_points = _attempt(build_listeners, listeners, errors)
    log_dirs = _attempt(_log_dirs, values, errors) or ("",)
    connection_overrides = _attempt(parse_connection_overrides, values["max.connections.per.ip.overrides"], errors)
    derived = {
        "end_points": end_points or build_listeners(_listener_settings(_defaults(cores), {})),
        "data_dir": log_dirs[0],
        "data_dirs": log_dirs,
        "cores": cores,
        "warnings": (*given.warnings, *left_out(listeners), *_no_effect(texts)),
        "_values": values,
        "_texts": texts,
        "_static": {
            name: given.texts.get(name, text) for name, text in texts.items() if _is_static(name, given, dynamic)
        },
        "_dynamic": dynamic,
        "connection_overrides": connection_overrides or {},
        "admin_address": _attempt(parse_admin_listener, values[ADMIN_LISTENER], errors),
        "cluster_store": _attempt(_cluster_store, values["mpbroker.cluster.store"], errors),
    }
    config = _config(values, derived)
    wrong = {error.key for error in errors}
    broken = check_together(config, listeners_known=end_points is not None)
    # A rule that names a setting whose text was wrong has seen its default: nothing is known about what was meant.
    raise_all(errors + [error for error in broken if not any(name in str(error) for name in wrong)])
    return config


def _is_static(name: str, given: Given, dynamic: DynamicSettings) -> bool:
    """Whether a text was there at the start: given, or following from one that was."""
    return name in given.texts or not (name in dynamic.cluster or name in dynamic.broker)


def _defaults(cores: int) -> dict[str, Any]:
    return {name: row.default_for(cores) for name, row in SETTINGS.items()}


def _parse(given: Given, cores: int, errors: list[ConfigError]) -> tuple[dict[str, Any], dict[str, str]]:
    """Values of all settings and the texts of those given; one whose text is wrong counts as not given."""
    values, texts = _defaults(cores), {}
    for name, text in given.texts.items():
        located = locate(name)
        assert located is not None, name  # the sources let no unknown name through
        try:
            values[name] = located.setting.parse(text, name)
            texts[name] = text
        except ConfigError as error:
            origin = given.origins.get(name)
            errors.append(error.at(origin) if origin else error)
    return values, texts


def _attempt(build: Callable[[Any], T], argument: Any, errors: list[ConfigError]) -> T | None:
    """What `build` makes, or None and its error in the list."""
    try:
        return build(argument)
    except ConfigError as error:
        errors.append(error)
        return None


def _config(values: dict[str, Any], derived: dict[str, Any]) -> BrokerConfig:
    """Put together; values that follow from others are filled in."""
    if "num.network.threads" not in derived["_texts"]:
        fitting = _processors_that_fit(values["num.network.threads"], derived["end_points"])
        values["num.network.threads"] = fitting
    traces = values["mpbroker.trace.dir"] or os.path.join(derived["data_dir"], "traces")
    attributes = {SETTINGS[name].attribute: value for name, value in values.items() if name in SETTINGS}
    return BrokerConfig(attributes | derived | {"trace_dir": os.path.abspath(traces)})


def _join_node_id(values: dict[str, Any], texts: dict[str, str], errors: list[ConfigError]) -> None:
    """`node.id` and `broker.id` are one setting: either gives both."""
    node, broker = "node.id", "broker.id"
    if node in texts and broker in texts and values[node] != values[broker]:
        problem = f"broker.id={values[broker]} and node.id={values[node]} differ; they are one setting"
        errors.append(ConfigError(broker, values[broker], problem=problem))
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
        kraft_controllers=values["controller.listener.names"],
    )


def _processors_that_fit(wanted: int, end_points: Listeners) -> int:
    """The default number of processors must not exceed the slots, however many cores and listeners there are."""
    slots = MAX_PROCESSORS - (1 if end_points.control else 0)
    return max(1, min(wanted, slots // len(end_points.data)))


def _log_dirs(values: dict[str, Any]) -> tuple[str, ...]:
    """The log directories, absolute; the first is the data directory."""
    key = "log.dirs" if values["log.dirs"] else "log.dir"
    directories: list[str] = [item for part in values[key].split(",") if (item := part.strip())]
    if not directories:
        raise ConfigError(key, values[key], problem=f"{key} names no directory")
    if len(directories) > MAX_LOG_DIRS:
        raise ConfigError(key, values[key], f"at most {MAX_LOG_DIRS} directories")
    if len({os.path.realpath(directory) for directory in directories}) < len(directories):
        raise ConfigError(key, values[key], problem=f"{key}={values[key]}: names a directory twice")
    return tuple(os.path.abspath(directory) for directory in directories)


def _cluster_store(text: str) -> "ClusterStorePlace | None":
    if not text:
        return None
    from mpbroker.config.cluster_store import parse_cluster_store  # a broker by itself needs none of it

    return parse_cluster_store(text)


def _no_effect(texts: dict[str, str]) -> list[str]:
    """A sentence for each setting that was given although nothing reads it yet."""
    located = ((name, found) for name in texts if (found := locate(name)))
    return [f"{name} is accepted but has no effect yet" for name, found in located if found.setting.later]


def parse_connection_overrides(text: str) -> dict[str, int]:
    """`HOST:COUNT,…` as a dict; an IPv6 host may be in brackets."""
    key, overrides = "max.connections.per.ip.overrides", {}
    for item in (item for part in text.split(",") if (item := part.strip())):
        host, colon, count = item.rpartition(":")
        if not (colon and host.strip() and count.strip().isdecimal() and len(count) <= 10):
            raise ConfigError(key, text, "HOST:COUNT, separated by commas")
        overrides[host.strip().strip("[]")] = int(count)
    return overrides
