"""Functions by number, and the record of which test touched which: `.mutants/touched/*.jsonl`, made by record.py."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PLACES = 1 << 20
MAP_BYTES = 2 * PLACES
C_NAME = re.compile(r"(\w+)\((?:[^()]|\([^()]*\))*\)\s*$")


@dataclass(frozen=True)
class Run:
    """One test of pytest, or one program of native/tests (`program NAME`), and what it cost while it was recorded."""

    test: str
    slow: bool
    setup_s: float
    call_s: float
    touched: frozenset[int]


def place(path: str, name: str) -> int:
    """The number of a function: FNV-1a, as touched.c computes it; C's functions stand behind those of Python."""
    value = 2166136261
    for byte in (path + name).encode():
        value = (value ^ byte) * 16777619 & 0xFFFFFFFF
    return value % PLACES + (PLACES if path.endswith(".c") else 0)


def functions_of(path: str, text: str) -> list[tuple[str, int, int]]:
    """(name, first line, last line) of every function of a file; Python's names as `__qualname__` has them."""
    return list(_of_c(text) if path.endswith(".c") else _of_python(ast.parse(text), ""))


def _of_python(node: ast.AST, within: str) -> Iterator[tuple[str, int, int]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield within + child.name, child.lineno, child.end_lineno or child.lineno
        elif isinstance(child, ast.ClassDef):
            yield from _of_python(child, f"{within}{child.name}.")
        elif not isinstance(child, ast.expr):
            yield from _of_python(child, within)


def _of_c(text: str) -> Iterator[tuple[str, int, int]]:
    for opening in re.finditer(r"^\{$", text, re.MULTILINE):
        named = C_NAME.search(text, max(text.rfind("\n}", 0, opening.start()), 0), opening.start())
        if named:
            last = text.count("\n", 0, text.find("\n}", opening.end()) + 1) + 1
            yield named[1], text.count("\n", 0, named.start()) + 1, last


def places_at(path: str, text: str, line: int) -> frozenset[int]:
    """The function around a line; for a line outside functions all of the file's, for whoever uses it uses them."""
    functions = functions_of(path, text)
    around = [name for name, first, last in functions if first <= line <= last]
    return frozenset(place(path, name) for name in around or [name for name, _, _ in functions])


def is_outside(path: str, text: str, line: int) -> bool:
    """Whether no function is around a line."""
    return not any(first <= line <= last for _, first, last in functions_of(path, text))


def recorded(directory: Path) -> dict[str, Run]:
    """Every run by its test's id; a later line about a test holds."""
    runs = {}
    for file in sorted(directory.glob("*.jsonl"), key=lambda file: file.stat().st_mtime):
        for line in file.read_text().splitlines():
            run = json.loads(line)
            runs[run["test"]] = Run(**{**run, "touched": frozenset(run["touched"])})
    return runs
