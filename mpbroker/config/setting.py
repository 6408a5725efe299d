"""One row of the settings table, and the check of one value against it. Pure."""

from collections.abc import Callable
from enum import Enum
from typing import Any, NamedTuple

from mpbroker.config.kinds import BadValue, Kind, parse, render
from mpbroker.errors import ConfigError


class Change(Enum):
    """When a value may change, in Kafka's terms (KIP-226). `read-only` needs a restart."""

    READ_ONLY = "read-only"
    PER_BROKER = "per-broker"
    CLUSTER_WIDE = "cluster-wide"


class Setting(NamedTuple):
    """A setting: what may stand there, and one sentence about what it does.

    `least` and `most` bound numbers; `allowed` lists the only texts. `from_cores` computes the default from the number
    of cores. `scoped`: `listener.name.<listener>.<name>` may override it for one listener. `restart`: Kafka may change
    it at run time, mpbroker takes the new value at its next start. `later`: accepted so that Kafka's files start, but
    nothing reads it yet. `internal`: settable, but not listed by DescribeConfigs (Kafka hides the same ones).
    """

    name: str
    kind: Kind
    default: Any
    sentence: str
    least: int | float | None = None
    most: int | float | None = None
    allowed: tuple[str, ...] = ()
    change: Change = Change.READ_ONLY
    scoped: bool = False
    restart: bool = False
    later: bool = False
    internal: bool = False
    from_cores: Callable[[int], int] | None = None
    cores_formula: str = ""

    @property
    def attribute(self) -> str:
        """The Python name: dots and dashes as underscores."""
        return attribute_name(self.name)

    @property
    def unit(self) -> str:
        """Unit of a number, read off the name; empty when it has none."""
        for ending, unit in _UNITS:
            if self.name.endswith(ending):
                return unit
        return ""

    @property
    def reloadable(self) -> bool:
        """Whether a running broker takes a new value when it is told to read its configuration again."""
        return self.change is not Change.READ_ONLY and not self.restart

    def default_for(self, cores: int) -> Any:
        """The default in force on a machine with so many cores."""
        return self.from_cores(cores) if self.from_cores else self.default

    def allowed_text(self) -> str:
        """What is allowed, as the end of the sentence "must be …"."""
        if self.allowed:
            many = ", separated by commas" if self.kind is Kind.LIST else ""
            return f"one of {', '.join(self.allowed)}{many}" if len(self.allowed) > 1 else f"{self.allowed[0]}{many}"
        if self.kind is Kind.BOOLEAN:
            return "true or false"
        if self.kind is Kind.LIST:
            return "a list separated by commas"
        if self.kind in (Kind.STRING, Kind.CLASS, Kind.PASSWORD):
            return "a text"
        return f"a {'' if self.kind is Kind.DOUBLE else 'whole '}number{self._bounds_text()}"

    def _bounds_text(self) -> str:
        if self.least is not None and self.most is not None:
            return f" from {self.least} to {self.most}"
        if self.least is not None:
            return f", at least {self.least}"
        return f", at most {self.most}" if self.most is not None else ""

    def parse(self, text: str, key: str = "") -> Any:
        """The value of a text, checked. ConfigError names `key` (the name as it was written) otherwise."""
        try:
            value = parse(self.kind, text)
            self.check(value)
        except BadValue:
            raise ConfigError(key or self.name, text, self.allowed_text()) from None
        return value

    def check(self, value: Any) -> None:
        """BadValue, in Kafka's words, when a parsed value lies outside bounds or list."""
        check_bounds(value, self.least, self.most)
        check_allowed(value, self.allowed)

    def render(self, value: Any) -> str | None:
        """The text of a value, as DescribeConfigs shows it."""
        return render(self.kind, value)


_UNITS = (
    (".ms", "milliseconds"),
    (".bytes", "bytes"),
    (".minutes", "minutes"),
    (".hours", "hours"),
    (".seconds", "seconds"),
    (".secs", "seconds"),
    (".requests", "requests"),
    ("buffer.size", "bytes"),
    (".bytes.per.second", "bytes per second"),
    (".bytes.per.processor", "bytes"),
    (".bytes.per.handler", "bytes"),
    ("creation.rate", "connections per second"),
    (".percentage", "percent"),
    (".threads", "processes"),
)


def attribute_name(name: str) -> str:
    """`log.segment.bytes` → `log_segment_bytes`."""
    return name.replace(".", "_").replace("-", "_")


def check_bounds(value: Any, least: int | float | None, most: int | float | None) -> None:
    """BadValue in Kafka's words when a number lies outside its bounds; None and other values pass."""
    if least is not None and value is not None and value < least:
        raise BadValue(f"Value must be at least {least}", value)
    if most is not None and value is not None and value > most:
        raise BadValue(f"Value must be no more than {most}", value)


def check_allowed(value: Any, allowed: tuple[str, ...]) -> None:
    """BadValue in Kafka's words when a text, or an item of a list, is not one of those allowed."""
    if not allowed or value is None:
        return
    for item in value if isinstance(value, tuple) else (value,):
        if item not in allowed:
            raise BadValue(f"String must be one of: {', '.join(allowed)}", item)
