"""Records as text: values alone, with keys and headers, by a format string as kcat's, or as JSON. Pure functions.

What is printed is bytes: keys and values reach stdout as they are. In JSON, what is not UTF-8 is {"base64": "…"}.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from mpbroker.errors import ConfigError

if TYPE_CHECKING:
    from mpbroker.record.record_batch import Record

#: (partition, record) → what is printed of it.
Printer = Callable[[int, "Record"], bytes]
_Part = Callable[[int, "Record"], bytes]

FIELDS_HELP = (
    "%%t topic, %%p partition, %%o offset, %%T timestamp, %%k key, %%K its bytes, %%s value, %%S its bytes, %%h headers"
)
_TOKEN = re.compile(r"%(.?)|\\(x[0-9a-fA-F]{2}|.?)", re.DOTALL)
_ESCAPES = {"n": b"\n", "r": b"\r", "t": b"\t", "0": b"\0", "\\": b"\\"}


def plain(key_separator: str | None, header_separator: str | None, null: bytes) -> Printer:
    """`HEADERS sep KEY sep VALUE` and a newline, as `produce` reads it; keys and headers only with their separator."""
    before_value = _encoded(key_separator)
    after_headers = _encoded(header_separator)

    def write(partition: int, record: Record) -> bytes:
        out = (null if record.value is None else record.value) + b"\n"
        if before_value is not None:
            out = (null if record.key is None else record.key) + before_value + out
        return out if after_headers is None else _headers(record) + after_headers + out

    return write


def as_json(topic: str) -> Printer:
    """One JSON object and a newline, which `produce --format json` reads."""

    def write(partition: int, record: Record) -> bytes:
        found = {
            "topic": topic,
            "partition": partition,
            "offset": record.offset,
            "timestamp": record.timestamp,
            "key": text_of(record.key),
            "value": text_of(record.value),
            "headers": [[name.decode("utf-8", "replace"), text_of(value)] for name, value in record.headers],
        }
        return json.dumps(found).encode() + b"\n"

    return write


def by_format(text: str, topic: str, null: bytes) -> Printer:
    """Exactly what the format says, no newline added; ConfigError for what it cannot mean."""
    fields = _fields(topic.encode(), null)
    parts: list[bytes | _Part] = []
    end = 0
    for token in _TOKEN.finditer(text):
        parts.append(_encoded(text[end : token.start()]) or b"")
        end = token.end()
        parts.append(_escaped(token, text) if token[1] is None else _field(token[1], text, fields))
    parts.append(_encoded(text[end:]) or b"")
    steps = [_constant(part) if isinstance(part, bytes) else part for part in parts if part != b""]
    return lambda partition, record: b"".join([step(partition, record) for step in steps])


def _constant(text: bytes) -> _Part:
    return lambda partition, record: text


def _field(letter: str, text: str, fields: dict[str, _Part]) -> bytes | _Part:
    if letter == "%":
        return b"%"
    if letter not in fields:
        raise ConfigError("--format", text, f"json, or text with {FIELDS_HELP.replace('%%', '%')}")
    return fields[letter]


def _escaped(token: re.Match[str], text: str) -> bytes:
    if token[2].startswith("x") and len(token[2]) == 3:
        return bytes.fromhex(token[2][1:])
    if token[2] not in _ESCAPES:
        raise ConfigError("--format", text, r"the escapes \n \r \t \0 \\ and \xHH")
    return _ESCAPES[token[2]]


def _fields(topic: bytes, null: bytes) -> dict[str, _Part]:
    return {
        "t": lambda partition, record: topic,
        "p": lambda partition, record: b"%d" % partition,
        "o": lambda partition, record: b"%d" % record.offset,
        "T": lambda partition, record: b"%d" % record.timestamp,
        "k": lambda partition, record: null if record.key is None else record.key,
        "K": lambda partition, record: _size(record.key),
        "s": lambda partition, record: null if record.value is None else record.value,
        "S": lambda partition, record: _size(record.value),
        "h": lambda partition, record: _headers(record),
    }


def _size(data: bytes | None) -> bytes:
    return b"%d" % (-1 if data is None else len(data))


def _headers(record: Record) -> bytes:
    return b",".join(name if value is None else name + b"=" + value for name, value in record.headers)


def _encoded(text: str | None) -> bytes | None:
    return None if text is None else text.encode("utf-8", "surrogateescape")


def text_of(value: bytes | None) -> Any:
    """UTF-8 as a string; anything else as {"base64": …}, so that no byte is lost."""
    if value is None:
        return None
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(value).decode()}
