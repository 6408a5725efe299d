"""What is changed in C, inside functions: comparisons, conditions, && and ||, + and -, whole numbers, truth values, and
statements that are left out. It reads characters, not a grammar: the sources stand as clang-format sets them (binary
operators between blanks), and what does not compile is not counted.

Left alone: comments, strings, the preprocessor, crash points, assertions, and what only a test build has.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from tests.mutation.edit import Edit

HIDDEN = re.compile(
    r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'|^[ \t]*#(?:\\\n|[^\n])*", re.DOTALL | re.MULTILINE
)
TEST_BUILD = re.compile(r"^#ifdef MPB_INJECT\n.*?^#(?:else|endif)", re.DOTALL | re.MULTILINE)
SWAPPED = {
    "<": ("comparison", "<="),
    "<=": ("comparison", "<"),
    ">": ("comparison", ">="),
    ">=": ("comparison", ">"),
    "==": ("comparison", "!="),
    "!=": ("comparison", "=="),
    "&&": ("and/or", "||"),
    "||": ("and/or", "&&"),
    "+": ("arithmetic", "-"),
    "-": ("arithmetic", "+"),
    "+=": ("arithmetic", "-="),
    "-=": ("arithmetic", "+="),
    "&": ("arithmetic", "|"),
    "%": ("arithmetic", "/"),
    "<<": ("arithmetic", ">>"),
    ">>": ("arithmetic", "<<"),
}
BINARY = re.compile(r"(?<=[ ])(" + "|".join(sorted(map(re.escape, SWAPPED), key=len, reverse=True)) + r")(?=[ \n])")
NUMBER = re.compile(r"(?<![\w.])(\d+)(?![\w.])")
TRUTH = re.compile(r"\b(true|false)\b")
CONDITION = re.compile(r"\b(?:if|while) \(")
STATEMENT = re.compile(r"^[ \t]+(?=[\w*(])", re.MULTILINE)
#: A call, an assignment or a count; two names after each other would be a declaration.
EFFECT = re.compile(
    r"\*?\(?[\w.\[\]>-]+(?:\(|(?:\[[^;\n]*\])?(?:(?:\.|->)\w+)*\s*(?:[-+*/|&^]|<<|>>)?=[^=]|\+\+|--|\[)"
)
NO_EFFECT = r"if|while|for|switch|return|else|do|case|goto|break|continue|default|sizeof"
NOT_EFFECTS = re.compile(rf"(?:{NO_EFFECT})\b|MPB_CRASH|_Static")


def edits_of(text: str) -> list[Edit]:
    """All changes of a file's text."""
    masked = TEST_BUILD.sub(_mask, text)
    masked = HIDDEN.sub(_mask, masked)
    return [edit for start, end in _bodies(masked) for edit in _edits(text, masked, start, end)]


def _mask(found: re.Match[str]) -> str:
    return re.sub(r"[^\n]", "~", found[0])


def _bodies(masked: str) -> Iterator[tuple[int, int]]:
    """Function bodies: from a brace in column 0 to the next closing one there."""
    for opening in re.finditer(r"^\{$", masked, re.MULTILINE):
        closing = masked.find("\n}", opening.end())
        yield opening.end(), closing + 1


def _edits(text: str, masked: str, start: int, end: int) -> Iterator[Edit]:
    crash_lines = {match.start() for match in re.finditer(r"^.*MPB_CRASH.*$|^.*assert\(.*$", masked, re.MULTILINE)}
    for found in BINARY.finditer(masked, start, end):
        if masked.rfind("\n", 0, found.start()) + 1 not in crash_lines:
            operator, new = SWAPPED[found[1]]
            yield Edit(operator, *found.span(1), new)
    for found in NUMBER.finditer(masked, start, end):
        if masked.rfind("\n", 0, found.start()) + 1 not in crash_lines:
            yield Edit("number", *found.span(1), str(int(found[1]) + 1))
    for found in TRUTH.finditer(masked, start, end):
        yield Edit("truth", *found.span(1), "false" if found[1] == "true" else "true")
    for found in CONDITION.finditer(masked, start, end):
        closing = _closing(masked, found.end(), end)
        if closing and text[found.end() : closing] != "true":
            yield Edit("condition", found.end(), closing, f"!({text[found.end() : closing]})")
    yield from _left_out(masked, start, end)


def _closing(masked: str, position: int, end: int) -> int | None:
    depth = 1
    for place in range(position, end):
        depth += {"(": 1, ")": -1}.get(masked[place], 0)
        if depth == 0:
            return place
    return None


def _left_out(masked: str, start: int, end: int) -> Iterator[Edit]:
    """Whole statements that do something, each as an empty one."""
    for found in STATEMENT.finditer(masked, start, end):
        before = masked[start : found.start()].rstrip()
        begins = not before or before[-1] in ";{}~" or before.endswith((")", "else", ":"))
        closing = masked.find(";", found.end(), end)
        statement = masked[found.end() : closing]
        if closing < 0 or not begins or "{" in statement or NOT_EFFECTS.match(statement):
            continue
        if EFFECT.match(statement) and statement.count("(") == statement.count(")"):
            rest_of_lines = "\n" * statement.count("\n")  # __LINE__ stays what it is
            yield Edit("left out", found.end(), closing + 1, ";" + rest_of_lines)
