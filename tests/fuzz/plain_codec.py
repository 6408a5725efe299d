"""A second codec for the same message classes, in plain Python: slow, short, and sharing nothing with the C one but
the field list. Where the two disagree about bytes, one of them is wrong."""

import struct

from mpbroker.protocol.schema import Field, fields_of, schema_of

_FIXED = {
    "bool": "?",
    "int8": "b",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "int64": "q",
    "float64": "d",
    "uuid": "16s",
}


class Malformed(Exception):
    """The bytes are not the message."""


class Reader:
    """Reads from `pos`; nothing beyond `end` exists."""

    def __init__(self, data: bytes, pos: int, flexible: bool, version: int) -> None:
        self.data, self.pos, self.end = data, pos, len(data)
        self.flexible, self.version = flexible, version

    def take(self, size: int) -> bytes:
        if size > self.end - self.pos:
            raise Malformed("cut off")
        self.pos += size
        return self.data[self.pos - size : self.pos]

    def fixed(self, code: str):
        return struct.unpack(">" + code, self.take(struct.calcsize(">" + code)))[0]

    def uvarint(self) -> int:
        total = 0
        for shift in range(0, 35, 7):
            byte = self.take(1)[0]
            total |= (byte & 0x7F) << shift
            if byte < 0x80:
                return total & 0xFFFFFFFF
        raise Malformed("varint of more than 5 bytes")

    def length(self, short: bool) -> int:
        """Any negative number means null."""
        if not self.flexible:
            return self.fixed("h" if short else "i")
        raw = (self.uvarint() - 1) & 0xFFFFFFFF
        return raw - (1 << 32) if raw >= 1 << 31 else raw


def decode(cls, version: int, data: bytes, offset: int = 0):
    """(message, offset of the first byte after it)."""
    reader = Reader(data, offset, version >= schema_of(cls).flexible, version)
    return _struct(reader, cls), reader.pos


def _struct(reader: Reader, cls):
    values = {}
    fields = [field for field in fields_of(cls) if field.present(reader.version)]
    for field in fields:
        if field.tag is None:
            values[field.name] = _field(reader, field)
    if reader.flexible:
        _tags(reader, {field.tag: field for field in fields if field.tag is not None}, values)
    return cls(**values)


def _tags(reader: Reader, known: dict[int, Field], values: dict[str, object]) -> None:
    count = reader.uvarint()
    for _ in range(count if count < 1 << 31 else 0):  # negative to a Java broker, whose loop then reads none
        tag, size = reader.uvarint(), reader.uvarint()
        if size > reader.end - reader.pos:
            raise Malformed("tagged field is cut off")
        if tag not in known:
            reader.take(size)
            continue
        inner = Reader(reader.data, reader.pos, True, reader.version)
        inner.end = reader.pos + size
        values[known[tag].name] = _field(inner, known[tag])
        if inner.pos != inner.end:
            raise Malformed("tagged field has bytes left over")
        reader.pos = inner.end


def _field(reader: Reader, field: Field):
    if not field.array:
        return _element(reader, field, field.nullable(reader.version))
    count = reader.length(short=False)
    if count < 0:
        if not field.nullable(reader.version):
            raise Malformed("null array")
        return None
    return [_element(reader, field, False) for _ in range(count)]


def _element(reader: Reader, field: Field, nullable: bool):
    if field.kind in _FIXED:
        return reader.fixed(_FIXED[field.kind])
    if field.kind == "struct":
        return None if nullable and reader.fixed("b") < 0 else _struct(reader, field.struct)
    size = reader.length(short=field.kind == "string")
    if size < 0:
        if not nullable:
            raise Malformed("null")
        return None
    value = reader.take(size)
    if field.kind != "string":
        return value
    if size > 0x7FFF:
        raise Malformed("long string")
    return value.decode(errors="replace")


def encode(message, version: int) -> bytes:
    """The message's bytes."""
    return _encode_struct(message, version, version >= schema_of(type(message)).flexible)


def _uvarint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes(out + bytes([value]))


def _length(value: int, short: bool, flexible: bool) -> bytes:
    return _uvarint(value + 1) if flexible else struct.pack(">h" if short else ">i", value)


def _encode_struct(message, version: int, flexible: bool) -> bytes:
    out, tags = b"", []
    for field in fields_of(type(message)):
        value = getattr(message, field.name)
        if not field.present(version):
            continue
        if field.tag is None:
            out += _encode_field(field, value, version, flexible)
        elif value != ([] if field.default is list else field.default):
            tags.append((field.tag, _encode_field(field, value, version, flexible)))
    if not flexible:
        return out
    tags.sort()
    return out + _uvarint(len(tags)) + b"".join(_uvarint(tag) + _uvarint(len(b)) + b for tag, b in tags)


def _encode_field(field: Field, value, version: int, flexible: bool) -> bytes:
    if not field.array:
        return _encode_element(field, value, version, flexible, field.nullable(version))
    if value is None:
        return _length(-1, False, flexible)
    elements = [_encode_element(field, element, version, flexible, False) for element in value]
    return _length(len(elements), False, flexible) + b"".join(elements)


def _encode_element(field: Field, value, version: int, flexible: bool, nullable: bool) -> bytes:
    if field.kind in _FIXED:
        return struct.pack(">" + _FIXED[field.kind], value)
    if field.kind == "struct":
        marker = (b"\xff" if value is None else b"\x01") if nullable else b""
        return marker if value is None else marker + _encode_struct(value, version, flexible)
    if value is None:
        return _length(-1, field.kind == "string", flexible)
    raw = value.encode() if field.kind == "string" else bytes(value)
    return _length(len(raw), field.kind == "string", flexible) + raw
