"""What AlterConfigs and IncrementalAlterConfigs make of a group's own settings, in Kafka 4.3's words. Pure."""

from collections.abc import Iterable, Mapping

from mpbroker.config.broker_config import BrokerConfig
from mpbroker.config.group_table import GROUP_SETTINGS, HEARTBEAT, SESSION, in_force
from mpbroker.config.kinds import BadValue
from mpbroker.config.topic_changes import Change, NotAList, Operation


def changed_group_configs(own: Mapping[str, str], changes: Iterable[Change]) -> dict[str, str]:
    """A group's own settings after the changes, their values not yet checked. NotAList: none of them is a list."""
    after = dict(own)
    for change in changes:
        operation = Operation(change.operation)
        if operation is Operation.SET:
            after[change.name] = change.value or ""
        elif operation is Operation.DELETE:
            after.pop(change.name, None)
        else:
            raise NotAList(f"Can't {operation.name} to key {change.name} because its type is not LIST.")
    return after


def group_refusal(own: Mapping[str, str], config: BrokerConfig) -> str | None:
    """Why a group cannot have these settings; None: it can."""
    unknown = next((name for name in own if name not in GROUP_SETTINGS), None)
    if unknown is not None:
        return f"Unknown group config name: {unknown}"
    for name, text in own.items():
        try:
            GROUP_SETTINGS[name].parse(text)
        except BadValue as bad:
            return f"Invalid value {bad.shown} for configuration {name}: {bad.sentence}"
    return _out_of_bounds(own, config)


def _out_of_bounds(own: Mapping[str, str], config: BrokerConfig) -> str | None:
    for name, row in GROUP_SETTINGS.items():
        if name in own:
            value, (least, most) = row.parse(own[name]), row.bounds
            if value < config.value(least):
                return f"{name} must be greater than or equal to {least}"
            if value > config.value(most):
                return f"{name} must be less than or equal to {most}"
    if in_force(SESSION, own, config) <= in_force(HEARTBEAT, own, config):
        return f"{SESSION.name} must be greater than {HEARTBEAT.name}"
    return None
