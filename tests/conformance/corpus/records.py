"""Record batches for the corpus: fixed times and values, and batches that say something wrong about themselves."""

from __future__ import annotations

import struct

from crc32c import crc32c

from mpbroker.record.batch_builder import assemble_batch, encode_batch, encode_record

TIME_MS = 1_700_000_000_000
_AFTER_CRC = ">hiqqqhii"
FIELDS = ("attributes", "last_delta", "first_ms", "max_ms", "producer", "epoch", "sequence", "count")


def good(*values: bytes | None, key: bytes | None = b"k", at_ms: int = TIME_MS, **settings: object) -> bytes:
    """A batch of values, one millisecond apart; `settings` as RecordBatchBuilder takes them."""
    return encode_batch([(key, value, at_ms + n) for n, value in enumerate(values or (b"v",))], **settings)


def numbered(sequence: int, count: int = 1, epoch: int = 0, producer: int = 71, **settings: object) -> bytes:
    """A batch of an idempotent producer."""
    values = [b"%d" % n for n in range(count)]
    return good(*values, producer_id=producer, producer_epoch=epoch, base_sequence=sequence, **settings)


def changed(batch: bytes, magic: int | None = None, length: int | None = None, base_offset: int | None = None,
            leader_epoch: int | None = None, checksum: int | None = None, **fields: int) -> bytes:
    """The batch with header fields replaced and, unless `checksum` is given, the right checksum for them."""
    found = dict(zip(FIELDS, struct.unpack_from(_AFTER_CRC, batch, 21), strict=True)) | fields
    rest = struct.pack(_AFTER_CRC, *(found[name] for name in FIELDS)) + batch[61:]
    base, size, epoch, old_magic = struct.unpack_from(">qiib", batch)
    return struct.pack(">qiibI", base if base_offset is None else base_offset, size if length is None else length,
                       epoch if leader_epoch is None else leader_epoch, old_magic if magic is None else magic,
                       crc32c(rest) if checksum is None else checksum) + rest


def of_records(records: bytes, count: int, attributes: int = 0, max_ms: int = TIME_MS) -> bytes:
    """A batch around record bytes made by hand."""
    return assemble_batch(records, attributes, count, TIME_MS, max_ms)


def record(delta: int = 0, after_ms: int = 0, key: bytes | None = b"k", value: bytes | None = b"v", headers=()) -> bytes:
    """One record with its length."""
    return encode_record(delta, after_ms, key, value, headers)


def old_message(magic: int, value: bytes = b"old") -> bytes:
    """A message set of one message in format 0 or 1 (its checksum is not looked at)."""
    body = bytes((magic, 0)) + (struct.pack(">q", TIME_MS) if magic else b"") + struct.pack(">i", -1)
    body += struct.pack(">i", len(value)) + value
    from zlib import crc32
    message = struct.pack(">I", crc32(body)) + body
    return struct.pack(">qi", 0, len(message)) + message
