import os
import subprocess
import sys
import zlib

import cramjam
import pytest

from mpbroker.record import compression
from mpbroker.record.compression import CODEC_NAMES, Decompressor, compress, decompress, decompressed_limit_bytes

CODECS = [compression.GZIP, compression.SNAPPY, compression.LZ4, compression.ZSTD]
SAMPLES = [b"", b"a", b"hello " * 1000, bytes(300_000), os.urandom(150_000)]


@pytest.mark.parametrize("codec", [0, *CODECS])
@pytest.mark.parametrize("data", SAMPLES, ids=len)
def test_round_trip_up_to_the_exact_limit(codec, data):
    packed = compress(codec, data)
    assert decompress(codec, packed, len(data)) == (0, data)
    if data:
        assert decompress(codec, packed, len(data) - 1) == (10, b"")


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("cut", [1, 5, 20, -4, -1])
def test_truncated_streams(codec, cut):
    packed = compress(codec, os.urandom(500) * 3)
    assert decompress(codec, packed[:cut], 1 << 20) == (-1, b"")


@pytest.mark.parametrize("codec", CODECS)
def test_garbage(codec):
    assert decompress(codec, b"\x99 garbage, garbage", 1 << 20) == (-1, b"")


def test_unknown_codec():
    assert decompress(5, b"abc", 100) == (-1, b"")
    with pytest.raises(ValueError, match="codec 5 does not exist"):
        compress(5, b"abc")


def test_gzip_members_and_what_follows_them():
    packed = zlib.compress(b"abc", wbits=31)
    assert decompress(1, packed + zlib.compress(b"def", wbits=31), 100) == (0, b"abcdef")
    assert decompress(1, packed + b"xx", 100) == (0, b"abc")
    assert decompress(1, packed + packed[:12], 100)[0] == -1
    assert decompress(1, b"", 100)[0] == -1


def test_zstd_frames_and_what_follows_them():
    packed = bytes(cramjam.zstd.compress(b"abc"))
    assert decompress(4, packed + packed, 100) == (0, b"abcabc")
    assert decompress(4, packed + b"xx", 100)[0] == -1
    assert decompress(4, b"", 100) == (0, b"")


def test_the_limit_has_a_floor_and_a_factor():
    assert decompressed_limit_bytes(1000) == 16 << 20
    assert decompressed_limit_bytes(1 << 20) == 64 << 20


def test_a_decompressor_is_reused_and_gives_memory_back():
    decompressor = Decompressor()
    for size in (10, 5_000_000, 100, 2_000_000):
        for codec in CODECS:
            code, view = decompressor.decompress(codec, compress(codec, b"x" * size), size)
            assert code == 0 and len(view) == size and view[:1] == b"x" and view[-1:] == b"x"
            decompressor.release()


BOMB = """
import resource, sys, zlib, cramjam
from mpbroker.record import compression, lz4_frame
codec, limit = int(sys.argv[1]), 64 << 20
block = bytes(cramjam.lz4.compress_block(bytes(4 << 20), store_size=False))
descriptor = bytes((0x60, 0x70))
lz4 = (0x184D2204).to_bytes(4, "little") + descriptor + bytes((lz4_frame._descriptor_checksum(descriptor),))
lz4 += (len(block).to_bytes(4, "little") + block) * 60 + bytes(4)
def gzip():
    packer = zlib.compressobj(9, wbits=31)
    return b"".join([packer.compress(bytes(1 << 20)) for _ in range(1024)] + [packer.flush()])
snappy = bytes(cramjam.snappy.compress_raw(bytes(80 << 20)))
zstd = bytes(cramjam.zstd.compress(bytes(1 << 20))) * 1024 * 4
data = {1: gzip, 2: lambda: snappy, 3: lambda: lz4, 4: lambda: zstd}[codec]()
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
before = peak()
assert compression.decompress(codec, data, limit) == (10, b"")
print(len(data), peak() - before)
"""


@pytest.mark.parametrize("codec", CODECS, ids=[CODEC_NAMES[codec] for codec in CODECS])
@pytest.mark.slow
def test_a_bomb_takes_at_most_twice_the_limit(codec):
    done = subprocess.run([sys.executable, "-c", BOMB, str(codec)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    sent, grown = map(int, done.stdout.split())
    assert sent < 5 << 20
    assert grown <= 2 * (64 << 20), f"{grown >> 20} MiB for a limit of 64 MiB"


@pytest.mark.parametrize(("codec", "levels"), [(1, (1, 9)), (3, (1, 12, 17)), (4, (-5, 1, 19, 22))])
def test_a_higher_level_takes_less_room_and_reads_the_same(codec, levels):
    words = [bytes([97 + n % 17, 98 + n % 13, 99 + n % 11]) * (1 + n % 5) for n in range(300)]
    data = b" ".join(words[n * n * 7919 % 300] for n in range(40_000))
    packed = [compress(codec, data, level) for level in levels]
    assert len(packed[-1]) < len(packed[0]) < len(data)
    assert all(decompress(codec, each, len(data)) == (0, data) for each in packed)
