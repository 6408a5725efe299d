"""Our batches read by two independent readers, and theirs read by us."""

import os

import crc32c
import pytest
from aiokafka.record.default_records import DefaultRecordBatch as AioBatch
from aiokafka.record.default_records import DefaultRecordBatchBuilder as AioBuilder
from kafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder

from mpbroker import _native
from mpbroker.record.batch_builder import RecordBatchBuilder, control_batch, encode_batch
from mpbroker.record.compression import Decompressor
from mpbroker.record.record_batch import iterate_records
from mpbroker.record.validation import ProduceRules, check_append_records

ROWS = [
    (b"key", b"value", 1000, [(b"h", b"1"), (b"h", None)]),
    (None, b"", 1007, []),
    (b"", None, 995, []),
    (b"k" * 200, os.urandom(3000), 2_000_000_000_000, []),
]


def as_rows(records):
    return [
        (r.key, r.value, r.timestamp, [(k.encode() if isinstance(k, str) else k, v) for k, v in r.headers])
        for r in records
    ]


@pytest.mark.parametrize("codec", range(5))
@pytest.mark.parametrize("reader", [DefaultRecordBatch, AioBatch], ids=["kafka-python", "aiokafka"])
def test_other_readers_understand_our_batches(codec, reader):
    data = encode_batch(ROWS, codec=codec, producer_id=9, producer_epoch=3, base_sequence=17)
    theirs = reader(data)
    assert theirs.validate_crc()
    assert (theirs.producer_id, theirs.producer_epoch, theirs.base_sequence) == (9, 3, 17)
    assert theirs.first_timestamp == 1000 and theirs.max_timestamp == 2_000_000_000_000
    assert as_rows(theirs) == ROWS


@pytest.mark.parametrize("codec", range(5))
@pytest.mark.parametrize("maker", [DefaultRecordBatchBuilder, AioBuilder], ids=["kafka-python", "aiokafka"])
def test_we_understand_and_accept_batches_of_other_makers(codec, maker):
    builder = maker(
        2,
        compression_type=codec,
        is_transactional=0,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        batch_size=1 << 20,
    )
    for number, (key, value, timestamp, headers) in enumerate(ROWS):
        builder.append(number, timestamp, key, value, [(name.decode(), content) for name, content in headers])
    data = bytes(builder.build())
    assert as_rows(iterate_records(data)) == ROWS
    check = check_append_records(data, ProduceRules(), 2000, Decompressor())
    assert check.code == 0 and check.max_timestamp == 2_000_000_000_000 and check.max_timestamp_delta == 3


def test_size_before_compression_is_exact():
    builder = RecordBatchBuilder()
    for row in ROWS:
        builder.append(*row)
    assert builder.size_bytes == len(builder.build()) and len(builder) == 4


def test_empty_batch():
    with pytest.raises(ValueError, match="at least one record"):
        RecordBatchBuilder().build()


def test_control_batch():
    data = control_batch(True, 7, 1, 5, 1000)
    theirs = DefaultRecordBatch(data)
    assert theirs.is_control_batch and theirs.is_transactional
    (record,) = iterate_records(data, control=True)
    assert record.key == b"\0\0\0\1" and record.value == b"\0\0\0\0\0\5"
    assert not list(iterate_records(data))
    assert check_append_records(data, ProduceRules(), 1000, Decompressor()).code == 87
    assert check_append_records(data, ProduceRules(), 1000, Decompressor(), from_client=False).code == 0


def test_crc32c_equals_the_independent_one():
    data = os.urandom(100_000)
    for length in (0, 1, 7, 8, 100, 767, 768, 6143, 6144, 20_000, 99_999):
        assert _native.crc32c(data[:length]) == crc32c.crc32c(data[:length])
        assert _native.crc32c(memoryview(data)[1:length], 77) == crc32c.crc32c(data[1:length], 77)
