"""The independent side of the protocol tests: Kafka's message descriptions and the codec of the kafka-python wheel.

Read from the installed package when a test runs; nothing of it is kept in this repository.
"""

import json
import re
import uuid
from functools import cache
from importlib import import_module
from importlib.resources import files

from mpbroker.protocol.schema import fields_of
from mpbroker.protocol.types import ZERO_UUID

BROKERS_ONLY = (4, 5, 6, 7, 56, 67)
"""Keys of messages that this peer does not describe: Kafka 4 has dropped them, or no client sends them."""

UNDESCRIBED = frozenset({*BROKERS_ONLY, 68, 69, 76, 77, 78, 79})
"""Likewise, with those of next-generation groups (tests/unit/protocol/test_consumer_group_messages.py) and of share
groups, which are refused whatever they say (tests/unit/server/handlers/test_share_*.py)."""

_MODULES = ("producer", "consumer", "metadata", "admin", "sasl")


@cache
def description(name: str) -> dict:
    """The description of one message (`ProduceRequest`, `RequestHeader`, …)."""
    text = (files("kafka.protocol.schemas.resources") / f"{name}.json").read_text()
    return json.loads(re.sub(r"(?m)^\s*//.*$", "", text))


def described() -> list[str]:
    """Names of all requests and responses the wheel describes."""
    found = (path.name.removesuffix(".json") for path in files("kafka.protocol.schemas.resources").iterdir())
    return sorted(name for name in found if name.endswith(("Request", "Response")))


def version_range(text: str) -> tuple[int, int]:
    """`3+`, `0-12`, `7` or `none` → inclusive range."""
    if text == "none":
        return 1 << 15, 1 << 15
    low, dash, high = text.rstrip("+").partition("-")
    return int(low), (1 << 15) if text.endswith("+") else int(high if dash else low)


def covers(text: str | None, version: int) -> bool:
    """Whether a range like `3+` contains a version; no range contains none."""
    if text is None:
        return False
    low, high = version_range(text)
    return low <= version <= high


def snake(name: str) -> str:
    """`TimeoutMs` → `timeout_ms`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def peer_class(name: str):
    """kafka-python's class of that message."""
    for module in _MODULES:
        found = getattr(import_module(f"kafka.protocol.{module}"), name, None)
        if found is not None:
            return found
    raise LookupError(name)


def to_peer(message, version: int, peer):
    """Our message as an object of kafka-python; fields the version lacks, and absent tags, are left out."""
    values = {}
    for field in fields_of(type(message)):
        value = getattr(message, field.name)
        default = [] if field.default is list else field.default
        if not field.present(version) or (field.tag is not None and value == default):
            continue
        if field.name.endswith("authorized_operations") and field.kind == "int32":
            # this peer shows the 32 bits as a set of bit numbers, always under this name
            values["authorized_operations"] = {bit for bit in range(32) if value >> bit & 1}
            continue
        values[field.name] = _value(field, value, version, peer._struct.fields[field.name])
    return peer(version=version, **values)


def _value(field, value, version, peer_field):
    if value is None or field.kind not in ("struct", "uuid"):
        return value
    if field.array:
        return [_element(field, element, version, peer_field) for element in value]
    return _element(field, value, version, peer_field)


def _element(field, value, version, peer_field):
    if field.kind == "uuid":
        return None if value == ZERO_UUID else uuid.UUID(bytes=value)
    return to_peer(value, version, peer_field.data_class)
