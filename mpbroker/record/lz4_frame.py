"""LZ4 frames as Kafka's clients read and write them; pure functions.

Kafka takes less than the LZ4 frame format allows: one frame, independent blocks, no dictionary, header and block
checksums verified, the content checksum and size not, bytes after the frame ignored. The same holds here, because a
batch that is stored must be readable by the consumers that exist. What fits ordinary room is read natively
(native/record/lz4.h); what that leaves (large, damaged) is read here, block after block through cramjam.
"""

import functools
import struct

from mpbroker import _native
from mpbroker.record.output_buffer import CorruptInputError, OutputBuffer, OutputTooLargeError

MAGIC = 0x184D2204
_FLAG_CONTENT_CHECKSUM = 0x04
_FLAG_CONTENT_SIZE = 0x08
_FLAG_BLOCK_CHECKSUM = 0x10
_FLAG_INDEPENDENT_BLOCKS = 0x20
_FLAGS_RESERVED = 0x03
_VERSION_1 = 0x40
_STORED = 0x80000000
_WORD = struct.Struct("<I")
#: An LZ4 block cannot grow more than this when it is decompressed.
_MAX_EXPANSION = 255
#: For all that one native read writes; more is made as blocks need it.
_NATIVE_ROOM_BYTES = 64 * 1024
_WRITE_BLOCK_BYTES = 64 * 1024
_WRITE_DESCRIPTOR = bytes((_VERSION_1 | _FLAG_INDEPENDENT_BLOCKS, 0x40))


@functools.lru_cache(maxsize=64)
def _descriptor_checksum(descriptor: bytes) -> int:
    return _native.xxh32(descriptor) >> 8 & 0xFF


def _read_word(data: memoryview, position: int) -> int:
    if position + 4 > len(data):
        raise CorruptInputError
    return int.from_bytes(data[position : position + 4], "little")


def _read_descriptor(data: memoryview) -> tuple[int, int, int]:
    """Return flags, the largest block's size and the position of the first block."""
    if len(data) < 7 or _WORD.unpack_from(data)[0] != MAGIC:
        raise CorruptInputError
    flags, block_descriptor = data[4], data[5]
    if flags & 0xC0 != _VERSION_1 or flags & _FLAGS_RESERVED or not flags & _FLAG_INDEPENDENT_BLOCKS:
        raise CorruptInputError
    size_code = block_descriptor >> 4
    if block_descriptor & 0x0F or not 4 <= size_code <= 7:
        raise CorruptInputError
    end = 14 if flags & _FLAG_CONTENT_SIZE else 6
    if len(data) <= end or data[end] != _descriptor_checksum(bytes(data[4:end])):
        raise CorruptInputError
    return flags, 1 << (2 * size_code + 8), end + 1


def _read_block(block: memoryview, max_block_bytes: int, out: OutputBuffer) -> None:
    import cramjam

    wanted = min(max_block_bytes, _MAX_EXPANSION * len(block) + 64)
    room = out.room(wanted)[:wanted]
    try:
        out.advance(cramjam.lz4.decompress_block_into(block, room, output_len=len(room)))
    except cramjam.DecompressionError:
        if len(room) < wanted:
            raise OutputTooLargeError from None
        raise CorruptInputError from None


def read(data: memoryview, out: OutputBuffer) -> None:
    """Decompress the frame at the start of `data` into `out`."""
    count = _native.lz4_read(data, out.room(_NATIVE_ROOM_BYTES))
    if count < 0:
        read_closely(data, out)
    else:
        out.advance(count)


def read_closely(data: memoryview, out: OutputBuffer) -> None:
    """The same; raises what is wrong with the frame."""
    flags, max_block_bytes, position = _read_descriptor(data)
    while True:
        word = _read_word(data, position)
        size = word & ~_STORED
        position += 4
        if not size:
            break
        block = data[position : position + size]
        position += size
        if size > max_block_bytes or len(block) < size:
            raise CorruptInputError
        if flags & _FLAG_BLOCK_CHECKSUM:
            if _read_word(data, position) != _native.xxh32(block):
                raise CorruptInputError
            position += 4
        if word & _STORED:
            out.write(block)
        else:
            _read_block(block, max_block_bytes, out)
    if flags & _FLAG_CONTENT_CHECKSUM:
        _read_word(data, position)


def write(data: bytes | memoryview) -> bytes:
    """Compress `data` into one frame of independent 64 KiB blocks."""
    import cramjam

    checksum = _descriptor_checksum(_WRITE_DESCRIPTOR)
    parts = [_WORD.pack(MAGIC), _WRITE_DESCRIPTOR, bytes((checksum,))]
    view = memoryview(data)
    for start in range(0, len(view), _WRITE_BLOCK_BYTES):
        block = view[start : start + _WRITE_BLOCK_BYTES]
        packed = bytes(cramjam.lz4.compress_block(block, store_size=False))
        if len(packed) < len(block):
            parts += _WORD.pack(len(packed)), packed
        else:
            parts += _WORD.pack(len(block) | _STORED), bytes(block)
    parts.append(_WORD.pack(0))
    return b"".join(parts)


def write_closely(data: bytes | memoryview, level: int) -> bytes:
    """The same with more work for fewer bytes, from level 1 on; from 12 on it is as close as it gets."""
    import cramjam

    compressor = cramjam.lz4.Compressor(level=level, content_checksum=False, block_linked=False)
    compressor.compress(bytes(data))
    return bytes(compressor.finish())
