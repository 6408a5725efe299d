"""The keys of one TOML table: type, default, bounds; every mistake is one sentence. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from mpbroker.errors import MpbrokerError

_NEEDED = object()
_TYPE_NAMES = {
    str: "text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    list: "a list",
    dict: "a table",
}


class ScenarioError(MpbrokerError):
    """A scenario that cannot be run; the message says where and what is allowed."""

    exit_code = 2


class Field(NamedTuple):
    """One key; `kind` is a type or several. Without a default the key is needed."""

    name: str
    kind: type | tuple[type, ...]
    default: Any = _NEEDED
    least: float | None = None
    most: float | None = None
    allowed: tuple[Any, ...] = ()


def read_fields(place: str, table: dict[str, Any], fields: Sequence[Field]) -> dict[str, Any]:
    """Values of all fields; ScenarioError for an unknown or missing key and a value that is not allowed."""
    prefix = f"{place}: " if place else ""
    unknown = sorted(set(table) - {field.name for field in fields})
    if unknown:
        raise ScenarioError(f"{prefix}there is no key {unknown[0]!r}; there are: {', '.join(f.name for f in fields)}")
    return {field.name: _value(prefix, field, table) for field in fields}


def _value(prefix: str, field: Field, table: dict[str, Any]) -> Any:
    value = table.get(field.name, field.default)
    if value is _NEEDED:
        raise ScenarioError(f"{prefix}{field.name} is missing")
    if field.name not in table:
        return value
    kinds = field.kind if isinstance(field.kind, tuple) else (field.kind,)
    if float in kinds and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
        raise ScenarioError(f"{prefix}{field.name} must be {' or '.join(_TYPE_NAMES[kind] for kind in kinds)}")
    if field.allowed and value not in field.allowed:
        raise ScenarioError(f"{prefix}{field.name}={value}: must be one of {', '.join(map(str, field.allowed))}")
    if isinstance(value, int | float) and not _within(value, field):
        raise ScenarioError(f"{prefix}{field.name}={value:g}: must be {field.least:g} to {field.most:g}")
    return value


def _within(value: float, field: Field) -> bool:
    return (field.least is None or value >= field.least) and (field.most is None or value <= field.most)
