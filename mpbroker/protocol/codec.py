"""Turns message classes into plans and hands them to the C interpreter in `native/python/py_codec.c`.

A plan is one class at one version; it is built when it is first needed (`prepare` builds before a fork so that every
child inherits it) and never changes. The functions take positional arguments only:

- `decode(cls, version, buffer, offset=0)` → message. Bytes after the message are ignored. Anything malformed raises
  `ProtocolError`; records fields are memoryview windows on `buffer` and must not outlive the memory under it.
- `decode_prefix(cls, version, buffer, offset=0)` → (message, offset of the first byte after it).
- `encode(message, version)` → bytes. A value that does not fit its field raises TypeError or ValueError.
- `encoded_size(message, version)` → bytes the message takes, reserved ones included.
- `encode_into(message, version, buffer, offset=0)` → end offset; `BufferTooSmall` tells how much room was needed.
- `encode_reserving(message, version, buffer, offset=0)` → (end offset, [(position, length), …]): a records field may
  be an int n; n bytes are then left untouched at that position of `buffer` for the caller to fill.
"""

from collections.abc import Iterable

from mpbroker import _native
from mpbroker.errors import ProtocolError
from mpbroker.protocol.schema import MAX_DEPTH, Field, fields_of, schema_of
from mpbroker.protocol.types import KINDS, Struct

#: name, index in KINDS, flags, plan of a struct, tag, default
Row = tuple[str, int, int, _native.Plan | None, int, object]

ARRAY, NULLABLE, COMPACT = 1, 2, 4  # MPB_ARRAY … in native/python/py_codec.h

_PLANS: dict[type, list[_native.Plan | None]] = {}
_sub_plans: dict[tuple[type, int, bool], _native.Plan] = {}

decode = _native.codec_decode
decode_prefix = _native.codec_decode_prefix
encode = _native.codec_encode
encoded_size = _native.codec_encoded_size
encode_into = _native.codec_encode_into
encode_reserving = _native.codec_encode_reserving


def prepare(classes: Iterable[type[Struct]]) -> None:
    """Build the plans of every version of these message classes now."""
    for cls in classes:
        low, high = schema_of(cls).versions
        for version in range(low, high + 1):
            _build(cls, version)


def _build(cls: type[Struct], version: int) -> _native.Plan:
    """Build and keep the plan of one message at one version; called from C when it meets a new pair."""
    schema = schema_of(cls)
    low, high = schema.versions
    if not low <= version <= high:
        raise ProtocolError(f"{cls.__name__} has no version {version}, only {low} to {high}")
    plan = _struct_plan(cls, version, version >= schema.flexible, MAX_DEPTH)
    _PLANS.setdefault(cls, [None] * (high + 1))[version] = plan
    return plan


def _struct_plan(cls: type[Struct], version: int, flexible: bool, depth: int) -> _native.Plan:
    plan = _sub_plans.get((cls, version, flexible))
    if plan is None:
        if depth == 0:
            raise TypeError(f"{cls.__name__}: structs nest deeper than {MAX_DEPTH}")
        plan = _new_plan(cls, version, flexible, depth)
        _sub_plans[cls, version, flexible] = plan
    return plan


def _new_plan(cls: type[Struct], version: int, flexible: bool, depth: int) -> _native.Plan:
    carried, tagged, absent = [], [], []
    for field in fields_of(cls):
        row = _row(field, version, flexible, depth)
        if not field.present(version):
            absent.append(row)
        elif field.tag is None:
            carried.append(row)
        elif flexible:
            tagged.append(row)
        else:
            raise TypeError(f"{cls.__name__}.{field.name} is tagged, but version {version} is not flexible")
    tagged.sort(key=_tag)
    return _native.Plan(cls, flexible, tuple(carried), tuple(tagged), tuple(absent))


def _row(field: Field, version: int, flexible: bool, depth: int) -> Row:
    flags = ARRAY * field.array | NULLABLE * field.nullable(version) | COMPACT * flexible
    sub = None
    if field.struct is not None:
        sub = _struct_plan(field.struct, version, flexible, depth - 1)
    return (field.name, KINDS.index(field.kind), flags, sub, field.tag or 0, field.default)


def _tag(row: Row) -> int:
    return row[4]


_native.codec_connect_plans(_PLANS, _build)
