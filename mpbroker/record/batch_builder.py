"""Writing record batches: for the internal client, control batches, tools and tests; no process keeps state here."""

import struct
from collections.abc import Iterable
from typing import TypeAlias, TypedDict, Unpack

from mpbroker import _native
from mpbroker.record import compression
from mpbroker.record.record_batch import (
    ATTRIBUTE_CONTROL,
    ATTRIBUTE_LOG_APPEND_TIME,
    ATTRIBUTE_TRANSACTIONAL,
    HEADER_BYTES,
    OVERHEAD_BYTES,
)

MAGIC = 2
NO_PRODUCER_ID = -1
NO_TIMESTAMP = -1
_BEFORE_CRC = struct.Struct(">qiib")
_CRC = struct.Struct(">I")
_AFTER_CRC = struct.Struct(">hiqqqhii")
_CONTROL_KEY = struct.Struct(">hh")
_MASK_64 = (1 << 64) - 1

Headers = Iterable[tuple[bytes, bytes | None]]


def _varint(number: int) -> bytes:
    """Zig-zag and 7 bits a byte; the same bytes as int32 and as int64."""
    if -64 <= number < 64:
        return bytes((number * 2 if number >= 0 else -number * 2 - 1,))
    left = (number << 1 ^ number >> 63) & _MASK_64
    out = bytearray()
    while left > 0x7F:
        out.append(left & 0x7F | 0x80)
        left >>= 7
    out.append(left)
    return bytes(out)


def _counted(data: bytes | None) -> bytes:
    return b"\x01" if data is None else _varint(len(data)) + data


def encode_record(
    offset_delta: int, timestamp_delta_ms: int, key: bytes | None, value: bytes | None, headers: Headers = ()
) -> bytes:
    """One record as it is in a batch before compression."""
    pairs = [_varint(len(name)) + name + _counted(content) for name, content in headers]
    body = b"".join(
        (
            b"\0",
            _varint(timestamp_delta_ms),
            _varint(offset_delta),
            _counted(key),
            _counted(value),
            _varint(len(pairs)),
            *pairs,
        )
    )
    return _varint(len(body)) + body


class RecordBatchBuilder:
    """Collects records for one batch. `size_bytes` is what the batch would take now, before compression."""

    def __init__(
        self,
        *,
        codec: int = compression.NONE,
        producer_id: int = NO_PRODUCER_ID,
        producer_epoch: int = -1,
        base_sequence: int = -1,
        base_offset: int = 0,
        leader_epoch: int = -1,
        transactional: bool = False,
        control: bool = False,
        log_append_time: bool = False,
    ) -> None:
        self._codec = codec
        self._producer = (producer_id, producer_epoch, base_sequence)
        self._base_offset = base_offset
        self._leader_epoch = leader_epoch
        self._attributes = (
            codec
            | ATTRIBUTE_TRANSACTIONAL * transactional
            | ATTRIBUTE_CONTROL * control
            | ATTRIBUTE_LOG_APPEND_TIME * log_append_time
        )
        self._records: list[bytes] = []
        self._base_timestamp = self._max_timestamp = NO_TIMESTAMP
        self.size_bytes = HEADER_BYTES

    def __len__(self) -> int:
        return len(self._records)

    def append(
        self, key: bytes | None, value: bytes | None, timestamp_ms: int = NO_TIMESTAMP, headers: Headers = ()
    ) -> int:
        """Add a record and return its offset delta; null is None, header values may be None."""
        delta = len(self._records)
        if not delta:
            self._base_timestamp = timestamp_ms
        self._max_timestamp = max(self._max_timestamp, timestamp_ms)
        record = encode_record(delta, timestamp_ms - self._base_timestamp, key, value, headers)
        self._records.append(record)
        self.size_bytes += len(record)
        return delta

    def build(self) -> bytes:
        """Return the finished batch; ValueError if nothing was appended."""
        if not self._records:
            raise ValueError("a batch needs at least one record")
        records = compression.compress(self._codec, b"".join(self._records))
        return assemble_batch(
            records,
            self._attributes,
            len(self._records),
            self._base_timestamp,
            self._max_timestamp,
            self._producer,
            self._base_offset,
            self._leader_epoch,
        )


def assemble_batch(
    records: bytes,
    attributes: int,
    record_count: int,
    base_timestamp: int,
    max_timestamp: int,
    producer: tuple[int, int, int] = (NO_PRODUCER_ID, -1, -1),
    base_offset: int = 0,
    leader_epoch: int = -1,
) -> bytes:
    """A header before `records`, already compressed as the attributes say. producer: id, epoch, base sequence."""
    checked = _AFTER_CRC.pack(attributes, record_count - 1, base_timestamp, max_timestamp, *producer, record_count)
    length = HEADER_BYTES - OVERHEAD_BYTES + len(records)
    crc = _native.crc32c(records, _native.crc32c(checked))
    return b"".join((_BEFORE_CRC.pack(base_offset, length, leader_epoch, MAGIC), _CRC.pack(crc), checked, records))


class BatchSettings(TypedDict, total=False):
    """What RecordBatchBuilder takes."""

    codec: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    base_offset: int
    leader_epoch: int
    transactional: bool
    control: bool
    log_append_time: bool


#: (key, value[, timestamp_ms[, headers]])
RecordFields: TypeAlias = (
    tuple[bytes | None, bytes | None]
    | tuple[bytes | None, bytes | None, int]
    | tuple[bytes | None, bytes | None, int, Headers]
)


def encode_batch(records: Iterable[RecordFields], **settings: Unpack[BatchSettings]) -> bytes:
    """A batch out of records; `settings` as RecordBatchBuilder takes them."""
    builder = RecordBatchBuilder(**settings)
    for record in records:
        builder.append(*record)
    return builder.build()


def control_batch(
    committed: bool, producer_id: int, producer_epoch: int, coordinator_epoch: int, timestamp_ms: int
) -> bytes:
    """The marker that ends a transaction in a partition: one record, key (version 0, type), value (version 0,
    epoch)."""
    builder = RecordBatchBuilder(
        producer_id=producer_id, producer_epoch=producer_epoch, transactional=True, control=True
    )
    builder.append(_CONTROL_KEY.pack(0, int(committed)), struct.pack(">hi", 0, coordinator_epoch), timestamp_ms)
    return builder.build()
