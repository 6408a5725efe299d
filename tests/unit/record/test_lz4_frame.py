"""Which LZ4 frames a broker takes: the answers of Apache Kafka 3.9.2, except that its 87 comes from the records."""

import random
import struct

import cramjam
import pytest

from mpbroker import _native
from mpbroker.record import lz4_frame
from mpbroker.record.compression import LZ4, decompress
from mpbroker.record.output_buffer import CorruptInputError, OutputBuffer, OutputTooLargeError

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
    "block size 8": frame(descriptor=0x80),
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


def _natively(data, room):
    """What the native reader writes, None where it leaves the frame to Python; nothing behind its room is touched."""
    memory = bytearray(b"\xa5" * (room + 64))
    count = _native.lz4_read(data, memoryview(memory)[:room])
    assert memory[room:] == b"\xa5" * 64
    return None if count < 0 else bytes(memory[:count])


def _closely(data, room):
    out = OutputBuffer()
    out.begin(room)
    try:
        lz4_frame.read_closely(memoryview(data), out)
    except (CorruptInputError, OutputTooLargeError):
        return None
    return bytes(out.view())


def _examples():
    source = random.Random(11)
    yield from ACCEPTED.values()
    for size in (1, 15, 16, 17, 300, 5000, 70_000, 140_000):
        noise = source.randbytes(size)
        for data in (
            bytes(size),
            noise,
            noise.hex().encode()[:size],
            b"".join(bytes([n]) * (n + 1) for n in noise)[:size],
        ):
            for period in (0, 3, 13, 40):
                whole = data[:period] * (size // period) if period else data
                yield lz4_frame.write(whole)
                yield lz4_frame.write_closely(whole, 12)


def test_the_native_reader_reads_what_the_other_reads():
    for data in _examples():
        expected = _closely(data, 1 << 20)
        assert expected is not None
        assert _natively(data, len(expected)) == expected
        assert not expected or _natively(data, len(expected) - 1) is None


@pytest.mark.parametrize("name", REFUSED)
def test_the_native_reader_takes_no_more_than_the_other(name):
    assert _natively(REFUSED[name], 1000) is None


def test_the_native_reader_makes_nothing_else_of_damaged_frames():
    source = random.Random(12)
    examples = [data for data in _examples() if len(data) < 2000]
    taken = 0
    for _ in range(6000):
        data = bytearray(source.choice(examples))
        for _ in range(source.randint(1, 3)):
            data[source.randrange(4, len(data))] = source.choice((0, 1, 15, 16, 240, 255, source.randrange(256)))
        _natively(data, source.randrange(4096))  # stops anywhere, and writes nothing behind
        found = _natively(data, 4096)
        if found is not None:
            taken += 1
            assert found == _closely(data, 4096)
    assert taken > 100
