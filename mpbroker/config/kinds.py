"""The kinds of value a setting can have: text to value, value to text, as Kafka's ConfigDef does it. Pure.

The sentences raised here reach clients inside error 40 (INVALID_CONFIG), so they are Kafka's; the codes of `Kind` are
those of DescribeConfigs.
"""

import re
from enum import IntEnum
from typing import Any

INT_MIN, INT_MAX = -(2**31), 2**31 - 1
LONG_MIN, LONG_MAX = -(2**63), 2**63 - 1
MAX_NUMBER_CHARACTERS = 400  # int() is quadratic, and a topic setting comes from any client

_WHOLE = re.compile(r"[+-]?\d+\Z")
_DOUBLE = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)[fFdD]?\Z")
_JAVA_BLANKS = "".join(map(chr, range(0x21)))


class BadValue(ValueError):
    """A text that is no value of its kind or setting. `sentence` is Kafka's; `shown` the part of the value it is
    about."""

    def __init__(self, sentence: str, shown: object) -> None:
        super().__init__(f"{shown}: {sentence}")
        self.sentence = sentence
        self.shown = shown


class Kind(IntEnum):
    """The type codes of DescribeConfigs 3 and later."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


_WHOLE_BOUNDS = {
    Kind.SHORT: (-(2**15), 2**15 - 1),
    Kind.INT: (INT_MIN, INT_MAX),
    Kind.LONG: (LONG_MIN, LONG_MAX),
}


def parse(kind: Kind, text: str) -> Any:
    """The value a text stands for: bool, str, int, float, or a tuple of str for LIST. BadValue says what it is not."""
    text = text.strip(_JAVA_BLANKS)
    if kind in _WHOLE_BOUNDS:
        return _parse_whole(kind, text)
    if kind is Kind.BOOLEAN:
        return _parse_boolean(text)
    if kind is Kind.DOUBLE:
        return _parse_double(text)
    if kind is Kind.LIST:
        return tuple(item.strip() for item in text.split(",")) if text else ()
    return text


def render(kind: Kind, value: Any) -> str | None:
    """The text of a value as Kafka prints it; None stays None."""
    if value is None:
        return None
    if kind is Kind.BOOLEAN:
        return "true" if value else "false"
    if kind is Kind.LIST:
        return ",".join(value)
    if kind is Kind.DOUBLE:
        return _render_double(value)
    return str(value)


def _parse_boolean(text: str) -> bool:
    lowered = text.lower()
    if lowered not in ("true", "false"):
        raise BadValue("Expected value to be either true or false", text)
    return lowered == "true"


def _parse_whole(kind: Kind, text: str) -> int:
    least, most = _WHOLE_BOUNDS[kind]
    if len(text) <= MAX_NUMBER_CHARACTERS and _WHOLE.match(text) and least <= int(text) <= most:
        return int(text)
    raise BadValue(f"Not a number of type {kind.name}", text)


def _parse_double(text: str) -> float:
    match = _DOUBLE.match(text) if len(text) <= MAX_NUMBER_CHARACTERS else None
    if match:
        return float(match[1])
    if text in ("NaN", "Infinity", "+Infinity", "-Infinity"):
        return float(text)
    raise BadValue("Not a number of type DOUBLE", text)


def _render_double(value: float) -> str:
    """Java's notation: plain between 0.001 and 10 million, else one digit before the point and a capital E."""
    value = float(value)
    if value != value or value in (float("inf"), float("-inf")):
        return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[str(value)]
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    # repr gives the shortest digits; only their place changes.
    mantissa, _, exponent = repr(value).partition("e")
    sign = "-" if mantissa.startswith("-") else ""
    whole, _, fraction = mantissa.lstrip("-").partition(".")
    digits = (whole + fraction).lstrip("0")
    leading_zeros = len(whole + fraction) - len(digits)
    power = len(whole) - 1 - leading_zeros + int(exponent or 0)
    tail = digits[1:].rstrip("0") or "0"
    return f"{sign}{digits[0]}.{tail}E{power}"
