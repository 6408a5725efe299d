"""Which LZ4 frames a broker takes: the answers of Apache Kafka 3.9.2, except that its 87 comes from the records."""

import struct

import cramjam
import pytest

from mpbroker import _native
from mpbroker.record import lz4_frame
from mpbroker.record.compression import LZ4, decompress

DATA = b"some record bytes, some record bytes" * 3


def frame(
    data=DATA,
    flags=0x60,
    descriptor=0x40,
    checksum=None,
    stored=False,
    block_checksum=None,
    content_size=None,
    chunk=None,
    end=bytes(4),
    tail=b"",
):
    head = bytes([flags, descriptor])
    if flags & 8:
        head += struct.pack("<Q", len(data) if content_size is None else content_size)
    out = struct.pack("<I", 0x184D2204) + head
    out += bytes([_native.xxh32(head) >> 8 & 255 if checksum is None else checksum])
    for start in range(0, len(data), chunk or len(data) or 1):
        part = data[start : start + (chunk or len(data))]
        block = part if stored else bytes(cramjam.lz4.compress_block(part, store_size=False))
        out += struct.pack("<I", len(block) | (0x80000000 if stored else 0)) + block
        if flags & 0x10:
            out += struct.pack("<I", _native.xxh32(block) if block_checksum is None else block_checksum)
    return out + end + tail


ACCEPTED = {
    "plain": frame(),
    "stored block": frame(stored=True),
    "blocks": frame(chunk=7),
    "4 MiB blocks": frame(descriptor=0x70),
    "content checksum, wrong": frame(flags=0x64, tail=b"abcd"),
    "block checksum": frame(flags=0x70),
    "content size": frame(flags=0x68),
    "content size, wrong": frame(flags=0x68, content_size=5),
    "bytes after it": frame(tail=b"xx"),
    "another frame after it": frame() + frame(),
}
REFUSED = {
    "dependent blocks": frame(flags=0x40),
    "header checksum": frame(checksum=frame()[6] ^ 1),
    "block checksum": frame(flags=0x70, block_checksum=5),
    "dictionary": frame(flags=0x61),
    "reserved": frame(flags=0x62),
    "version 2": frame(flags=0xA0),
    "block size 3": frame(descriptor=0x30),
    "descriptor reserved": frame(descriptor=0x41),
    "no end mark": frame(end=b""),
    "no content checksum": frame(flags=0x64),
    "cut": frame()[:-6],
    "cut early": frame()[:5],
    "block too long": frame()[:7] + struct.pack("<I", 70000) + frame()[11:],
    "skippable": struct.pack("<II", 0x184D2A50, 4) + b"abcd" + frame(),
}


@pytest.mark.parametrize("name", ACCEPTED)
def test_accepted(name):
    assert decompress(LZ4, ACCEPTED[name], 1000) == (0, DATA)


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    assert decompress(LZ4, REFUSED[name], 1000) == (-1, b"")


def test_what_we_write_is_a_standard_frame():
    for data in (b"", b"a", DATA, bytes(200_000), bytes(range(256)) * 1000):
        assert bytes(cramjam.lz4.decompress(lz4_frame.write(data))) == data


def test_xxh32_known_values():
    assert _native.xxh32(b"") == 0x02CC5D05
    assert _native.xxh32(b"a") == 0x550D7456
    assert _native.xxh32(b"Nobody inspects the spammish repetition") == 0xE2293B2F
