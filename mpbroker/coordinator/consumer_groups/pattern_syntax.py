"""Reads regular expressions in the syntax of RE2, over the characters that topic names are made of. Pure; in the
coordinator process.

What RE2 has and this does not is an error, never something else in silence: `\\b`, `\\B`, names of scripts, names of
groups that begin with a digit, codes of more than six digits, an opening `[:` in a set that nothing closes.

Nothing here looks back, so matching takes time in proportion to the text (`topic_pattern.py`).
"""

from __future__ import annotations

import unicodedata
from typing import NamedTuple

MAX_CHARACTERS, MAX_DEPTH, MAX_REPEAT = 4096, 100, 1000
ASCII = [chr(code) for code in range(128)]
ALL = (1 << 128) - 1


class BadPattern(ValueError):
    """A text that is no regular expression, or one too large."""


class Node(NamedTuple):
    """A part of an expression. `kind`: chars (one of `mask`, a bit for each character), all (`parts` in order), any
    (one of `parts`), repeat (the only part, `least` to `most` times; None: without end), begin, end."""

    kind: str
    mask: int = 0
    parts: tuple[Node, ...] = ()
    least: int = 0
    most: int | None = None


class Flags(NamedTuple):
    """`(?is)`. Of a text without lines and a whole match, the others change nothing."""

    ignore_case: bool = False
    dot_is_all: bool = False


def _mask(characters: str) -> int:
    found = 0
    for one in characters:
        if ord(one) < 128:
            found |= 1 << ord(one)
    return found


def _span(low: str, high: str) -> int:
    return _mask("".join(one for one in ASCII if low <= one <= high))


DIGITS, LOWER, UPPER = _span("0", "9"), _span("a", "z"), _span("A", "Z")
WORD, SPACE = DIGITS | LOWER | UPPER | _mask("_"), _mask("\t\n\f\r ")
_CLASSES = {"d": DIGITS, "w": WORD, "s": SPACE}
_ESCAPES = {"a": "\a", "f": "\f", "t": "\t", "n": "\n", "r": "\r", "v": "\v"}
_NAMED = {
    "alnum": DIGITS | LOWER | UPPER,
    "alpha": LOWER | UPPER,
    "ascii": ALL,
    "blank": _mask("\t "),
    "cntrl": _span("\0", "\x1f") | _mask("\x7f"),
    "digit": DIGITS,
    "graph": _span("!", "~"),
    "lower": LOWER,
    "print": _span(" ", "~"),
    "punct": _span("!", "~") & ~(DIGITS | LOWER | UPPER),
    "space": SPACE | _mask("\v"),
    "upper": UPPER,
    "word": WORD,
    "xdigit": DIGITS | _span("a", "f") | _span("A", "F"),
}


class Reader:
    """Reads one expression."""

    def __init__(self, text: str) -> None:
        if len(text) > MAX_CHARACTERS:
            raise BadPattern("expression too large")
        self._text = text
        self._at = 0
        self._depth = 0
        self._flags = Flags()

    def read(self) -> Node:
        """The whole expression."""
        found = self._alternatives()
        if self._at < len(self._text):
            raise BadPattern("unexpected )")
        return found

    def _peek(self, length: int = 1) -> str:
        return self._text[self._at : self._at + length]

    def _take(self, expected: str) -> bool:
        if self._text.startswith(expected, self._at):
            self._at += len(expected)
            return True
        return False

    def _next(self, problem: str) -> str:
        if self._at >= len(self._text):
            raise BadPattern(problem)
        self._at += 1
        return self._text[self._at - 1]

    def _alternatives(self) -> Node:
        found = [self._sequence()]
        while self._take("|"):
            found.append(self._sequence())
        return found[0] if len(found) == 1 else Node("any", parts=tuple(found))

    def _sequence(self) -> Node:
        parts: list[Node] = []
        while self._peek() not in ("", "|", ")"):
            one = self._atom()
            if one is not None:
                parts.append(self._repeated(one))
        return Node("all", parts=tuple(parts))

    def _repeated(self, one: Node) -> Node:
        bounds = self._bounds()
        if bounds is None:
            return one
        self._take("?")  # the shortest match or the longest: the same texts match as a whole
        if self._bounds() is not None:
            raise BadPattern("invalid nested repetition operator")
        return Node("repeat", parts=(one,), least=bounds[0], most=bounds[1])

    def _bounds(self) -> tuple[int, int | None] | None:
        simple: dict[str, tuple[int, int | None]] = {"*": (0, None), "+": (1, None), "?": (0, 1)}
        if self._peek() in simple:
            return simple[self._next("")]
        end = self._text.find("}", self._at)
        if self._peek() != "{" or end < 0:
            return None
        low, comma, high = self._text[self._at + 1 : end].partition(",")
        if not _is_number(low) or (high and not _is_number(high)):
            return None  # not a repetition: the brace stands for itself
        least = int(low[:5])
        most = int(high[:5]) if high else None if comma else least
        if least > MAX_REPEAT or (most is not None and (most > MAX_REPEAT or most < least)):
            raise BadPattern("invalid repeat count")
        self._at = end + 1
        return least, most

    def _atom(self) -> Node | None:
        one = self._next("")
        if one == "(":
            return self._group()
        if one == "[":
            return Node("chars", self._set())
        if one == ".":
            return Node("chars", ALL if self._flags.dot_is_all else ALL & ~_mask("\n"))
        if one in "^$":
            return Node("begin" if one == "^" else "end")
        if one in "*+?":
            raise BadPattern("missing argument to repetition operator")
        if one == "\\":
            return self._escaped()
        return Node("chars", self._cased(_mask(one)))

    def _cased(self, mask: int) -> int:
        if not self._flags.ignore_case:
            return mask
        return mask | (mask & LOWER) >> 32 | (mask & UPPER) << 32

    def _group(self) -> Node | None:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise BadPattern("expression nests too deeply")
        before = self._flags
        if self._take("?") and not self._named() and not self._flagged():
            self._depth -= 1
            return None  # flags for the rest of the group around
        found = self._alternatives()
        if not self._take(")"):
            raise BadPattern("missing closing )")
        self._depth -= 1
        self._flags = before
        return found

    def _named(self) -> bool:
        if not self._take("P<") and not (self._peek() == "<" and self._peek(2) not in ("<=", "<!") and self._take("<")):
            return False
        name, end, rest = self._text[self._at :].partition(">")
        if not end or not name.isidentifier():
            raise BadPattern("invalid named capture")
        self._at = len(self._text) - len(rest)
        return True

    def _flagged(self) -> bool:
        """`i`, `-s`, `i-s:` …; whether a group follows."""
        on = True
        while True:
            one = self._next("missing argument to repetition operator")
            if one == "-":
                on = False
            elif one == "i":
                self._flags = self._flags._replace(ignore_case=on)
            elif one == "s":
                self._flags = self._flags._replace(dot_is_all=on)
            elif one in ":)":
                return one == ":"
            elif one not in "mU":
                raise BadPattern("invalid or unsupported Perl syntax")

    def _escaped(self) -> Node:
        one = self._next("trailing \\ at end of expression")
        if one in "Az":
            return Node("begin" if one == "A" else "end")
        if one == "Q":
            text, _, rest = self._text[self._at :].partition("\\E")
            self._at = len(self._text) - len(rest)
            return Node("all", parts=tuple(Node("chars", self._cased(_mask(each))) for each in text))
        return Node("chars", self._cased(self._escaped_mask(one)))

    def _escaped_mask(self, one: str) -> int:
        if one.lower() in _CLASSES:
            mask = _CLASSES[one.lower()]
            return mask if one.islower() else ALL & ~mask
        if one in "pP":
            return self._category(one == "P")
        if one in _ESCAPES:
            return _mask(_ESCAPES[one])
        if one == "x":
            return self._hexadecimal()
        if one in "01234567":
            return self._octal(one)
        if one.isascii() and one.isalnum():
            raise BadPattern("invalid escape sequence")
        return _mask(one)

    def _hexadecimal(self) -> int:
        braced = self._take("{")
        end = self._text.find("}", self._at) if braced else self._at + 2
        digits = self._text[self._at : end] if end >= 0 else ""
        if not digits or len(digits) > 6 or any(one not in "0123456789abcdefABCDEF" for one in digits):
            raise BadPattern("invalid escape sequence")
        self._at = end + braced
        return _code(int(digits, 16))

    def _octal(self, first: str) -> int:
        digits = first
        while len(digits) < 3 and self._peek() in tuple("01234567"):
            digits += self._next("")
        if first != "0" and len(digits) == 1:
            raise BadPattern("invalid escape sequence")  # a reference to a group
        return _code(int(digits, 8))

    def _category(self, negated: bool) -> int:
        name = self._next("invalid character class range")
        if name == "{":
            name, end, rest = self._text[self._at :].partition("}")
            if not end:
                raise BadPattern("invalid character class range")
            self._at = len(self._text) - len(rest)
        if name.startswith("^"):
            name, negated = name[1:], not negated
        found = [one for one in ASCII if unicodedata.category(one).startswith(name)] if name != "Any" else ASCII
        if name != "Any" and (len(name) > 2 or name[:1] not in tuple("CLMNPSZ")):
            raise BadPattern("invalid character class range")
        mask = _mask("".join(found))
        return ALL & ~mask if negated else mask

    def _set(self) -> int:
        negated = self._take("^")
        found, is_first = 0, True
        while is_first or self._peek() != "]":
            is_first = False
            if self._peek(2) == "[:":
                found |= self._named_class()
                continue
            low = self._set_mask()
            if self._peek() == "-" and self._peek(2) not in ("-", "-]"):
                self._at += 1
                found |= _range(low, self._set_mask())
            else:
                found |= low
        self._at += 1
        found = self._cased(found)
        return ALL & ~found if negated else found

    def _set_mask(self) -> int:
        one = self._next("missing closing ]")
        return self._escaped_mask(self._next("missing closing ]")) if one == "\\" else _mask(one)

    def _named_class(self) -> int:
        end = self._text.find(":]", self._at)
        name = self._text[self._at + 2 : end] if end >= 0 else ""
        if name.removeprefix("^") not in _NAMED:
            raise BadPattern("invalid character class range")
        self._at = end + 2
        mask = _NAMED[name.removeprefix("^")]
        return ALL & ~mask if name.startswith("^") else mask


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and (text == "0" or text[0] != "0")


def _code(number: int) -> int:
    return 1 << number if number < 128 else 0


def _range(low: int, high: int) -> int:
    """All characters from one to another; one that topic names cannot have lies behind all others."""
    start = low.bit_length() - 1 if low else 128
    end = high.bit_length() - 1 if high else 128
    if low.bit_count() > 1 or high.bit_count() > 1 or end < start:
        raise BadPattern("invalid character class range")
    return ((1 << min(end, 127) + 1) - 1) & ~((1 << start) - 1) if start < 128 else 0
