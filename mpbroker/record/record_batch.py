"""Reading record batches: header fields, walking stored batches, records; used by clients, the log and tools.

Batches are format v2 (KIP-98). `BatchInfo` and `Record` come from the native core: read-only tuples with names. A
batch is any contiguous bytes; nothing here copies more than the record it returns.
"""

from collections.abc import Iterator
from struct import Struct
from typing import TypeAlias

from mpbroker import _native
from mpbroker._native import BatchInfo as BatchInfo
from mpbroker._native import Record as Record
from mpbroker.errors import ErrorCode
from mpbroker.record.compression import Decompressor, decompressed_limit_bytes

BatchBytes: TypeAlias = bytes | bytearray | memoryview

HEADER_BYTES = 61
#: What the length field at byte 8 does not count: itself and the base offset before it.
OVERHEAD_BYTES = 12

#: Bits of a batch's attributes, two bytes at 21; all that are in use are in the second one.
ATTRIBUTES_AT = 21
CODEC_MASK = 0x07
ATTRIBUTE_LOG_APPEND_TIME = 0x08
ATTRIBUTE_TRANSACTIONAL = 0x10
ATTRIBUTE_CONTROL = 0x20
ATTRIBUTE_DELETE_HORIZON = 0x40

#: A reader takes what a broker with max.message.bytes of 1 GiB could have stored.
READER_LIMIT_BYTES = decompressed_limit_bytes(1 << 24)


_producer = Struct(">43xqh")
_last_offset_delta = Struct(">23xi")


class BatchUnreadableError(ValueError):
    """Bytes that should be a record batch are none; the message says where."""


def codec_of(batch: BatchBytes) -> int:
    """Return the codec's number that the header of a batch names, 0: not compressed."""
    return batch[ATTRIBUTES_AT + 1] & CODEC_MASK


def producer_of(batch: BatchBytes) -> tuple[int, int]:
    """Return the producer's id and epoch that the header of a batch names, −1 each: none."""
    producer_id, epoch = _producer.unpack_from(batch)
    return producer_id, epoch


def is_transactional(batch: BatchBytes) -> bool:
    """Return whether the header of a batch says that it belongs to a transaction; no if there are too few bytes."""
    return len(batch) >= HEADER_BYTES and bool(batch[ATTRIBUTES_AT + 1] & ATTRIBUTE_TRANSACTIONAL)


def claimed_records(batch: BatchBytes) -> int:
    """Return how many records the header of a batch says it holds, unchecked; 0 if there are too few bytes."""
    if len(batch) < _last_offset_delta.size:
        return 0
    delta: int = _last_offset_delta.unpack_from(batch)[0]
    return max(0, delta + 1)


def iterate_batches(data: BatchBytes, check_crc: bool = True) -> Iterator[tuple[BatchInfo, memoryview]]:
    """Yield (header, bytes) of each whole batch in `data`; what is cut off at the end, as Fetch does, is left out.

    Raises BatchUnreadableError at bytes that are no batch of format 2, or whose checksum is wrong.
    """
    view, position = memoryview(data), 0
    while True:
        result, info, after = _native.batch_scan(view, position, check_crc)
        if result == _native.MPB_SCAN_CORRUPT:
            raise BatchUnreadableError(f"no record batch at byte {position} of {len(view)}")
        if info is None:
            return
        yield info, view[position:after]
        position = after


def uncompressed_records(
    batch: BatchBytes, info: BatchInfo, decompressor: Decompressor, max_bytes: int = READER_LIMIT_BYTES
) -> memoryview:
    """Return the batch's records decompressed, valid until `decompressor` is used again; BatchUnreadableError."""
    code, records = decompressor.decompress(info.codec, memoryview(batch)[HEADER_BYTES:], max_bytes)
    if code == ErrorCode.NONE:
        return records
    reason = f"more than {max_bytes} bytes" if code == ErrorCode.MESSAGE_TOO_LARGE else "not valid compressed data"
    raise BatchUnreadableError(f"the batch at offset {info.base_offset} holds {reason}")


def batch_records(batch: BatchBytes, info: BatchInfo, decompressor: Decompressor) -> list[Record]:
    """Return the batch's records with their offsets and timestamps; BatchUnreadableError."""
    try:
        return _native.records_decode(uncompressed_records(batch, info, decompressor), batch)
    except BatchUnreadableError:
        raise
    except ValueError as error:
        raise BatchUnreadableError(f"the batch at offset {info.base_offset}: {error}") from None


def newest_records(data: BatchBytes, position: int) -> tuple[dict[bytes, bytes | None], int, int]:
    """The last value of each key in plain batches from a position on, in the order of the keys' first records; where
    it ended, and the offset that follows, -1 if there was none. It ends before a batch that is compressed,
    transactional, of control, cut off, or cannot be read."""
    newest: dict[bytes, bytes | None] = {}
    position, next_offset = _native.records_newest(data, position, newest)
    return newest, position, next_offset


def iterate_records(data: BatchBytes, from_offset: int = 0, control: bool = False) -> Iterator[Record]:
    """Yield the records of all batches in `data` from an offset on; control records only if asked for."""
    decompressor = Decompressor()
    for info, batch in iterate_batches(data):
        if info.base_offset + info.last_offset_delta < from_offset:
            continue
        if info.attributes & ATTRIBUTE_CONTROL and not control:
            continue
        for record in batch_records(batch, info, decompressor):
            if record.offset >= from_offset:
                yield record


def find_timestamp(
    batch: BatchBytes, info: BatchInfo, target_ms: int, decompressor: Decompressor
) -> tuple[int, int] | None:
    """Return (offset, timestamp) of the batch's first record at or after `target_ms`, or None."""
    records = uncompressed_records(batch, info, decompressor)
    try:
        found = _native.records_find_timestamp(records, batch, target_ms)
    except ValueError as error:
        raise BatchUnreadableError(f"the batch at offset {info.base_offset}: {error}") from None
    return None if found is None else (info.base_offset + found[0], found[1])
