"""The four codecs of record batches behind one pair of functions; used by request handlers, clients and tools.

Everything decompressed goes through an OutputBuffer, whose limit holds before memory is allocated. gzip uses the
standard library, which can stop in the middle of a stream and is faster than the alternative; the rest is cramjam,
imported where it is first needed: a broker whose producers' records nobody compresses anew starts without it.
"""

import zlib

from mpbroker.errors import ErrorCode
from mpbroker.record import lz4_frame, snappy_framing
from mpbroker.record.output_buffer import CorruptInputError, OutputBuffer, OutputTooLargeError

NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)
#: The name of each codec, as `compression.type` has it; the index is its number in a batch's attributes.
CODEC_NAMES = ("none", "gzip", "snappy", "lz4", "zstd")

#: The level of each codec where none is asked for: Kafka's defaults. Snappy has none.
DEFAULT_LEVELS = {GZIP: -1, LZ4: 9, ZSTD: 3}

_GZIP_WINDOW_BITS = 31
_GZIP_CHUNK_BYTES = 1 << 20
_GZIP_MEMBER_START = b"\x1f\x8b\x08"
_ZSTD_FIRST_ROOM_BYTES = 1 << 16
_ZSTD_BUFFER_FULL = "failed to write whole buffer"

#: No batch may decompress to more than the larger of these: a floor, and a multiple of max.message.bytes that leaves
#: room for logs that compress 50 to 1. A larger one is answered with MESSAGE_TOO_LARGE, after which producers split.
MIN_DECOMPRESSED_LIMIT_BYTES = 16 << 20
DECOMPRESSED_LIMIT_FACTOR = 64


def decompressed_limit_bytes(max_message_bytes: int) -> int:
    """The most bytes a batch may decompress to on a topic with this max.message.bytes."""
    return max(MIN_DECOMPRESSED_LIMIT_BYTES, DECOMPRESSED_LIMIT_FACTOR * max_message_bytes)


def _read_gzip_member(data: bytes | memoryview, out: OutputBuffer) -> bytes:
    """Decompress one member and return what follows it."""
    stream = zlib.decompressobj(_GZIP_WINDOW_BITS)
    while not stream.eof:
        chunk = stream.decompress(data, min(out.left_bytes + 1, _GZIP_CHUNK_BYTES))
        if not chunk and not stream.eof:
            raise CorruptInputError
        out.write(chunk)
        data = stream.unconsumed_tail
    return stream.unused_data


def _read_gzip(data: memoryview, out: OutputBuffer) -> None:
    try:
        rest = _read_gzip_member(data, out)
        while rest.startswith(_GZIP_MEMBER_START):
            rest = _read_gzip_member(rest, out)
    except zlib.error:
        raise CorruptInputError from None


def _read_zstd(data: memoryview, out: OutputBuffer) -> None:
    import cramjam

    wanted = max(_ZSTD_FIRST_ROOM_BYTES, 4 * len(data))
    while len(data):
        room = out.room(wanted)
        try:
            out.advance(cramjam.zstd.decompress_into(data, room))
            return
        except cramjam.DecompressionError as error:
            if _ZSTD_BUFFER_FULL not in str(error):
                raise CorruptInputError from None
        if len(room) >= out.left_bytes:
            raise OutputTooLargeError
        wanted = 4 * len(room)


_READERS = {GZIP: _read_gzip, SNAPPY: snappy_framing.read, LZ4: lz4_frame.read, ZSTD: _read_zstd}


class Decompressor:
    """Decompresses one block after the other into memory of its own; one per process or tool, never shared."""

    def __init__(self) -> None:
        self._out = OutputBuffer()

    def decompress(self, codec: int, data: bytes | memoryview, max_bytes: int) -> tuple[int, memoryview]:
        """Return an error code and the decompressed bytes, at most `max_bytes`, valid until the next call.

        Codes: MESSAGE_TOO_LARGE when there would be more, UNKNOWN_SERVER_ERROR (Kafka's answer) when `data` is no
        valid stream or the codec unknown.
        """
        if codec == NONE:
            return (
                (ErrorCode.NONE, memoryview(data)) if len(data) <= max_bytes else _refused(ErrorCode.MESSAGE_TOO_LARGE)
            )
        reader = _READERS.get(codec)
        if reader is None:
            return _refused(ErrorCode.UNKNOWN_SERVER_ERROR)
        self._out.begin(max_bytes)
        try:
            reader(memoryview(data), self._out)
        except OutputTooLargeError:
            return _refused(ErrorCode.MESSAGE_TOO_LARGE)
        except CorruptInputError:
            return _refused(ErrorCode.UNKNOWN_SERVER_ERROR)
        return ErrorCode.NONE, self._out.view()

    def release(self) -> None:
        """Give back memory beyond the ordinary; the last result is invalid from here."""
        self._out.release()


def _refused(code: int) -> tuple[int, memoryview]:
    return code, memoryview(b"")


def decompress(codec: int, data: bytes | memoryview, max_bytes: int) -> tuple[int, bytes]:
    """Like Decompressor.decompress, as bytes of their own."""
    code, view = Decompressor().decompress(codec, data, max_bytes)
    return code, bytes(view)


def compress(codec: int, data: bytes | memoryview, level: int | None = None) -> bytes:
    """Compress `data` so that every Kafka client can read it; ValueError for an unknown codec. `level`: in the codec's
    own scale, None: its default. lz4 compresses fast at its default and at every other level closely, as Kafka's."""
    level = DEFAULT_LEVELS.get(codec, 0) if level is None else level
    if codec == NONE:
        return bytes(data)
    if codec == GZIP:
        return zlib.compress(data, level, _GZIP_WINDOW_BITS)
    if codec == SNAPPY:
        return snappy_framing.write(data)
    if codec == LZ4:
        return lz4_frame.write(data) if level == DEFAULT_LEVELS[LZ4] else lz4_frame.write_closely(data, level)
    if codec == ZSTD:
        import cramjam

        return bytes(cramjam.zstd.compress(data, level))
    raise ValueError(f"codec {codec} does not exist; codecs are 0 to 4 ({', '.join(CODEC_NAMES)})")
