"""Reads the package's source once: modules, their imports and the lengths of their functions. Tests that use it are one
group (tests/harness/groups.py), after which tests/conftest.py forgets it."""

from __future__ import annotations

import ast
import gc
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "mpbroker"


@cache
def modules() -> dict[str, Path]:
    """Dotted module name → file, for the package itself (tests and perf have rules of their own)."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


@contextmanager
def _without_collections() -> Iterator[None]:
    """Nothing of a tree is garbage; to look for some took longer than parsing."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


@cache
def tree(path: Path) -> ast.Module:
    with _without_collections():
        return ast.parse(path.read_text(), str(path))


@cache
def nodes(path: Path) -> list[ast.AST]:
    """Every node of a file's tree but those that say nothing: whether a name is loaded or stored, and operators."""
    with _without_collections():
        found: list[ast.AST] = [tree(path)]
        for node in found:
            for value in vars(node).values():
                if isinstance(value, list):
                    found += [each for each in value if isinstance(each, ast.AST)]
                elif isinstance(value, ast.AST) and not isinstance(value, _SILENT):
                    found.append(value)
        return found


_SILENT = (ast.expr_context, ast.operator, ast.unaryop, ast.boolop)


def forget() -> None:
    """Give back the memory of all trees."""
    tree.cache_clear()
    nodes.cache_clear()


def last_name(node: ast.expr) -> str:
    """`c` of `a.b.c` and of `c`; of anything else nothing. (ast.unparse of every node took seconds.)"""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


@cache
def imports(path: Path) -> frozenset[str]:
    """Every mpbroker module or package a file imports: also inside functions, for annotations only, and through
    import_module("…")."""
    found: set[str] = set()
    for node in nodes(path):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Call) and last_name(node.func).endswith("import_module"):
            found |= {arg.value for arg in node.args if isinstance(arg, ast.Constant) and isinstance(arg.value, str)}
    return frozenset(name for name in found if name.split(".")[0] == "mpbroker")


def functions(path: Path) -> Iterator[tuple[str, int, int]]:
    """(name, first line, lines) of every function and method of a file; those of other files than the package's are
    asked for once, and nothing of them is kept."""
    with _without_collections():
        statements: list[ast.AST] = [tree(path) if path.is_relative_to(PACKAGE) else ast.parse(path.read_text())]
    for node in statements:  # functions stand in no expression
        for block in ("body", "orelse", "finalbody", "handlers", "cases"):
            statements += getattr(node, block, ()) if not isinstance(node, ast.expr) else ()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, node.lineno, (node.end_lineno or node.lineno) - node.lineno + 1


def package_of(module: str) -> str:
    """`mpbroker.server.apis` → `server`; a module directly in the package is its own package."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else ""
