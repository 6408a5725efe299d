"""What a leader checks before it appends a produced batch; run by request handlers, pure functions.

Order and codes are Apache Kafka 3.9's, found by asking one (tests/unit/record/test_validation.py). Two steps, because
Kafka looks up topic and leader between them. Codes are ErrorCode values; nothing a client sends raises.
"""

from typing import NamedTuple

from mpbroker import _native
from mpbroker._native import AppendCheck, BatchInfo, RequestCheck
from mpbroker.errors import ErrorCode
from mpbroker.record import compression
from mpbroker.record.batch_builder import assemble_batch
from mpbroker.record.compression import Decompressor, decompressed_limit_bytes
from mpbroker.record.record_batch import ATTRIBUTE_LOG_APPEND_TIME, ATTRIBUTES_AT, CODEC_MASK, HEADER_BYTES, BatchBytes

__all__ = ["NO_LIMIT_MS", "ProduceRules", "RequestCheck", "check_append_records", "check_request_records"]

NO_LIMIT_MS = 2**63 - 1


class ProduceRules(NamedTuple):
    """What one topic accepts; `target_codec` is its compression.type, None for `producer`, at `target_level`."""

    max_message_bytes: int = 1048588
    compacted: bool = False
    log_append_time: bool = False
    timestamp_before_max_ms: int = NO_LIMIT_MS
    timestamp_after_max_ms: int = NO_LIMIT_MS
    target_codec: int | None = None
    target_level: int | None = None


def check_request_records(records: BatchBytes | None, produce_version: int) -> RequestCheck:
    """Before the partition is looked up: exactly one batch of format 2 with a codec this version may use.

    In the result, whole_request says whom the code is for: 0 this partition; 1 every partition of the request, given
    before authorization; 2 every partition, but after TRANSACTIONAL_ID_AUTHORIZATION_FAILED, which all get if a batch
    is `transactional` and the request has no (authorized) transactional id.
    """
    return _native.batch_check_request(records or b"", produce_version)


def check_append_records(
    batch: BatchBytes, rules: ProduceRules, now_ms: int, decompressor: Decompressor, from_client: bool = True
) -> AppendCheck:
    """At the append: header, checksum, then every record. `batch` is cut to the `batch_bytes` of the first step.

    In the result, `batch` is what to append: the client's bytes, or others if target_codec demands it. With a code
    other than NONE only code and bad_record mean anything.
    """
    max_message_bytes, compacted, log_append_time, before_max_ms, after_max_ms, target_codec, _ = rules
    check = _native.batch_check_append(
        batch, max_message_bytes, compacted, log_append_time, now_ms, before_max_ms, after_max_ms, from_client
    )
    info = check.info
    if info is None or check.code or (not info.codec and not target_codec):
        return check
    try:
        return _check_by_records(batch, info, rules, now_ms, decompressor)
    finally:
        decompressor.release()


def _check_by_records(
    batch: BatchBytes, info: BatchInfo, rules: ProduceRules, now_ms: int, decompressor: Decompressor
) -> AppendCheck:
    limit = decompressed_limit_bytes(rules.max_message_bytes)
    code, records = decompressor.decompress(info.codec, memoryview(batch)[HEADER_BYTES : info.batch_bytes], limit)
    if code:
        return AppendCheck((code, batch, None, -1, -1, -1))
    target = rules.target_codec if rules.target_codec != info.codec else None
    # A batch that is rewritten is read as closely as an uncompressed one: its records get new neighbours.
    header = batch if target is None else _with_codec_none(batch)
    code, *found = _native.records_check(
        records,
        header,
        rules.compacted,
        rules.log_append_time,
        now_ms,
        rules.timestamp_before_max_ms,
        rules.timestamp_after_max_ms,
    )
    if code or target is None:
        return AppendCheck((code, batch, info, *found))
    rewritten = _recompress(records, info, target, rules.target_level, found[0])
    if len(rewritten) > rules.max_message_bytes:
        return AppendCheck((ErrorCode.MESSAGE_TOO_LARGE, batch, None, -1, -1, -1))
    return AppendCheck((code, rewritten, _native.batch_scan(rewritten, 0, False)[1], *found))


def _with_codec_none(batch: BatchBytes) -> bytes:
    header = bytearray(batch[:HEADER_BYTES])
    header[ATTRIBUTES_AT + 1] &= ~CODEC_MASK
    return bytes(header)


def _recompress(records: memoryview, info: BatchInfo, codec: int, level: int | None, max_timestamp: int) -> bytes:
    attributes = (info.attributes & ~(CODEC_MASK | ATTRIBUTE_LOG_APPEND_TIME)) | codec
    packed = compression.compress(codec, records, level)
    return assemble_batch(
        packed,
        attributes,
        info.record_count,
        info.base_timestamp,
        max_timestamp,
        (info.producer_id, info.producer_epoch, info.base_sequence),
    )
