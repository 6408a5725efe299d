"""What mpbroker/_native.pyi says, read without a type checker: names, members, and how each call may be made."""

import ast
from pathlib import Path
from typing import NamedTuple

STUB = Path(__file__).parents[2] / "mpbroker/_native.pyi"
NOT_IN_THE_MODULE = {"__buffer__"}  # 3.11 has no such name for what a type does in C


class Call(NamedTuple):
    """How a function may be called; self or cls is left out. `least` and `most` count positional arguments."""

    least: int
    most: int
    names: tuple[str, ...]
    """Of all parameters that may be given by name."""
    kinds: tuple[str, ...]
    """Annotations of the positional ones."""


class StubClass(NamedTuple):
    final: bool
    calls: dict[str, Call]
    """Methods, __init__ and __new__ among them."""
    readable: set[str]
    """Properties: they cannot be set."""
    writable: set[str]


class Stub(NamedTuple):
    classes: dict[str, StubClass]
    functions: dict[str, Call]
    constants: set[str]


def _is(decorators: list[ast.expr], name: str) -> bool:
    return any(isinstance(each, ast.Name) and each.id == name for each in decorators)


def _call(node: ast.FunctionDef, bound: bool) -> Call:
    arguments = node.args
    by_position = [*arguments.posonlyargs, *arguments.args][bound:]
    named = [*(arguments.args[bound:] if not arguments.posonlyargs else arguments.args), *arguments.kwonlyargs]
    kinds = tuple(ast.unparse(each.annotation) for each in by_position if each.annotation)
    names = tuple(each.arg for each in named)
    return Call(len(by_position) - len(arguments.defaults), len(by_position), names, kinds)


def _constant(node: ast.stmt) -> str | None:
    return node.target.id if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) else None


def _class(node: ast.ClassDef) -> StubClass:
    functions = [each for each in node.body if isinstance(each, ast.FunctionDef)]
    properties = {each.name for each in functions if _is(each.decorator_list, "property")}
    calls = {
        each.name: _call(each, bound=True)
        for each in functions
        if each.name not in properties | NOT_IN_THE_MODULE and each.args.vararg is None
    }
    return StubClass(
        _is(node.decorator_list, "final"), calls, properties, {name for each in node.body if (name := _constant(each))}
    )


def read_stub() -> Stub:
    """The stub of mpbroker._native; private names (type variables, aliases) are left out."""
    body = ast.parse(STUB.read_text()).body
    return Stub(
        {each.name: _class(each) for each in body if isinstance(each, ast.ClassDef)},
        {each.name: _call(each, bound=False) for each in body if isinstance(each, ast.FunctionDef)},
        {name for each in body if (name := _constant(each)) and not name.startswith("_")},
    )
