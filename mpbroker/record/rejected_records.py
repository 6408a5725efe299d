"""Which records a refused batch was refused for, and the sentences about them (KIP-467, Produce 8); pure.

Runs in request handlers, after the append has said no. Sentences are Kafka 3.9's: clients show them to people.
"""

from __future__ import annotations

from typing import NamedTuple

from mpbroker import _native
from mpbroker.errors import ErrorCode
from mpbroker.record.compression import Decompressor, decompressed_limit_bytes
from mpbroker.record.record_batch import HEADER_BYTES, BatchBytes, codec_of
from mpbroker.record.validation import ProduceRules, check_append_records

CODES = frozenset((ErrorCode.INVALID_RECORD, ErrorCode.INVALID_TIMESTAMP))
SHOWN = 3  # records in the sentence about the batch


class RejectedRecords(NamedTuple):
    """`sentence` is about the batch; `records`: (index in the batch, sentence) of at most 100 records."""

    sentence: str
    records: list[tuple[int, str]]


def rejected_records(
    batch: BatchBytes, rules: ProduceRules, now_ms: int, decompressor: Decompressor, partition: str
) -> RejectedRecords | None:
    """None where the batch is refused as a whole, or not any more. `partition` is its name, `topic-0`."""
    checked = check_append_records(batch, rules, now_ms, decompressor)
    if checked.code not in CODES or checked.bad_record < 0:
        return None
    count, refused = _refused(batch, rules, now_ms, decompressor)
    if not count:
        return None
    bounds = f"[{now_ms - rules.timestamp_before_max_ms}, {now_ms + rules.timestamp_after_max_ms}]"
    records = [(index, _sentence(index, code, at_ms, bounds, partition)) for index, code, at_ms in refused]
    return RejectedRecords(_summary(checked.code, count, records), records)


def _refused(
    batch: BatchBytes, rules: ProduceRules, now_ms: int, decompressor: Decompressor
) -> tuple[int, list[tuple[int, int, int]]]:
    limit = decompressed_limit_bytes(rules.max_message_bytes)
    try:
        code, records = decompressor.decompress(codec_of(batch), memoryview(batch)[HEADER_BYTES:], limit)
        if code:
            return 0, []
        return _native.records_refused(
            records,
            batch,
            rules.compacted,
            rules.log_append_time,
            now_ms,
            rules.timestamp_before_max_ms,
            rules.timestamp_after_max_ms,
        )
    finally:
        decompressor.release()


def _sentence(index: int, code: int, at_ms: int, bounds: str, partition: str) -> str:
    if code == ErrorCode.INVALID_RECORD:
        return f"Compacted topic cannot accept message without key in topic partition {partition}"
    return f"Timestamp {at_ms} of message with offset {index} is out of range. The timestamp should be within {bounds}"


def _summary(code: int, count: int, records: list[tuple[int, str]]) -> str:
    if code == ErrorCode.INVALID_TIMESTAMP:
        return "One or more records have been rejected due to invalid timestamp"
    shown = ", ".join(f"RecordError(batchIndex={index}, message='{text}')" for index, text in records[:SHOWN])
    return (
        f"One or more records have been rejected due to {count} record errors in total, "
        f"and only showing the first three errors at most: [{shown}]"
    )
