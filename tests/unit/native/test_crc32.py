"""Our CRC-32 is zlib's, for every length, place and continuation."""

import random
import zlib

from mpbroker import _native


def test_it_is_zlibs():
    data = random.Random(7).randbytes(70_000)
    assert _native.crc32(b"") == 0
    for length in (*range(300), 4096, 65_537):
        for begin in (0, 1, 15):
            piece = memoryview(data)[begin : begin + length]
            assert _native.crc32(piece) == zlib.crc32(piece)
            assert _native.crc32(piece, 0xFFFFFFFF) == zlib.crc32(piece, 0xFFFFFFFF)
    for cut in range(0, 70_000, 977):
        assert _native.crc32(data[cut:], _native.crc32(data[:cut])) == zlib.crc32(data)
