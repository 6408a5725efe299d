"""Finds the first error code of a response, whatever its API: read off the message classes, so none is forgotten.

Pure; run by request handlers for every answer. An error code is an int16 field whose name ends in `error_code`. Order:
the codes of a struct itself, then those of the structs inside it, field by field and element by element.
"""

from collections.abc import Callable
from functools import cache
from operator import attrgetter
from typing import Any

from mpbroker.protocol.schema import fields_of
from mpbroker.protocol.types import Struct

Finder = Callable[[Any], int]


def first_error(message: Struct) -> int:
    """The first code that is not 0; 0 when there is none, also for a message without any such field."""
    find = finder_of(type(message))
    return find(message) if find else 0


@cache
def finder_of(cls: type[Struct]) -> Finder | None:
    """The function that finds the first code in a struct of this class; None when it can hold none."""
    fields = fields_of(cls)
    codes: list[Finder] = [
        attrgetter(field.name) for field in fields if field.kind == "int16" and field.name.endswith("error_code")
    ]
    nested: list[tuple[Callable[[Any], Any], bool, Finder]] = [
        (attrgetter(field.name), field.array, find)
        for field in fields
        if field.struct is not None and (find := finder_of(field.struct))
    ]
    if len(codes) == 1 and not nested:
        return codes[0]  # partitions, thousands of them: no Python between two
    return _finder(codes, nested) if codes or nested else None


def _finder(codes: list[Finder], nested: list[tuple[Callable[[Any], Any], bool, Finder]]) -> Finder:
    def find(struct: Any) -> int:
        for code_of in codes:
            if code := code_of(struct):
                return code
        for inside, is_array, find_inside in nested:
            value = inside(struct)
            # None and an empty list hold nothing. The loop over many partitions is the interpreter's own.
            if value and (code := next(filter(None, map(find_inside, value if is_array else (value,))), 0)):
                return code
        return 0

    return find
