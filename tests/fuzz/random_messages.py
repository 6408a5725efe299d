"""Random but valid messages of any class at any version, from a seeded generator."""

from random import Random

from mpbroker.protocol.schema import Field, fields_of

_INTEGERS = {"int8": (8, True), "int16": (16, True), "uint16": (16, False), "int32": (32, True), "int64": (64, True)}
_TEXTS = ("", "t", "orders", "größe-µ", "日本", "x" * 200, "emoji-🦆")


def random_message(random: Random, cls, version: int, max_elements: int = 3):
    """A message whose fields absent from `version` hold their defaults, so that it survives a round trip."""
    values = {
        field.name: _value(random, field, version, max_elements)
        for field in fields_of(cls)
        if field.present(version) and not (field.tag is not None and random.random() < 0.5)
    }
    return cls(**values)


def _value(random: Random, field: Field, version: int, max_elements: int):
    if field.nullable(version) and random.random() < 0.2:
        return None
    if field.array:
        return [_element(random, field, version, max_elements) for _ in range(random.randint(0, max_elements))]
    return _element(random, field, version, max_elements)


def _element(random: Random, field: Field, version: int, max_elements: int):
    if field.kind == "struct":
        return random_message(random, field.struct, version, max_elements)
    if field.kind in _INTEGERS:
        bits, signed = _INTEGERS[field.kind]
        low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
        return random.choice((low, high, 0, min(high, 1), max(low, -1), random.randint(low, high)))
    if field.kind == "bool":
        return random.random() < 0.5
    if field.kind == "float64":
        return random.uniform(-1e9, 1e9)
    if field.kind == "string":
        return random.choice(_TEXTS)
    return random.randbytes(16 if field.kind == "uuid" else random.choice((0, 1, 61, 300)))
