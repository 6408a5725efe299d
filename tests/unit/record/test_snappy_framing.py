"""Which snappy streams a broker takes: the answers of Apache Kafka 3.9.2."""

import struct

import cramjam
import pytest

from mpbroker.record import snappy_framing
from mpbroker.record.compression import SNAPPY, decompress

HEADER = b"\x82SNAPPY\0" + struct.pack(">ii", 1, 1)


def block(data):
    packed = bytes(cramjam.snappy.compress_raw(data))
    return struct.pack(">i", len(packed)) + packed


@pytest.mark.parametrize(
    ("stream", "expected"),
    [
        (bytes(cramjam.snappy.compress_raw(b"abcdef")), b"abcdef"),
        (HEADER + block(b"abc") + block(b"def"), b"abcdef"),
        (HEADER, b""),
        (HEADER[:8] + struct.pack(">ii", 7, 0) + block(b"abc"), b"abc"),
        (HEADER + block(b"abc") + b"xyz", b"abc"),
        (HEADER + block(b"abc") + HEADER + block(b"def"), b"abcdef"),
        (HEADER + block(b"") + block(b"abc"), b"abc"),
    ],
    ids=["raw", "xerial", "header only", "other versions", "3 bytes after", "second header", "empty block"],
)
def test_accepted(stream, expected):
    assert decompress(SNAPPY, stream, 100) == (0, expected)


@pytest.mark.parametrize(
    "stream",
    [
        b"",
        HEADER[:12],
        HEADER + bytes(4) + block(b"abc"),
        HEADER + struct.pack(">i", -1),
        HEADER + block(b"abc")[:-1],
        bytes(cramjam.snappy.compress_raw(b"abc"))[:-1],
        bytes(cramjam.snappy.compress_raw(b"abc")) + b"x",
        bytes(cramjam.snappy.compress(b"abc")),
        b"\xff\xff\xff\xff\x0fabc",
    ],
    ids=["empty", "short header", "zero", "negative", "cut", "raw cut", "raw longer", "other framing", "4 GiB claimed"],
)
def test_refused(stream):
    assert decompress(SNAPPY, stream, 100) == (-1, b"")


def test_what_we_write_has_blocks_of_32_kib():
    data = bytes(range(256)) * 300
    stream = snappy_framing.write(data)
    (size,) = struct.unpack_from(">i", stream, 16)
    assert stream.startswith(HEADER) and cramjam.snappy.decompress_raw_len(stream[20 : 20 + size]) == 32768
    assert decompress(SNAPPY, stream, len(data)) == (0, data)
