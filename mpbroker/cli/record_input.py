"""Bytes of standard input or files to records: lines, JSON lines, or a whole file. Runs in the process of `produce`.

A source that has nothing more to give at the moment (a prompt, `tail -f`) yields None, so that nothing is held back. A
record is bounded: what is longer than MAX_RECORD_BYTES ends the command before it is kept.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
import select
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Any, NamedTuple

from mpbroker.client.producer import Outgoing
from mpbroker.errors import MpbrokerError

READ_BYTES = 64 * 1024
#: No broker takes more in one request (socket.request.max.bytes).
MAX_RECORD_BYTES = 100 * 1024 * 1024
LINES, JSON, RAW = "lines", "json", "raw"
FORMATS = (LINES, JSON, RAW)
JSON_FIELDS = frozenset({"topic", "partition", "offset", "timestamp", "key", "value", "headers"})

Header = tuple[bytes, bytes | None]


class Given(NamedTuple):
    """What the command line says about every record. Separators and `null` are None where they were not given."""

    format: str = LINES
    key_separator: bytes | None = None
    header_separator: bytes | None = None
    null: bytes | None = None
    key: bytes | None = None
    headers: tuple[Header, ...] = ()
    timestamp_ms: int | None = None


class Item(NamedTuple):
    """A record to send, and the partition that its line names."""

    record: Outgoing
    partition: int | None = None


class BadInput(MpbrokerError):
    """A line that is no record; the message names it."""

    exit_code = 2


def items(descriptors: Iterable[int], given: Given) -> Generator[Item | None, None, None]:
    """Every record of the sources, in turn; None where one pauses. BadInput."""
    if given.format == RAW:
        for descriptor in descriptors:
            yield Item(_fixed(_whole(descriptor), given))
        return
    parse = _parser(given)
    number = 0
    for descriptor in descriptors:
        for line in lines(descriptor):
            if line is None:
                yield None
                continue
            number += 1
            try:
                yield parse(line)
            except ValueError as error:
                raise BadInput(f"line {number}: {error}") from None


def lines(descriptor: int) -> Iterator[bytes | None]:
    """Every line without its newline; None where the source pauses."""
    source = select.poll()
    source.register(descriptor, select.POLLIN)
    pieces: list[bytes] = []  # of a line that has no end yet
    size = 0
    while data := os.read(descriptor, READ_BYTES):
        first, *rest = data.split(b"\n")
        pieces.append(first)
        size += len(first)
        if size > MAX_RECORD_BYTES:
            raise BadInput(f"a line is longer than {MAX_RECORD_BYTES} bytes")
        if rest:
            yield b"".join(pieces)
            yield from rest[:-1]
            pieces, size = [rest[-1]], len(rest[-1])
        if not source.poll(0):
            yield None
    if pieces != [b""] and pieces:
        yield b"".join(pieces)


def _whole(descriptor: int) -> bytes:
    pieces, size = [], 0
    while data := os.read(descriptor, READ_BYTES):
        pieces.append(data)
        size += len(data)
        if size > MAX_RECORD_BYTES:
            raise BadInput(f"the input is longer than {MAX_RECORD_BYTES} bytes, too long for a record")
    return b"".join(pieces)


def _fixed(value: bytes, given: Given) -> Outgoing:
    return Outgoing(given.key, None if value == given.null else value, given.timestamp_ms, given.headers)


def _parser(given: Given) -> Callable[[bytes], Item]:
    if given.format == JSON:
        return lambda line: _from_json(line, given)
    if given == Given():
        return lambda line: Item(Outgoing(None, line))
    return lambda line: _from_line(line, given)


def _from_line(line: bytes, given: Given) -> Item:
    """`HEADERS sep KEY sep VALUE`, where headers and key stand only if their separator was given."""
    headers, key, value = given.headers, given.key, line
    if given.header_separator is not None:
        text, found, value = value.partition(given.header_separator)
        if not found:
            raise ValueError(f"no headers: {given.header_separator.decode()!r} is not in it")
        headers += parse_headers(text)
    if given.key_separator is not None:
        text, found, rest = value.partition(given.key_separator)
        if found:
            key, value = None if text == given.null else text, rest
    return Item(Outgoing(key, None if value == given.null else value, given.timestamp_ms, headers))


def parse_headers(text: bytes) -> tuple[Header, ...]:
    """`a=1,b` → (a, 1), (b, null)."""
    return tuple(parse_header(part) for part in text.split(b",") if part)


def parse_header(text: bytes) -> Header:
    """`a=1` → (a, 1); `a` alone has a null value."""
    name, equals, value = text.partition(b"=")
    return name, value if equals else None


def _from_json(line: bytes, given: Given) -> Item:
    """An object with what `consume --format json` prints; only what it names is taken, the rest from the command."""
    found = json.loads(line)
    if not isinstance(found, dict):
        raise ValueError('must be a JSON object, as {"key": "k", "value": "v"}')
    unknown = sorted(found.keys() - JSON_FIELDS)
    if unknown:
        raise ValueError(f"unknown field {unknown[0]!r}; known are {', '.join(sorted(JSON_FIELDS))}")
    return Item(
        Outgoing(
            _bytes(found["key"], "key") if "key" in found else given.key,
            _bytes(found.get("value"), "value"),
            _number(found, "timestamp", given.timestamp_ms),
            given.headers + _json_headers(found.get("headers")),
        ),
        _number(found, "partition", None),
    )


def _bytes(value: Any, name: str) -> bytes | None:
    if value is None:
        return None
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, dict) and list(value) == ["base64"] and isinstance(value["base64"], str):
        try:
            return base64.b64decode(value["base64"], validate=True)
        except binascii.Error:
            raise ValueError(f"{name} is not valid base64") from None
    raise ValueError(f'{name} must be a string, null or {{"base64": "…"}}, not {json.dumps(value)[:40]}')


def _number(found: dict[str, Any], name: str, default: int | None) -> int | None:
    value = found.get(name)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 1 << 63:
        raise ValueError(f"{name} must be a whole number, 0 or more, not {json.dumps(value)[:40]}")
    return value


def _json_headers(value: Any) -> tuple[Header, ...]:
    pairs = list(value.items()) if isinstance(value, dict) else value
    if pairs is None:
        return ()
    if not isinstance(pairs, list) or not all(
        isinstance(pair, (list, tuple)) and len(pair) == 2 and isinstance(pair[0], str) for pair in pairs
    ):
        raise ValueError('headers must be an object, or a list of pairs, as [["name", "value"]]')
    return tuple((name.encode(), _bytes(content, f"header {name!r}")) for name, content in pairs)
