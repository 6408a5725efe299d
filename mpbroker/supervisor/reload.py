"""SIGHUP: the configuration is read again, and what a running broker can take on is taken on; supervisor only."""

from collections.abc import Callable

from mpbroker.config.broker_config import BrokerConfig, compare
from mpbroker.config.load_config import build_broker_config
from mpbroker.config.sources import Given
from mpbroker.errors import ConfigError
from mpbroker.metrics.event_log import EventLog


def read_again(old: BrokerConfig, read_config: Callable[[], BrokerConfig], log: EventLog) -> BrokerConfig | None:
    """The configuration in force from now on; None when nothing changes or the new one is wrong (then the old
    stays)."""
    try:
        new = read_config()
        changes = compare(old, new)
        texts = old.texts
        for name in changes.taken:
            text = new.given_text(name)
            if text is None:
                texts.pop(name, None)
            else:
                texts[name] = text
        config = build_broker_config(Given(texts, {}, ()), old.cores)
    except ConfigError as refused:
        for error in refused.errors:
            log.error("reload_refused", reason=error)
        return None
    log.info(
        "reloaded", changed=",".join(changes.taken) or "nothing", needs_restart=",".join(changes.restart) or "nothing"
    )
    return config if changes.taken else None
