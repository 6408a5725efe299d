"""Whether a test named in a document is there: `tests/…/test_x.py::test_y`, or `native/tests/test_x.c` for a C
program."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

from tests.tidy.source_tree import ROOT


@cache
def _tests_of(path: Path) -> frozenset[str]:
    nodes = ast.walk(ast.parse(path.read_text(), str(path)))
    return frozenset(node.name for node in nodes if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"))


def exists(identity: str) -> bool:
    """True for `path::function` of a test function, or the path of a C test program."""
    path, _, function = identity.partition("::")
    if not function:
        return path.startswith("native/tests/") and path.endswith(".c") and (ROOT / path).is_file()
    return path.startswith("tests/") and (ROOT / path).is_file() and function in _tests_of(ROOT / path)
