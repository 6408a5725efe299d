"""The configuration changes while the broker runs; supervisor only.

SIGHUP: file, environment and overrides are read again, and what a running broker can take on of them is taken on.
Settings changed through the protocol (KIP-226): the controller has checked and stored them; at the start they are read
out of its store. What cannot be used, because the file of this start does not go with it, is left out with a line.
"""

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from mpbroker.config.broker_changes import lost_listener
from mpbroker.config.broker_config import BrokerConfig, compare
from mpbroker.config.dynamic import NOTHING_DYNAMIC, DynamicSettings
from mpbroker.config.listeners import LISTENER_SETTINGS
from mpbroker.config.load_config import build_broker_config
from mpbroker.config.sources import Given
from mpbroker.config.table import locate
from mpbroker.errors import ConfigError
from mpbroker.metadata.keys import STORE_FILE, Keys
from mpbroker.metrics.event_log import EventLog
from mpbroker.supervisor.sockets import Listening, open_listeners

if TYPE_CHECKING:
    from mpbroker.config.cluster_store import ClusterStorePlace


def read_again(old: BrokerConfig, read_config: Callable[[], BrokerConfig], log: EventLog) -> BrokerConfig | None:
    """The configuration in force from now on; None when nothing changes or the new one is wrong (then the old
    stays)."""
    try:
        new = read_config()
        texts = old.texts
        changes = compare(build_broker_config(Given(texts, {}, ()), old.cores), new)
        for name in changes.taken:
            text = new.given_text(name)
            if text is None:
                texts.pop(name, None)
            else:
                texts[name] = text
        config = build_broker_config(Given(texts, {}, ()), old.cores, old.dynamic)
        sentence = lost_listener(old, config)
        if sentence is not None:
            raise ConfigError("listeners", config.listeners, problem=sentence)
    except ConfigError as refused:
        for error in refused.errors:
            log.error("reload_refused", reason=error)
        return None
    log.info(
        "reloaded", changed=",".join(changes.taken) or "nothing", needs_restart=",".join(changes.restart) or "nothing"
    )
    return config if changes.taken else None


def with_stored_settings(config: BrokerConfig, cluster_id: str, log: EventLog) -> BrokerConfig:
    """The configuration of a start under what was changed while brokers ran before; unchanged when nothing was."""
    keys, place = Keys(cluster_id), config.cluster_store
    wanted = (keys.broker_config(None), keys.broker_config(config.node_id))
    if place is not None and not place.sqlite_path:
        stored = _in_etcd(place, wanted)
    else:
        stored = _in_file(os.path.join(config.data_dir, STORE_FILE) if place is None else place.sqlite_path, wanted)
    return with_settings(config, stored, log) if stored else config


def _in_file(path: str, wanted: tuple[str, str]) -> DynamicSettings:
    if not os.path.exists(path):
        return NOTHING_DYNAMIC
    from mpbroker.metadata.store_peek import UnreadableStore, peek_settings  # sqlite3 is a tenth of a start

    try:
        cluster, broker = (peek_settings(path, key) for key in wanted)
        return DynamicSettings(cluster, broker)
    except UnreadableStore:
        return NOTHING_DYNAMIC  # the controller opens it a moment later, and says what is wrong with it


def _in_etcd(place: "ClusterStorePlace", wanted: tuple[str, str]) -> DynamicSettings:
    from mpbroker.metadata.meta_store import StoreError
    from mpbroker.metadata.open_store import open_cluster_store
    from mpbroker.metadata.topic_record import BrokerConfigRecord, decode_record

    try:
        store = open_cluster_store(place)
        try:
            found = [store.get(key)[1] for key in wanted]
        finally:
            store.close()
    except StoreError:
        return NOTHING_DYNAMIC  # the agent asks a moment later, and says what is wrong with it
    cluster, broker = (
        decode_record(BrokerConfigRecord, entry.value, entry.key).configs if entry else {} for entry in found
    )
    return DynamicSettings(cluster, broker)


def with_settings(config: BrokerConfig, dynamic: DynamicSettings, log: EventLog) -> BrokerConfig:
    """The configuration with these dynamic settings in place of those it has, as far as they can be used."""
    static = Given(config.texts, {}, ())
    wrong: set[str] = set()
    while True:
        try:
            return build_broker_config(static, config.cores, dynamic.without(wrong))
        except ConfigError as refused:
            more = _named_in(refused, dynamic.without(wrong))
            for error in refused.errors:
                log.error("dynamic_setting_left_out", settings=",".join(sorted(more)), reason=error)
            wrong |= more


def open_as_stored(config: BrokerConfig, log: EventLog) -> tuple[BrokerConfig, Listening]:
    """The listeners of a start. Where those that were changed while the broker ran cannot be had, those of the file, so
    that there is a broker to change them again; the others are tried again while it runs. ConfigError."""
    try:
        return config, Listening(*open_listeners(config))
    except ConfigError as refused:
        names = LISTENER_SETTINGS & config.dynamic.broker.keys()
        if not names:
            raise
        log.error("dynamic_setting_left_out", settings=",".join(sorted(names)), reason=refused)
        static = Given(config.texts, {}, ())
        config = build_broker_config(static, config.cores, config.dynamic.without(set(names)))
        return config, Listening(*open_listeners(config))


def _named_in(refused: ConfigError, dynamic: DynamicSettings) -> set[str]:
    """The settings that an error is about; all of them where that cannot be told, so that the static ones remain."""
    names = {*dynamic.cluster, *dynamic.broker}
    found = {name for error in refused.errors for name in names if name == error.key or name in str(error)}
    return {name for name in found if locate(name)} or names
