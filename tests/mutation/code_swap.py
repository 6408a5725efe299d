"""A change tried in a process that runs already: the code of its functions is put in place of what they have.

What stands outside of functions has happened when the module was imported, and cannot be tried so: tables, defaults,
decorators, the fields of classes.
"""

from __future__ import annotations

import gc
from collections import Counter, defaultdict
from collections.abc import Iterator
from types import CodeType, FunctionType
from typing import Any, TypeAlias

#: Qualified name, first line, and which of those that have both.
Place: TypeAlias = tuple[str, int, int]
Swap: TypeAlias = tuple[FunctionType, CodeType]
CO_OPTIMIZED = 1  # functions have it, classes and modules do not


class Functions:
    """Every function object of a tree's modules in this process, by its place."""

    def __init__(self, prefix: str) -> None:
        self._found: dict[tuple[str, str, int], list[FunctionType]] = defaultdict(list)
        gc.unfreeze()  # what is frozen is not listed
        for one in gc.get_objects():
            if isinstance(one, FunctionType) and one.__code__.co_filename.startswith(prefix):
                code = one.__code__
                self._found[code.co_filename, code.co_qualname, code.co_firstlineno].append(one)
        gc.freeze()

    def swaps(self, file: str, before: str, after: str) -> list[Swap] | None:
        """What makes a module's functions those of the changed text; None where that is not all of the change. A
        function within another one is exchanged with that one."""
        old, new = compile(before, file, "exec"), compile(after, file, "exec")
        if _outside(old) != _outside(new):
            return None
        changed = dict(_functions(new))
        found: list[Swap] = []
        for place, code in _functions(old):
            other = changed.get(place)
            if other is None or _content(code) == _content(other):
                continue
            objects = self._found.get((file, *place[:2]), [])
            if other.co_freevars != code.co_freevars:
                return None
            found += [(one, other) for one in objects if _same_place(one.__code__, code)]
        return found or None


def _same_place(one: CodeType, other: CodeType) -> bool:
    """Of functions that begin in one line and have one name, as lambdas may."""
    return (one.co_code, one.co_varnames, one.co_freevars) == (other.co_code, other.co_varnames, other.co_freevars)


def _functions(code: CodeType) -> Iterator[tuple[Place, CodeType]]:
    """All of a module, those within others as well."""
    seen: Counter[tuple[str, int]] = Counter()
    waiting = [code]
    while waiting:
        one = waiting.pop()
        waiting += [const for const in one.co_consts if isinstance(const, CodeType)]
        if one.co_flags & CO_OPTIMIZED:
            seen[one.co_qualname, one.co_firstlineno] += 1
            yield (one.co_qualname, one.co_firstlineno, seen[one.co_qualname, one.co_firstlineno]), one


def _content(code: CodeType) -> Any:
    """What a function does, without the lines where it stands."""
    consts = tuple(
        _content(const) if isinstance(const, CodeType) else (type(const), repr(const)) for const in code.co_consts
    )
    return code.co_code, consts, code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars


def _outside(code: CodeType) -> Any:
    """What a module or a class does when it is made; of functions only that they are there."""
    if code.co_flags & CO_OPTIMIZED:
        return "function"
    consts = tuple(
        _outside(const) if isinstance(const, CodeType) else (type(const), repr(const)) for const in code.co_consts
    )
    return code.co_code, consts, code.co_names
