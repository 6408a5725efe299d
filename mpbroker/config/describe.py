"""Settings in the form DescribeConfigs answers need: value, source and synonyms of each, for a topic, the broker or a
group. Pure."""

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from mpbroker.config.broker_config import BrokerConfig, ConfigSource
from mpbroker.config.group_table import GROUP_SETTINGS, GroupSetting, in_force
from mpbroker.config.kinds import Kind
from mpbroker.config.setting import Change, Setting
from mpbroker.config.table import SETTINGS, locate
from mpbroker.config.topic_config import parse_topic_configs
from mpbroker.config.topic_table import TOPIC_SETTINGS, TopicSetting

UNKNOWN_KIND = 0
# Broker settings that stand in for each other; the first one that is set counts.
_FAMILIES = (
    ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
    ("log.roll.ms", "log.roll.hours"),
    ("log.roll.jitter.ms", "log.roll.jitter.hours"),
    ("log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
)


class Synonym(NamedTuple):
    """A place that gives, or would give, the value: the first in the list is in force."""

    name: str
    value: str | None
    source: int


class ConfigEntry(NamedTuple):
    """One setting as DescribeConfigs shows it. `is_default`: the source is DEFAULT_CONFIG (Kafka 3.9 itself writes
    false in version 0 answers whatever the source). `kind`: the type code of version 3 and later."""

    name: str
    value: str | None
    source: int
    is_default: bool
    read_only: bool
    sensitive: bool
    kind: int
    synonyms: tuple[Synonym, ...]
    sentence: str


def describe_topic(
    overrides: Mapping[str, str], config: BrokerConfig, names: Collection[str] | None = None
) -> list[ConfigEntry]:
    """The settings of a topic with these overrides. `names`: only these; None or none means all; unknown ones are left
    out."""
    given = parse_topic_configs(overrides)
    return [_topic_entry(row, given, config) for row in TOPIC_SETTINGS.values() if not names or row.name in names]


def describe_group(
    own: Mapping[str, str], config: BrokerConfig, names: Collection[str] | None = None
) -> list[ConfigEntry]:
    """The settings of a group with these of its own; `names` as for topics."""
    return [_group_entry(row, own, config) for row in GROUP_SETTINGS.values() if not names or row.name in names]


def describe_broker(config: BrokerConfig, names: Collection[str] | None = None) -> list[ConfigEntry]:
    """The settings of the broker, those of single listeners included; `names` as for topics."""
    given = {name for _, texts in config.layers for name in texts}
    shown = [name for name, row in SETTINGS.items() if not row.internal] + sorted(given - SETTINGS.keys())
    return [_broker_entry(name, config) for name in shown if not names or name in names]


def describe_cluster_default(config: BrokerConfig, names: Collection[str] | None = None) -> list[ConfigEntry]:
    """What was set for all brokers, and nothing else."""
    found = []
    for name, text in config.dynamic.cluster.items():
        if names and name not in names:
            continue
        source = int(ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG)
        entry = _broker_entry(name, config)
        known = locate(name)
        value = known.setting.render(known.setting.parse(text)) if known and not entry.sensitive else None
        shown = None if entry.sensitive else text
        found.append(entry._replace(value=value, source=source, synonyms=(Synonym(name, shown, source),)))
    return found


def _topic_entry(row: TopicSetting, given: dict[str, Any], config: BrokerConfig) -> ConfigEntry:
    synonyms = _synonyms(row.broker, config) if row.broker else ()
    value = given.get(row.name, row.inherited(config))
    if row.name in given:
        synonyms = (Synonym(row.name, row.render(value), ConfigSource.TOPIC_CONFIG), *synonyms)
    return _entry(row.name, row.render(value), row.kind, False, synonyms, row.sentence)


def _group_entry(row: GroupSetting, own: Mapping[str, str], config: BrokerConfig) -> ConfigEntry:
    synonyms = _synonyms(row.broker, config)
    if row.name in own:
        synonyms = (Synonym(row.name, own[row.name], int(ConfigSource.GROUP_CONFIG)), *synonyms)
    return _entry(row.name, str(in_force(row, own, config)), Kind.INT, False, synonyms, row.sentence)


def _broker_entry(name: str, config: BrokerConfig) -> ConfigEntry:
    located = locate(name)
    if located is None:  # nobody knows what it is: it may be a secret
        synonyms = tuple(Synonym(name, None, int(source)) for source, texts in config.layers if name in texts)
        return ConfigEntry(name, None, synonyms[0].source, False, True, True, UNKNOWN_KIND, synonyms, "")
    row = located.setting
    read_only = row.change is Change.READ_ONLY or bool(located.listener)
    return _entry(name, row.render(config.value(name)), row.kind, read_only, _synonyms(name, config), row.sentence)


def _entry(
    name: str, value: str | None, kind: Kind, read_only: bool, synonyms: tuple[Synonym, ...], sentence: str
) -> ConfigEntry:
    source = synonyms[0].source if synonyms else int(ConfigSource.DEFAULT_CONFIG)
    sensitive = kind is Kind.PASSWORD
    return ConfigEntry(
        name,
        None if sensitive else value,
        source,
        source == ConfigSource.DEFAULT_CONFIG,
        read_only,
        sensitive,
        int(kind),
        synonyms,
        sentence,
    )


def _synonyms(name: str, config: BrokerConfig) -> tuple[Synonym, ...]:
    """Given texts of the setting and its family, then their defaults; what stands before its own name is left out."""
    family = next((family for family in _FAMILIES if name in family), _own_family(name))
    found = [
        Synonym(member, _shown(member, texts[member]), int(source))
        for source, texts in config.layers
        for member in family
        if member in texts
    ]
    found += [
        Synonym(member, _default_text(SETTINGS[member], config), int(ConfigSource.DEFAULT_CONFIG))
        for member in family
        if member in SETTINGS and config.default(member) is not None
    ]
    first = next((index for index, synonym in enumerate(found) if synonym.name == name), len(found))
    return tuple(found[first:])


def _shown(name: str, text: str) -> str | None:
    """A given text; nobody sees that of a password."""
    located = locate(name)
    return None if located is not None and located.setting.kind is Kind.PASSWORD else text


def _own_family(name: str) -> tuple[str, ...]:
    """A listener's own setting falls back to the general one."""
    located = locate(name)
    return (name, located.setting.name) if located is not None and located.listener else (name,)


def _default_text(row: Setting, config: BrokerConfig) -> str | None:
    return row.render(config.default(row.name))
