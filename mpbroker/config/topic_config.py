"""Topic settings: checked at creation (by the controller), merged with the broker's (by whoever opens a log). Pure."""

from collections.abc import Mapping
from typing import Any

from mpbroker.config.broker_config import BrokerConfig
from mpbroker.config.frozen import FrozenSettings
from mpbroker.config.kinds import LONG_MAX, BadValue
from mpbroker.config.topic_table import TOPIC_SETTINGS


class TopicSettings(FrozenSettings):
    """The settings in force for one topic, as attributes (`retention_ms`, `cleanup_policy` as a tuple of str, …)."""


def validate_topic_configs(configs: Mapping[str, str | None]) -> tuple[dict[str, str], str | None]:
    """Check the configs of a CreateTopics request as Kafka 3.9 does.

    Returns (configs with their values in Kafka's spelling, None), or ({}, the sentence for error 40 INVALID_CONFIG).
    """
    missing = [name for name, text in configs.items() if text is None]
    if missing:
        return {}, f"Null value not supported for topic configs: {','.join(missing)}"
    for name in configs:
        if name not in TOPIC_SETTINGS:
            return {}, f"Unknown topic config name: {name}"
    try:
        values = parse_topic_configs({name: text for name, text in configs.items() if text is not None})
    except InvalidTopicConfig as error:
        return {}, error.sentence
    conflict = _conflict(values)
    if conflict:
        return {}, conflict
    return {name: TOPIC_SETTINGS[name].render(value) or "" for name, value in values.items()}, None


class InvalidTopicConfig(ValueError):
    """A topic setting's text that is no value of it; `sentence` goes to the client."""

    def __init__(self, name: str, bad: BadValue) -> None:
        self.sentence = f"Invalid value {bad.shown} for configuration {name}: {bad.sentence}"
        super().__init__(self.sentence)


def parse_topic_configs(configs: Mapping[str, str]) -> dict[str, Any]:
    """The values of known names, in the table's order; InvalidTopicConfig for the first that is none."""
    values = {}
    for name, row in TOPIC_SETTINGS.items():
        if name in configs:
            try:
                values[name] = row.parse(configs[name])
            except BadValue as bad:
                raise InvalidTopicConfig(name, bad) from None
    return values


def _conflict(values: dict[str, Any]) -> str | None:
    """Rules between settings of one request; what it leaves out counts with Kafka's built-in default."""
    least, most = values.get("min.compaction.lag.ms", 0), values.get("max.compaction.lag.ms", LONG_MAX)
    if least > most:
        return f"conflict topic config setting min.compaction.lag.ms ({least}) > max.compaction.lag.ms ({most})"
    if values.get("remote.storage.enable"):
        return (
            "Tiered Storage functionality is disabled in the broker. Topic cannot be configured with remote log "
            "storage."
        )
    return None


def effective(overrides: Mapping[str, str], config: BrokerConfig) -> TopicSettings:
    """What holds for a topic with these (already checked) overrides on a broker with this configuration."""
    values = {row.name: row.inherited(config) for row in TOPIC_SETTINGS.values()}
    values.update(parse_topic_configs(overrides))
    _apply_timestamp_difference(values)
    return TopicSettings({TOPIC_SETTINGS[name].attribute: value for name, value in values.items()})


def _apply_timestamp_difference(values: dict[str, Any]) -> None:
    """The older setting holds where the newer ones still have their default."""
    difference = values["message.timestamp.difference.max.ms"]
    for name in ("message.timestamp.before.max.ms", "message.timestamp.after.max.ms"):
        if values[name] == LONG_MAX:
            values[name] = difference
