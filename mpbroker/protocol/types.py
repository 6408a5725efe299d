"""The vocabulary of message classes: wire types and the markers that say in which versions a field exists.

Used inside the annotations of `mpbroker/protocol/messages/*.py`; read by `schema.py` in whichever process decodes or
encodes first. Nothing here has state. Alias names are CapWords so that no field name can hide one.
"""

from typing import Annotated, NamedTuple, TypeAlias

import msgspec

KINDS = (
    "bool",
    "int8",
    "int16",
    "uint16",
    "int32",
    "int64",
    "float64",
    "uuid",
    "string",
    "bytes",
    "records",
    "struct",
)
"""Wire kinds; the index of each is its number in `native/python/py_codec.h`."""


class Wire(NamedTuple):
    """The wire kind of an annotation whose Python type does not tell it."""

    kind: str


class Mark:
    """One number about a field. Marks of different kinds are never equal: `Annotated` keeps the types it made and, in
    early releases of Python 3.11, finds them by equality: `until(3)` would become a `since(3)` written before it.

    No dataclass: `dataclasses` imports inspect and ast, half a megabyte that every process of a broker would hold."""

    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        self.number = number

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and isinstance(other, Mark) and other.number == self.number

    def __hash__(self) -> int:
        return hash((type(self), self.number))


class Since(Mark):
    """The field exists from this version on."""


class Until(Mark):
    """The field exists up to and including this version."""


class NullableSince(Mark):
    """The field, though declared `| None`, may be null only from this version on."""


class Tagged(Mark):
    """The field travels in the tagged section under this number, and only when it differs from its default."""


since = Since
until = Until
nullable_since = NullableSince
tagged = Tagged

Int8: TypeAlias = Annotated[int, Wire("int8")]
Int16: TypeAlias = Annotated[int, Wire("int16")]
UInt16: TypeAlias = Annotated[int, Wire("uint16")]
Int32: TypeAlias = Annotated[int, Wire("int32")]
Int64: TypeAlias = Annotated[int, Wire("int64")]
Float64: TypeAlias = Annotated[float, Wire("float64")]

Uuid: TypeAlias = Annotated[bytes, Wire("uuid")]
"""16 bytes; `ZERO_UUID` means none."""

Records: TypeAlias = Annotated[memoryview | bytes | bytearray | None, Wire("records")]
"""Record batches. Decoded: a memoryview window on the input, never a copy, or None. Encoded: any buffer, or None."""

ReservedRecords: TypeAlias = Annotated[memoryview | bytes | bytearray | int | None, Wire("records")]
"""Records of a response that is encoded before they are read: also an int n, with which `encode_reserving` leaves n
bytes free to be filled in later."""

ZERO_UUID = bytes(16)


class Struct(msgspec.Struct, gc=False):
    """Base of every message and of every struct inside one.

    Messages are trees, so the garbage collector does not track them: never make one part of a cycle.
    """
