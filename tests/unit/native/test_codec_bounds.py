"""What stands at the bounds of a message: tags as many as there is room for, nulls of each kind, sizes where a writer
moves to more memory."""

from typing import Annotated

import msgspec
import pytest

from mpbroker import _native
from mpbroker.errors import BufferTooSmall, ProtocolError
from mpbroker.protocol import codec, headers
from mpbroker.protocol.schema import request
from mpbroker.protocol.types import Int8, Int16, Int32, Int64, Records, Struct, UInt16, tagged
from tests.harness.no_memory import leaves_nothing

INT32_MAX = (1 << 31) - 1


class Leaf(Struct):
    number: Int16 = 0


@request(key=232, versions=(0, 1), flexible=1)
class Nullable(Struct):
    """Version 0 has long lengths, version 1 varints and tags."""

    text: str | None = None
    blob: bytes | None = None
    records: Records = None
    texts: list[str] | None = None
    blobs: list[bytes] | None = None
    leaves: list[Leaf] | None = None
    leaf: Leaf | None = None


@request(key=233, versions=(0, 1), flexible=1)
class Never(Struct):
    """The same, and nothing may be null."""

    text: str = ""
    blob: bytes = b""
    texts: list[str] = msgspec.field(default_factory=list)
    blobs: list[bytes] = msgspec.field(default_factory=list)
    leaves: list[Leaf] = msgspec.field(default_factory=list)


@request(key=234, versions=(1, 1), flexible=1)
class Last(Struct):
    """Nothing but tags."""

    text: Annotated[str, tagged(3)] = ""
    numbers: Annotated[list[Int32], tagged(5)] = msgspec.field(default_factory=list)


@request(key=235, versions=(0, 0), flexible=1)
class Long(Struct):
    """Something behind what moves a writer to more memory."""

    blob: bytes = b""
    number: Int64 = 0x0102030405060708


@request(key=236, versions=(0, 0), flexible=1)
class Whole(Struct):
    truth: bool = False
    byte: Int8 = 0
    short: Int16 = 0
    port: UInt16 = 0
    number: Int32 = 0
    large: Int64 = 0


def varint(number: int) -> bytes:
    found = b""
    while number > 127:
        found += bytes([number & 127 | 128])
        number >>= 7
    return found + bytes([number])


NONE = [b"\xff\xff", b"\xff\xff\xff\xff", b"\xff\xff\xff\xff", *[b"\xff\xff\xff\xff"] * 3, b"\xff"]


def test_every_null():
    """-1 of the length's bytes, or a varint of 0; a struct's is a byte in both."""
    assert codec.encode(Nullable(), 0) == b"".join(NONE)
    assert codec.encode(Nullable(), 1) == bytes(6) + b"\xff" + b"\0"
    for version in (0, 1):
        assert codec.decode(Nullable, version, codec.encode(Nullable(), version)) == Nullable()


@pytest.mark.parametrize("place", range(6))
def test_every_negative_length_is_null(place):
    """As Kafka reads them."""
    for first in (b"\x80", b"\xff", b"\xfe"):
        lengths = [*NONE]
        lengths[place] = first + bytes(len(lengths[place]) - 1)
        assert codec.decode(Nullable, 0, b"".join(lengths)) == Nullable()


@pytest.mark.parametrize(("marker", "leaf"), [(0x80, None), (0xFF, None), (0, Leaf(7)), (1, Leaf(7)), (0x7F, Leaf(7))])
def test_the_marker_of_a_struct(marker, leaf):
    """Below 0 is null, 0 is none of them."""
    whole = b"".join(NONE[:-1]) + bytes([marker]) + (b"" if leaf is None else b"\0\7")
    assert codec.decode(Nullable, 0, whole) == Nullable(leaf=leaf)
    with pytest.raises(ProtocolError, match=r"Nullable\.leaf at byte 22: the message ends inside this field"):
        codec.decode(Nullable, 0, whole[:22])


def test_no_element_may_be_null():
    """That the list may be is another thing."""
    for field, lengths in (("texts", (b"\xff\xff", b"\0")), ("blobs", (b"\xff\xff\xff\xff", b"\0"))):
        at = {"texts": 3, "blobs": 4}[field]
        for version, length in enumerate(lengths):
            one = (b"\0\0\0\1", b"\2")[version]
            before = b"".join(NONE[:at]) if version == 0 else bytes(at)
            with pytest.raises(ProtocolError, match=rf"Nullable\.{field} .*: null is not allowed in this version"):
                codec.decode(Nullable, version, before + one + length + bytes(40))
            with pytest.raises(TypeError):
                codec.encode(Nullable(**{field: [None]}), version)


@pytest.mark.parametrize("field", Never.__struct_fields__)
def test_what_is_never_null(field):
    for version in (0, 1):
        with pytest.raises(ValueError, match=rf"Never\.{field}: None is not allowed in this version"):
            codec.encode(Never(**{field: None}), version)
    at = Never.__struct_fields__.index(field)
    sizes = [2, 4, 4, 4, 4]
    with pytest.raises(ProtocolError, match=rf"Never\.{field} at byte {sum(sizes[:at])}: null is not allowed"):
        codec.decode(Never, 0, bytes(sum(sizes[:at])) + b"\xff" * 20)
    with pytest.raises(ProtocolError, match=rf"Never\.{field} at byte {at}: null is not allowed"):
        codec.decode(Never, 1, b"\1" * at + bytes(20))


@pytest.mark.parametrize("version", [0, 1])
def test_a_message_that_is_cut_off_anywhere(version):
    full = Nullable("text", b"blob", b"records", ["one", "two"], [b"three"], [Leaf(5), Leaf(6)], Leaf(7))
    whole = codec.encode(full, version)
    read = codec.decode(Nullable, version, whole)
    assert bytes(read.records) == b"records"
    read.records = b"records"
    assert read == full
    for length in range(len(whole)):
        with pytest.raises(ProtocolError):
            codec.decode(Nullable, version, whole[:length])


@pytest.mark.parametrize("count", [0, 1, 2, 3, 127, 128, 200])
def test_as_many_tags_as_there_is_room_for(count):
    """Two bytes each, all of them read: what is behind them tells where the last one ended."""
    tags = varint(count) + b"\x09\0" * count
    assert codec.decode_prefix(Last, 1, tags + b"more") == (Last(), len(tags))
    header = b"\0\3\0\x09" + bytes(4) + b"\0\1c" + tags
    assert headers.decode_request_header(header + b"more").body_offset == len(header)
    assert headers.decode_response_header(3, 9, bytes(4) + tags + b"more") == (0, 4 + len(tags))
    short = varint(count + 1) + b"\x09\0" * count
    for decode in (
        lambda: codec.decode(Last, 1, short),
        lambda: headers.decode_request_header(header[: -len(tags)] + short),
        lambda: headers.decode_response_header(3, 9, bytes(4) + short),
    ):
        with pytest.raises(
            ProtocolError, match="tagged fields at byte .*: there are more than the bytes left can hold"
        ):
            decode()


def test_a_number_of_tags_that_java_takes_for_a_negative_one():
    """Its loop reads none then; the largest that is positive is too many."""
    assert codec.decode_prefix(Last, 1, varint(INT32_MAX + 1) + b"more") == (Last(), 5)
    assert codec.decode_prefix(Last, 1, b"\xff\xff\xff\xff\x0f" + b"more") == (Last(), 5)
    for count in (INT32_MAX, INT32_MAX - 1):
        with pytest.raises(ProtocolError, match="there are more than the bytes left can hold"):
            codec.decode(Last, 1, varint(count) + b"more")


def test_a_tag_of_each_size():
    """It has as many bytes as it says, and no fewer are left."""
    for size in (0, 1, 2, 127, 128):
        tags = b"\1\x09" + varint(size) + b"x" * size
        assert codec.decode_prefix(Last, 1, tags + b"more") == (Last(), len(tags))
        assert headers.decode_response_header(3, 9, bytes(4) + tags + b"more") == (0, 4 + len(tags))
        if size:
            with pytest.raises(
                ProtocolError, match="tagged field at byte 1: it is longer than the bytes that are left"
            ):
                codec.decode(Last, 1, tags[:-1])
    for cut in (b"\1", b"\1\x09", b"\1\x89\x80", b"\1\x09\x80", b""):
        with pytest.raises(ProtocolError):
            codec.decode(Last, 1, cut)


def test_of_a_tag_that_comes_twice_the_last_counts():
    """What the first one said is let go of."""
    whole = b"\3\3\6\6first\3\7\7second\5\5\2\0\0\0\x09"
    assert codec.decode(Last, 1, whole) == Last("second", [9])
    leaves_nothing(lambda: codec.decode(Last, 1, whole), [whole, Last, codec])


def test_tagged_fields_that_are_sent():
    """Those that do not hold their default, in the order of their tags."""
    assert codec.encode(Last(), 1) == codec.encode(Last("", ()), 1) == b"\0"
    assert codec.encode(Last("x"), 1) == b"\1\3\2\2x"
    assert codec.encode(Last("", [9]), 1) == codec.encode(Last("", (9,)), 1) == b"\1\5\5\2\0\0\0\x09"
    assert codec.encode(Last("x", [9]), 1) == b"\2\3\2\2x\5\5\2\0\0\0\x09"
    assert codec.encode(Last("x" * 200), 1) == b"\1\3\xca\1\xc9\1" + b"x" * 200
    with pytest.raises(TypeError, match=r"Last\.numbers: \{\} is neither a list nor a tuple"):
        codec.encode(Last("", {}), 1)


@pytest.mark.parametrize("edge", [1024, 4096, 8192, 16384, 20000])
def test_a_writer_that_moves_to_more_memory(edge):
    """It has 1 KiB, then 4 KiB, then twice as much as before: what is written is the same on either side of each."""
    whole = bytes(at * 7 & 255 for at in range(256)) * (edge // 256 + 1)
    for length in range(edge - 16, edge + 3):
        blob = whole[:length]
        expected = length.to_bytes(4, "big") + blob + bytes(range(1, 9))
        assert codec.encode(Long(blob), 0) == expected and codec.encoded_size(Long(blob), 0) == len(expected)


@pytest.mark.parametrize("length", [0, 1, 5, 1000, 5000])
def test_a_buffer_that_a_message_fills(length):
    """To its last byte; one byte less is too few, and nothing is written behind."""
    made, expected = Long(b"x" * length), length.to_bytes(4, "big") + b"x" * length + bytes(range(1, 9))
    framed = (len(expected) + 4).to_bytes(4, "big") + b"\0\0\0\7" + expected
    for whole, write in (
        (expected, lambda buffer, at: codec.encode_into(made, 0, buffer, at)),
        (framed, lambda buffer, at: headers.encode_response_frame_into(3, 0, 7, made, buffer, at)[0]),
    ):
        for at in (0, 3):
            target = bytearray(b"\xff" * (at + len(whole)))
            assert write(target, at) == len(target) and target == b"\xff" * at + whole
            short = memoryview(bytearray(b"\xff" * (at + len(whole))))
            with pytest.raises(BufferTooSmall, match=f"needs {len(whole)} bytes, the buffer has room for "):
                write(short[:-1], at)
            assert short[-1] == 0xFF


def test_a_writer_that_moves_often():
    texts = [f"{number}" * 50 for number in range(2000)]
    expected = bytes(6) + len(texts).to_bytes(4, "big")
    expected += b"".join(len(text).to_bytes(2, "big") + text.encode() for text in texts) + bytes(8)
    assert codec.encode(Never(texts=texts), 0) == expected


@pytest.mark.parametrize(
    ("field", "least", "most"),
    [
        ("truth", 0, 1), ("byte", -128, 127), ("short", -32768, 32767), ("port", 0, 65535),
        ("number", -(1 << 31), INT32_MAX), ("large", -(1 << 63), (1 << 63) - 1),
    ],
)  # fmt: skip
def test_the_numbers_of_each_field(field, least, most):
    for number in {least, least + 1, -1 if least < 0 else 0, 0, 1, most - 1, most}:
        made = Whole(**{field: number})
        assert codec.decode(Whole, 0, codec.encode(made, 0)) == made
    for number in (least - 1, most + 1, 1 << 70, -(1 << 70)):
        with pytest.raises(ValueError, match=rf"^Whole\.{field}: {number} does not fit the field$"):
            codec.encode(Whole(**{field: number}), 0)
    for wrong in (1.0, "1", None, b"1"):
        with pytest.raises(TypeError, match=rf"^Whole\.{field}: .* is not an int$"):
            codec.encode(Whole(**{field: wrong}), 0)


@pytest.mark.parametrize(
    ("cls", "name"),
    [
        (range, "start"),
        (ImportError, "msg"),
        (slice, "start"),
        (str, "upper"),
        (property, "__doc__"),
        (Leaf, "__init__"),
    ],
)
def test_what_is_no_slot_of_a_message(cls, name):
    """It is only read, or none is what it may be, or it is no place at all."""
    field = (name, 1, 0, None, 0, 0)
    for places in (((field,), (), ()), ((), (field,), ()), ((), (), (field,))):
        with pytest.raises(TypeError, match=rf"^\w+\.{name} is not a slot a message can be stored in$"):
            _native.Plan(cls, False, *places)
    assert _native.Plan(Leaf, False, (("number", 1, 0, None, 0, 0),), (), ()).min_bytes == 1
