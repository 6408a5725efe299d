"""What the files of a partition hold, entry by entry, for `mpbroker log dump`. Runs in the command's process.

Only reads, and in pieces, so a segment may be in use and larger than memory. Every entry is a dictionary, its `kind` is
batch, record, index, timeindex, txnindex or producer. DumpError says where a file stops making sense.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from typing import Any, BinaryIO, Final, TypeAlias

from mpbroker.cli.log_offsets import decoded
from mpbroker.cli.record_output import text_of
from mpbroker.errors import MpbrokerError
from mpbroker.log.producer_snapshot import SUFFIX, read_snapshot
from mpbroker.log.segment_recovery import INDEX, INDEX_ENTRY, LOG, TIME_INDEX, TIME_INDEX_ENTRY
from mpbroker.log.txn_index_file import SUFFIX as TXN_INDEX
from mpbroker.log.txn_index_file import read_aborted
from mpbroker.record.compression import CODEC_NAMES, Decompressor
from mpbroker.record.record_batch import (
    ATTRIBUTE_CONTROL,
    ATTRIBUTE_DELETE_HORIZON,
    ATTRIBUTE_LOG_APPEND_TIME,
    ATTRIBUTE_TRANSACTIONAL,
    OVERHEAD_BYTES,
    BatchInfo,
    BatchUnreadableError,
    Record,
    batch_records,
    iterate_batches,
)

Entry: TypeAlias = dict[str, Any]
KINDS: Final = (LOG, INDEX, TIME_INDEX, TXN_INDEX, SUFFIX)
WINDOW_BYTES = 1 << 20
_LENGTH: Final = struct.Struct(">8xi")
_FLAGS: Final = (
    (ATTRIBUTE_LOG_APPEND_TIME, "log append time"),
    (ATTRIBUTE_TRANSACTIONAL, "transactional"),
    (ATTRIBUTE_CONTROL, "control"),
    (ATTRIBUTE_DELETE_HORIZON, "delete horizon"),
)


class DumpError(MpbrokerError):
    """A file, or what follows in it, cannot be read as what its name says."""


def entries(path: str, with_records: bool, decode_offsets: bool) -> Iterator[Entry]:
    """All entries of a file; DumpError, OSError."""
    suffix = os.path.splitext(path)[1]
    if suffix == LOG:
        yield from _segment(path, with_records, decode_offsets)
    elif suffix == SUFFIX:
        yield from _producers(path)
    elif suffix == TXN_INDEX:
        yield from _aborted(path)
    else:
        yield from _index(path, suffix)


def _segment(path: str, with_records: bool, decode_offsets: bool) -> Iterator[Entry]:
    decompressor = Decompressor()
    with open(path, "rb", buffering=0) as file:
        for position, info, batch in _batches(path, file):
            yield _batch(position, info)
            if with_records:
                try:
                    records = batch_records(batch, info, decompressor)
                except BatchUnreadableError as error:
                    raise DumpError(f"{path}: {error}") from None
                is_control = bool(info.attributes & ATTRIBUTE_CONTROL)
                yield from (_record(record, decode_offsets and not is_control) for record in records)


def _batches(path: str, file: BinaryIO) -> Iterator[tuple[int, BatchInfo, memoryview]]:
    """(position, header, bytes) of each batch."""
    position = 0
    while data := os.pread(file.fileno(), _window(path, file, position), position):
        begun = position
        try:
            for info, batch in iterate_batches(data):
                yield position, info, batch
                position += len(batch)
        except BatchUnreadableError:
            raise DumpError(f"{path}: no record batch, or a damaged one, at byte {position}") from None
        if position == begun:
            raise DumpError(f"{path}: the last {len(data)} bytes, from byte {position} on, are no whole batch")


def _window(path: str, file: BinaryIO, position: int) -> int:
    """How much to read: some batches, or all of one that is larger; no more than the file has."""
    header = os.pread(file.fileno(), _LENGTH.size, position)
    batch_bytes = OVERHEAD_BYTES + _LENGTH.unpack(header)[0] if len(header) == _LENGTH.size else 0
    left = os.fstat(file.fileno()).st_size - position
    return max(WINDOW_BYTES, batch_bytes) if batch_bytes <= left else WINDOW_BYTES


def _batch(position: int, info: BatchInfo) -> Entry:
    return {
        "kind": "batch",
        "position": position,
        "bytes": info.batch_bytes,
        "base_offset": info.base_offset,
        "last_offset": info.base_offset + info.last_offset_delta,
        "records": info.record_count,
        "codec": CODEC_NAMES[info.codec] if info.codec < len(CODEC_NAMES) else str(info.codec),
        "base_timestamp": info.base_timestamp,
        "max_timestamp": info.max_timestamp,
        "leader_epoch": info.leader_epoch,
        "producer_id": info.producer_id,
        "producer_epoch": info.producer_epoch,
        "base_sequence": info.base_sequence,
        "crc": info.crc,
        "flags": [name for bit, name in _FLAGS if info.attributes & bit],
    }


def _record(record: Record, decode_offsets: bool) -> Entry:
    entry = {"kind": "record", "offset": record.offset, "timestamp": record.timestamp}
    found = decoded(record.key, record.value) if decode_offsets else None
    if found is not None:
        return entry | found
    headers = [[name.decode("utf-8", "replace"), text_of(value)] for name, value in record.headers]
    return entry | {"key": text_of(record.key), "value": text_of(record.value), "headers": headers}


def _aborted(path: str) -> Iterator[Entry]:
    try:
        found = read_aborted(path)
    except ValueError as error:
        raise DumpError(f"{path}: {error}") from None
    yield from ({"kind": "txnindex"} | entry._asdict() for entry in found)


def _index(path: str, suffix: str) -> Iterator[Entry]:
    """Entries up to the zeros that fill an index in use: Kafka makes it as long as it may become. Only a timeindex of
    one entry may hold zeros that mean something: a record of 1970."""
    shape = INDEX_ENTRY if suffix == INDEX else TIME_INDEX_ENTRY
    base = _base_offset(path)
    with open(path, "rb") as file:
        is_single = suffix == TIME_INDEX and os.fstat(file.fileno()).st_size == shape.size
        while len(data := file.read(shape.size)) == shape.size:
            first, second = shape.unpack(data)
            if not any(data) and not is_single:
                return
            if suffix == INDEX:
                yield {"kind": "index", "offset": base + first, "position": second}
            else:
                yield {"kind": "timeindex", "timestamp": first, "offset": base + second}
    if data:
        raise DumpError(f"{path}: the last {len(data)} bytes are no whole entry")


def _base_offset(path: str) -> int:
    """The offset that a segment's files are named after."""
    name = os.path.basename(path).partition(".")[0]
    if not (name.isascii() and name.isdigit() and len(name) <= 20):
        raise DumpError(f"{path}: an index counts from the offset in its name, and this name has none")
    return int(name)


def _producers(path: str) -> Iterator[Entry]:
    found = read_snapshot(path)
    if found is None:
        raise DumpError(f"{path}: this producer snapshot is damaged, or of another version")
    for one in found:
        yield {"kind": "producer"} | one._asdict() | {"first_sequence": one.first_sequence}
