"""Snappy as Kafka's clients use it: the framing of the Java library (xerial), or one raw block; pure functions.

The xerial stream is a 16-byte header, then blocks, each after its compressed size as a big-endian int32. Kafka ignores
the header's version numbers, takes further headers between blocks and up to three bytes after the last one.
"""

import struct

from mpbroker.record.output_buffer import CorruptInputError, OutputBuffer, OutputTooLargeError

_MAGIC = b"\x82SNAPPY\0"
_HEADER = _MAGIC + struct.pack(">ii", 1, 1)
_HEADER_HEAD = struct.unpack(">i", _MAGIC[:4])[0]
_SIZE = struct.Struct(">i")
_WRITE_BLOCK_BYTES = 32 * 1024
#: A copy element of three bytes writes 64: no block can grow more. A larger claim is a lie, and nothing is allocated.
_MAX_EXPANSION = 22


def _read_block(block: memoryview, out: OutputBuffer) -> None:
    import cramjam

    if not len(block):
        raise CorruptInputError
    try:
        size = cramjam.snappy.decompress_raw_len(block)
        if size > _MAX_EXPANSION * len(block):
            raise CorruptInputError
        if size > out.left_bytes:
            raise OutputTooLargeError
        out.advance(cramjam.snappy.decompress_raw_into(block, out.room(size)[:size]))
    except cramjam.DecompressionError:
        raise CorruptInputError from None


def read(data: memoryview, out: OutputBuffer) -> None:
    """Decompress `data` into `out`."""
    if len(data) < len(_HEADER) or data[: len(_MAGIC)] != _MAGIC:
        _read_block(data, out)
        return
    position = len(_HEADER)
    while position + 4 <= len(data):
        (size,) = _SIZE.unpack_from(data, position)
        if size == _HEADER_HEAD:
            position += len(_HEADER)
            continue
        position += 4
        if size <= 0 or position + size > len(data):
            raise CorruptInputError
        _read_block(data[position : position + size], out)
        position += size


def write(data: bytes | memoryview) -> bytes:
    """Compress `data` into a xerial stream of 32 KiB blocks."""
    import cramjam

    parts = [_HEADER]
    view = memoryview(data)
    for start in range(0, len(view), _WRITE_BLOCK_BYTES):
        packed = bytes(cramjam.snappy.compress_raw(view[start : start + _WRITE_BLOCK_BYTES]))
        parts += _SIZE.pack(len(packed)), packed
    return b"".join(parts)
