"""Which records of a refused batch are named, in Kafka 3.9.2's words."""

import pytest

from mpbroker.record.batch_builder import encode_batch
from mpbroker.record.compression import GZIP, NONE, Decompressor
from mpbroker.record.rejected_records import rejected_records
from mpbroker.record.validation import ProduceRules

NOW_MS = 1_700_000_000_000
HOUR_MS = 3_600_000


def rejected(rules: ProduceRules, *records: tuple[bytes | None, int], codec: int = NONE):
    batch = encode_batch([(key, b"v", at_ms) for key, at_ms in records], codec=codec)
    return rejected_records(batch, rules, NOW_MS, Decompressor(), "t-3")


@pytest.mark.parametrize("codec", [NONE, GZIP])
def test_records_without_a_key_in_a_compacted_topic(codec):
    found = rejected(ProduceRules(compacted=True), (None, NOW_MS), (b"k", NOW_MS), (None, NOW_MS), codec=codec)
    sentence = "Compacted topic cannot accept message without key in topic partition t-3"
    assert found.records == [(0, sentence), (2, sentence)]
    assert found.sentence == (
        "One or more records have been rejected due to 2 record errors in total, and only showing the first three "
        f"errors at most: [RecordError(batchIndex=0, message='{sentence}'), "
        f"RecordError(batchIndex=2, message='{sentence}')]"
    )


def test_a_bad_time_counts_more_than_a_missing_key():
    rules = ProduceRules(compacted=True, timestamp_before_max_ms=HOUR_MS, timestamp_after_max_ms=HOUR_MS)
    found = rejected(rules, (None, NOW_MS), (b"k", NOW_MS - 2 * HOUR_MS))
    assert found.sentence == "One or more records have been rejected due to invalid timestamp"
    assert found.records[1] == (
        1,
        "Timestamp 1699992800000 of message with offset 1 is out of range. The timestamp should be within "
        "[1699996400000, 1700003600000]",
    )


def test_a_hundred_records_are_named_and_all_are_counted():
    found = rejected(ProduceRules(compacted=True), *[(None, NOW_MS)] * 250)
    assert len(found.records) == 100 and "due to 250 record errors" in found.sentence


def test_a_good_batch_and_one_refused_as_a_whole_name_none():
    assert rejected(ProduceRules(compacted=True), (b"k", NOW_MS)) is None
    assert rejected(ProduceRules(compacted=True, max_message_bytes=10), (None, NOW_MS)) is None
