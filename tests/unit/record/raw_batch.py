"""Record batches made by hand, with any field wrong on purpose; independent of mpbroker.record's own builder."""

import struct

import crc32c

NOW_MS = 1_700_000_000_000


def varint(number: int) -> bytes:
    left = (number << 1 ^ number >> 63) & (1 << 64) - 1
    out = b""
    while left > 127:
        out, left = out + bytes([left & 127 | 128]), left >> 7
    return out + bytes([left])


def counted(data: bytes | None) -> bytes:
    return varint(-1) if data is None else varint(len(data)) + data


def record(delta=0, key=b"k", value=b"v", timestamp_delta=0, headers=()) -> bytes:
    body = b"\0" + varint(timestamp_delta) + varint(delta) + counted(key) + counted(value) + varint(len(headers))
    body += b"".join(counted(name) + counted(content) for name, content in headers)
    return varint(len(body)) + body


def batch(
    records=None,
    *,
    count=1,
    attributes=0,
    last_delta=None,
    base_offset=0,
    base_timestamp=NOW_MS,
    max_timestamp=NOW_MS,
    producer=(-1, -1, -1),
    magic=2,
    epoch=-1,
    length=None,
    crc=None,
) -> bytes:
    """A batch whose every field can be set; length and checksum are right unless they are given."""
    records = record() if records is None else records
    body = (
        struct.pack(
            ">hiqqqhii",
            attributes,
            count - 1 if last_delta is None else last_delta,
            base_timestamp,
            max_timestamp,
            *producer,
            count,
        )
        + records
    )
    return (
        struct.pack(
            ">qiibI",
            base_offset,
            len(body) + 9 if length is None else length,
            epoch,
            magic,
            crc32c.crc32c(body) if crc is None else crc,
        )
        + body
    )
