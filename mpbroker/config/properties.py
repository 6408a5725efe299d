"""Java's .properties syntax: comments, three separators, continued lines, escapes. Pure: text in, pairs out."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from mpbroker.errors import ConfigError

_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_LINE_ENDS = re.compile(r"\r\n|\r|\n")  # str.splitlines would also split at form feeds and other characters
_BLANKS = " \t\f"


class Property(NamedTuple):
    """One key and value; `line` is the number of its first line, from 1."""

    key: str
    value: str
    line: int


def parse_properties(text: str, origin: str = "properties") -> list[Property]:
    """Every pair in the order written, duplicates included. A broken \\u escape is a ConfigError."""
    return [_split(line, number, origin) for number, line in _logical_lines(text)]


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines with their continuations joined, without comments and empty lines."""
    pending, first = "", 0
    for number, line in enumerate(_LINE_ENDS.split(text), 1):
        line = line.lstrip(_BLANKS)
        if not first and (not line or line[0] in "#!"):
            continue
        first = first or number
        if _continues(line):
            pending += line[:-1]
            continue
        yield first, pending + line
        pending, first = "", 0
    if pending:
        yield first, pending


def _continues(line: str) -> bool:
    """An odd number of backslashes at the end continues the line."""
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _split(line: str, number: int, origin: str) -> Property:
    """Key and value stand apart by '=', ':' or blanks; the first separator that is not escaped counts."""
    end = 0
    while end < len(line) and line[end] not in "=:" + _BLANKS:
        end += 2 if line[end] == "\\" else 1
    key, rest = line[:end], line[end:].lstrip(_BLANKS)
    if rest[:1] in ("=", ":"):
        rest = rest[1:].lstrip(_BLANKS)
    where = f"{origin}, line {number}"
    return Property(_unescape(key, where), _unescape(rest, where), number)


def _unescape(text: str, where: str) -> str:
    if "\\" not in text:
        return text
    out, at = [], 0
    while at < len(text):
        character = text[at]
        at += 1
        if character == "\\" and at < len(text):
            character, at = _escaped(text, at, where)
        out.append(character)
    return "".join(out)


def _escaped(text: str, at: int, where: str) -> tuple[str, int]:
    """The character that the escape at `at` (just after the backslash) means, and where to go on."""
    if text[at] != "u":
        return _ESCAPES.get(text[at], text[at]), at + 1
    digits = text[at + 1 : at + 5]
    if not re.fullmatch(r"[0-9A-Fa-f]{4}", digits):
        problem = f"{where}: \\u{digits}: \\u needs four hexadecimal digits"
        raise ConfigError(where, f"\\u{digits}", problem=problem)
    return chr(int(digits, 16)), at + 5
