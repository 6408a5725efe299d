"""What AlterConfigs and IncrementalAlterConfigs make of a broker's own settings, or of those of all brokers, in Kafka
3.9's words. Pure."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from mpbroker.config.broker_config import BrokerConfig
from mpbroker.config.dynamic import DynamicSettings
from mpbroker.config.kafka_only import REFUSED, why_ignored
from mpbroker.config.kinds import BadValue, Kind, parse
from mpbroker.config.load_config import build_broker_config
from mpbroker.config.replication_throttle import RATES, parse_rate
from mpbroker.config.setting import Change as Scope
from mpbroker.config.setting import Setting
from mpbroker.config.sources import Given
from mpbroker.config.table import SETTINGS, locate, scoped_name
from mpbroker.config.topic_changes import Change, NotAList, Operation, changed_items
from mpbroker.errors import ConfigError

THREADS: Final = "num.network.threads"
_COUNTS: Final = ("num.io.threads", "background.threads", "num.replica.fetchers", "num.recovery.threads.per.data.dir")
_CLEANERS: Final = "log.cleaner.threads"


class UnknownOperation(ValueError):
    """An operation that Kafka does not know either; its text is the sentence."""


class UnknownList(ValueError):
    """APPEND to or SUBTRACT from a name that is no setting: Kafka fails with error -1."""


def changed_broker_configs(stored: Mapping[str, str], changes: Iterable[Change]) -> dict[str, str]:
    """A layer after the changes, its values not yet checked. NotAList, UnknownList, UnknownOperation."""
    after = dict(stored)
    for change in changes:
        if change.operation not in set(Operation):
            raise UnknownOperation(f"Unknown operations type {change.operation}")
        match Operation(change.operation):
            case Operation.SET:
                after[change.name] = change.value or ""
            case Operation.DELETE:
                after.pop(change.name, None)
            case operation:
                after[change.name] = _changed_list(after.get(change.name), change, operation)
    return after


def _changed_list(present: str | None, change: Change, operation: Operation) -> str:
    row = SETTINGS.get(change.name)
    if row is None:
        raise UnknownList(change.name)
    if row.kind is not Kind.LIST:
        verb = operation.name.lower()
        raise NotAList(f"Config value {verb} is not allowed for config key: {change.name}")
    return changed_items((row.render(row.default) or "") if present is None else present, change, operation)


def refusal(before: BrokerConfig, after: DynamicSettings, of_broker: bool) -> str | None:
    """Why a broker cannot take over these settings; None: it can. `of_broker`: its own layer was changed, not that of
    all brokers."""
    layer = after.broker if of_broker else after.cluster
    sentence = _unchangeable(layer) or _wrong_value(layer)
    if sentence is None and not of_broker:
        sentence = _needs_a_broker(layer)
    if sentence is not None:
        return sentence
    try:
        config = build_broker_config(Given(before.texts, {}, ()), before.cores, after)
    except ConfigError as error:
        return str(error)
    return lost_listener(before, config) or next(_counts_out_of_step(before, config), None)


def lost_listener(before: BrokerConfig, after: BrokerConfig) -> str | None:
    """Why a running broker cannot go from one configuration's listeners to another's: brokers would not reach it."""
    name = before.end_points.inter_broker
    if any(end_point.listener_name == name for end_point in after.end_points.advertised):
        return None
    return f"Advertised listener must be specified for inter-broker listener ListenerName({name})"


def _unchangeable(layer: Mapping[str, str]) -> str | None:
    fixed = [name for name in layer if not _is_dynamic(name)]
    return f"Cannot update these configs dynamically: Set({', '.join(sorted(fixed))})" if fixed else None


def _is_dynamic(name: str) -> bool:
    """Whether a name may be changed; one that nobody knows may be, as in Kafka."""
    located = locate(name)
    if located is not None:
        return located.setting.change is not Scope.READ_ONLY
    return not why_ignored(name) and name not in REFUSED


def _wrong_value(layer: Mapping[str, str]) -> str | None:
    for name, text in layer.items():
        located = locate(name)
        try:
            if located is not None:
                _check(located.setting, text)
            elif name in RATES:
                parse_rate(text)
        except BadValue as bad:
            return f"Invalid value {bad.shown} for configuration {name}: {bad.sentence}"
    return None


def _check(row: Setting, text: str) -> None:
    row.check(parse(row.kind, text))


def _needs_a_broker(layer: Mapping[str, str]) -> str | None:
    own = [name for name in layer if (found := locate(name)) and found.setting.change is Scope.PER_BROKER]
    if not own:
        return None
    names = ", ".join(sorted(own))
    return f"Cannot update these configs at default cluster level, broker id must be specified: Set({names})"


def _counts_out_of_step(before: BrokerConfig, after: BrokerConfig) -> Iterator[str]:
    """Kafka's rule for pools: at least half, at most double of what there is."""
    for end_point in after.end_points.data:
        listener = end_point.listener_name
        if any(listener == known.listener_name for known in before.end_points.data):
            own = scoped_name(listener, THREADS)
            name = own if own in after.dynamic.over(after.texts) else THREADS
            yield from _out_of_step(name, before.processors(listener), after.processors(listener))
    for name in _COUNTS:
        yield from _out_of_step(name, before.value(name), after.value(name))
    old, new = before.value(_CLEANERS), after.value(_CLEANERS)
    if new != old and new < 1:
        yield "Log cleaner threads should be at least 1"
    elif new < old // 2:
        yield f"Log cleaner threads cannot be reduced to less than half the current value {old}"
    elif new > max(1, old * 2):
        yield f"Log cleaner threads cannot be increased to more than double the current value {old}"


def _out_of_step(name: str, old: int, new: int) -> Iterator[str]:
    failed = f"Dynamic thread count update validation failed for {name}={new}, value should"
    if new < old // 2:
        yield f"{failed} be at least half the current value {old}"
    elif new > old * 2:
        yield f"{failed} not be greater than double the current value {old}"
