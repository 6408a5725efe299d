"""What AlterConfigs and IncrementalAlterConfigs make of a topic's own settings, in Kafka 3.9's words. Pure."""

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Protocol

from mpbroker.config.kinds import Kind
from mpbroker.config.table import SETTINGS
from mpbroker.config.topic_table import TOPIC_SETTINGS


class Operation(IntEnum):
    """What a change does with a setting (KIP-339)."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class Change(Protocol):
    """A change of one setting; `value` is None only where it is deleted."""

    @property
    def name(self) -> str:
        """Kafka's name of the setting."""
        ...

    @property
    def operation(self) -> int:
        """One of Operation."""
        ...

    @property
    def value(self) -> str | None:
        """The text given."""
        ...


class NotAList(ValueError):
    """APPEND to or SUBTRACT from a setting that is no list; its text is the sentence for error 40."""


def changed_topic_configs(own: Mapping[str, str], changes: Iterable[Change]) -> dict[str, str]:
    """A topic's own settings after the changes, their values not yet checked. NotAList."""
    after = dict(own)
    for change in changes:
        match Operation(change.operation):
            case Operation.SET:
                after[change.name] = change.value or ""
            case Operation.DELETE:
                after.pop(change.name, None)
            case operation:
                after[change.name] = _changed_list(after.get(change.name), change, operation)
    return after


def _changed_list(present: str | None, change: Change, operation: Operation) -> str:
    row = TOPIC_SETTINGS.get(change.name)
    if row is None or row.kind is not Kind.LIST:
        raise NotAList(f"Can't {operation.name} to key {change.name} because its type is not LIST.")
    if present is None:  # Kafka takes the setting's default, not what the broker's file says
        default = SETTINGS[row.broker].default if row.broker else ()
        present = row.render(default) or ""
    return changed_items(present, change, operation)


def changed_items(present: str, change: Change, operation: Operation) -> str:
    """A list with the change's items, those it lacks, or without them."""
    items = [item for item in present.split(",") if item]
    for item in (change.value or "").split(","):
        if operation is Operation.SUBTRACT:
            if item in items:
                items.remove(item)
        elif item not in items:
            items.append(item)
    return ",".join(items)
