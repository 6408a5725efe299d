"""What is changed in Python: comparisons, conditions, and/or, arithmetic, whole numbers, truth values, min/max, and
statements that are left out. Places come from ast; the text around them stays as it is.

Left alone: docstrings, annotations, f-strings, asserts, `raise NotImplementedError` (such a body runs in nobody, and
mypy sees who calls it), what only writes a line to the event log, crash points, and times that stand as a module's
constants (`LOOK_EVERY_MS`) or as a parameter's default (`poll_ms=250`): one more or less of them changes nothing that
anybody promised. C has them in the preprocessor.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from tests.mutation.edit import Edit

COMPARISONS = {
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.Is: ("is", "is not"),
    ast.IsNot: ("is not", "is"),
    ast.In: ("in", "not in"),
    ast.NotIn: ("not in", "in"),
}
ARITHMETIC = {
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: ("*", "//"),
    ast.FloorDiv: ("//", "*"),
    ast.Mod: ("%", "//"),
    ast.BitAnd: ("&", "|"),
    ast.LShift: ("<<", ">>"),
    ast.RShift: (">>", "<<"),
}
TIME = re.compile(r"^_?[A-Z][A-Z0-9_]*_(?:MS|S|NS|US)$")
TIME_PARAMETER = re.compile(r"_(?:ms|s|ns|us)$")
#: What only writes a line, and what only builds for tests have.
NO_WORK = re.compile(r"\b(?:_?log|_?events?|logger)\.(?:debug|info|warning|error)$|\b_?crash_point$")


class _Text:
    """Offsets in a text from the lines and UTF-8 columns of ast."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._lines = text.splitlines(keepends=True)
        self._starts = [0]
        for line in self._lines:
            self._starts.append(self._starts[-1] + len(line))

    def at(self, line: int, column: int) -> int:
        return self._starts[line - 1] + len(self._lines[line - 1].encode()[:column].decode())

    def span(self, node: ast.AST) -> tuple[int, int]:
        return self.at(node.lineno, node.col_offset), self.at(node.end_lineno, node.end_col_offset)

    def between(self, operator: str, first: ast.AST, second: ast.AST, old: str, new: str) -> Iterator[Edit]:
        start, end = self.span(first)[1], self.span(second)[0]
        found = re.search(rf"(?<![\w<>=!*/]){re.escape(old)}(?![\w<>=*/])", self.text[start:end])
        if found and "#" not in self.text[start:end]:
            yield Edit(operator, start + found.start(), start + found.end(), new)

    def whole(self, operator: str, node: ast.AST, new: str) -> Edit:
        return Edit(operator, *self.span(node), new)


def edits_of(text: str) -> list[Edit]:
    """All changes of a module's text."""
    source, found = _Text(text), []
    for node in _live(ast.parse(text)):
        found += _edits(source, node)
    return found


def _live(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes that run and may be changed."""
    yield node
    times = _default_times(node) if isinstance(node, ast.arguments) else set()
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "type_comment", "decorator_list"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and id(child) not in times and not _left_alone(child):
                yield from _live(child)


def _default_times(node: ast.arguments) -> set[int]:
    positional = [*node.posonlyargs, *node.args]
    pairs = [*zip(reversed(positional), reversed(node.defaults), strict=False)]
    pairs += [*zip(node.kwonlyargs, node.kw_defaults, strict=True)]
    return {id(default) for argument, default in pairs if TIME_PARAMETER.search(argument.arg)}


def _left_alone(node: ast.AST) -> bool:
    if isinstance(node, ast.If):
        return ast.unparse(node.test) == "TYPE_CHECKING"
    if isinstance(node, ast.Assign | ast.AnnAssign):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        names = [name for one in targets for name in (one.elts if isinstance(one, ast.Tuple) else [one])]
        return all(isinstance(one, ast.Name) and TIME.match(one.id) for one in names)
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Constant) or _does_no_work(node.value)
    if isinstance(node, ast.Raise):
        return isinstance(node.exc, ast.Name) and node.exc.id == "NotImplementedError"
    return isinstance(node, ast.JoinedStr | ast.Assert | ast.Import | ast.ImportFrom)


def _does_no_work(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and NO_WORK.search(ast.unparse(node.func)) is not None


def _edits(source: _Text, node: ast.AST) -> Iterator[Edit]:
    match node:
        case ast.Compare():
            sides = [node.left, *node.comparators]
            for place, operator in enumerate(node.ops):
                old, new = COMPARISONS[type(operator)]
                yield from source.between("comparison", sides[place], sides[place + 1], old, new)
        case ast.BoolOp():
            old, new = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
            for first, second in zip(node.values, node.values[1:], strict=False):
                yield from source.between("and/or", first, second, old, new)
        case ast.BinOp() if type(node.op) in ARITHMETIC and not _is_text(node):
            yield from source.between("arithmetic", node.left, node.right, *ARITHMETIC[type(node.op)])
        case ast.UnaryOp(op=ast.Not()):
            start, end = source.span(node.operand)
            yield source.whole("condition", node, f"({source.text[start:end]})")
        case ast.Constant(value=bool()):
            yield source.whole("truth", node, str(not node.value))
        case ast.Constant(value=int()):
            yield source.whole("number", node, str(node.value + 1))
        case ast.Name(id="min" | "max"):
            yield source.whole("min/max", node, "max" if node.id == "min" else "min")
        case ast.Raise() | ast.AugAssign() | ast.Delete():
            yield source.whole("left out", node, "pass")
        case ast.Expr(value=ast.Call()):
            yield source.whole("left out", node, "pass")
        case ast.Assign() if all(isinstance(one, ast.Attribute | ast.Subscript) for one in node.targets):
            yield source.whole("left out", node, "pass")
    if isinstance(node, ast.If | ast.While | ast.IfExp) and not isinstance(node.test, ast.Constant):
        start, end = source.span(node.test)
        yield source.whole("condition", node.test, f"not ({source.text[start:end]})")


def _is_text(node: ast.BinOp) -> bool:
    return any(isinstance(one, ast.Constant | ast.JoinedStr) and not _is_number(one) for one in (node.left, node.right))


def _is_number(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, int | float)
