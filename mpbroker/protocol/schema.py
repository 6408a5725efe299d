"""Reads message classes: the annotated class body is the schema, one class for all versions.

`fields_of(cls)` gives the fields in wire order; `schema_of(cls)` gives API key, versions and first flexible version
of a class decorated with `@request` or `@response`. Pure and cached; runs in any process.
"""

from collections.abc import Callable
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, NamedTuple, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec

from mpbroker.protocol.types import KINDS, Mark, NullableSince, Since, Struct, Tagged, Until, Wire

NEVER = 0x7FFF + 1
"""A version no message reaches."""

MAX_DEPTH = 8
"""How deep structs may nest; the decoder recurses no deeper than this."""

_PYTHON_KINDS = {bool: "bool", str: "string", bytes: "bytes"}


class Field(NamedTuple):
    """One field. Versions are inclusive; `nullable_since` and `tag` are None for never. `struct` is the class of a
    struct or of an array's elements. `default` is the type `list` where each object gets its own empty list."""

    name: str
    kind: str
    array: bool
    since: int
    until: int
    nullable_since: int | None
    tag: int | None
    struct: type[Struct] | None
    default: object

    def present(self, version: int) -> bool:
        """Whether the field exists in this version."""
        return self.since <= version <= self.until

    def nullable(self, version: int) -> bool:
        """Whether null is allowed on the wire in this version."""
        return self.nullable_since is not None and version >= self.nullable_since


class MessageSchema(NamedTuple):
    """What the decorator said: API key, inclusive version range, first flexible version (`NEVER` if none)."""

    key: int
    versions: tuple[int, int]
    flexible: int
    is_request: bool


_SCHEMAS: dict[type, MessageSchema] = {}
S = TypeVar("S", bound=type[Struct])


def request(*, key: int, versions: tuple[int, int], flexible: int = NEVER) -> Callable[[S], S]:
    """Declare a class as the request of API `key`, in `versions` (inclusive), flexible from `flexible` on."""
    return _declare(MessageSchema(key, versions, flexible, True))


def response(*, key: int, versions: tuple[int, int], flexible: int = NEVER) -> Callable[[S], S]:
    """Declare a class as the response of API `key`; otherwise as `request`."""
    return _declare(MessageSchema(key, versions, flexible, False))


def stored(*, versions: tuple[int, int], flexible: int = NEVER) -> Callable[[S], S]:
    """Declare a class that is no message but lies in records, in the protocol's encoding; its API key is -1."""
    return _declare(MessageSchema(-1, versions, flexible, False))


def _declare(schema: MessageSchema) -> Callable[[S], S]:
    def register(cls: S) -> S:
        _SCHEMAS[cls] = schema
        return cls

    return register


def schema_of(cls: type) -> MessageSchema:
    """Schema of a decorated message class; TypeError for any other class."""
    schema = _SCHEMAS.get(cls)
    if schema is None:
        raise TypeError(f"{cls.__name__} is not a message: it has neither @request nor @response")
    return schema


@cache
def fields_of(cls: type[Struct]) -> tuple[Field, ...]:
    """Fields of a struct class in the order of its body, which is their order on the wire."""
    hints = get_type_hints(cls, include_extras=True)
    return tuple(_field(cls, info.name, hints[info.name], info) for info in msgspec.structs.fields(cls))


def _field(cls: type[Struct], name: str, hint: Any, info: msgspec.structs.FieldInfo) -> Field:
    inner, marks = _unwrap(hint)
    inner, nullable = _without_none(inner, marks)
    array = get_origin(inner) is list
    if array:
        inner, element_marks = _unwrap(get_args(inner)[0])
        marks = marks + element_marks
    kind, struct = _kind(cls, name, inner, marks)
    first = _mark(marks, Since, 0)
    tag = _mark(marks, Tagged, None)
    nullable_since = _mark(marks, NullableSince, first) if nullable else None
    if tag is not None and struct is not None and not array:
        nullable_since = None  # None is how our objects say "no such tag"; the wire has no null here
    default = _default(cls, info)
    return Field(name, kind, array, first, _mark(marks, Until, NEVER), nullable_since, tag, struct, default)


def _unwrap(hint: Any) -> tuple[Any, tuple[Any, ...]]:
    if get_origin(hint) is Annotated:
        inner, *marks = get_args(hint)
        return inner, tuple(marks)
    return hint, ()


def _without_none(hint: Any, marks: tuple[Any, ...]) -> tuple[Any, bool]:
    """Split `X | None`. A union that is itself a wire type (records) stays whole."""
    if get_origin(hint) not in (Union, UnionType):
        return hint, False
    rest = [arg for arg in get_args(hint) if arg is not NoneType]
    nullable = len(rest) < len(get_args(hint))
    return (rest[0] if len(rest) == 1 else hint), nullable


def _kind(cls: type[Struct], name: str, inner: Any, marks: tuple[Any, ...]) -> tuple[str, type[Struct] | None]:
    wire = [mark.kind for mark in marks if isinstance(mark, Wire)]
    if wire and wire[0] in KINDS:
        return wire[0], None
    if inner in _PYTHON_KINDS:
        return _PYTHON_KINDS[inner], None
    if isinstance(inner, type) and issubclass(inner, Struct):
        return "struct", inner
    raise TypeError(f"{cls.__name__}.{name}: {inner!r} has no wire type")


def _mark(marks: tuple[Any, ...], kind: type[Mark], otherwise: Any) -> Any:
    found = [mark.number for mark in marks if isinstance(mark, kind)]
    return found[0] if found else otherwise


def _default(cls: type[Struct], info: msgspec.structs.FieldInfo) -> object:
    """The field's default; refuses one that decoded objects would share and could change."""
    if info.default_factory is list:
        return list
    if info.default is msgspec.NODEFAULT or not isinstance(info.default, bool | int | float | str | bytes | NoneType):
        raise TypeError(f"{cls.__name__}.{info.name}: a field needs an immutable default, or []")
    return info.default
