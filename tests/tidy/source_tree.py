"""Reads the package's source once: modules, their imports and the lengths of their functions."""

from __future__ import annotations

import ast
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


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(), str(path))


def last_name(node: ast.expr) -> str:
    """`c` of `a.b.c` and of `c`; of anything else nothing. (ast.unparse of every node took seconds.)"""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


@cache
def imports(path: Path) -> frozenset[str]:
    """Every mpbroker module or package a file imports: also inside functions, for annotations only, and through
    import_module("…")."""
    found: set[str] = set()
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Call) and last_name(node.func).endswith("import_module"):
            found |= {arg.value for arg in node.args if isinstance(arg, ast.Constant) and isinstance(arg.value, str)}
    return frozenset(name for name in found if name.split(".")[0] == "mpbroker")


def functions(path: Path):
    """(name, first line, lines) of every function and method of a file."""
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, node.lineno, node.end_lineno - node.lineno + 1


def package_of(module: str) -> str:
    """`mpbroker.server.apis` → `server`; a module directly in the package is its own package."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else ""
