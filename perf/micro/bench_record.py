"""Cost of checking, patching and reading record batches: `python -m pytest perf/micro/bench_record.py`.

The checksum rows are to be held against the table of CRC-32C speeds in docs (three streams: above 15 GB/s from 16 KiB
on an idle x86 core); a one-record Produce should spend about a microsecond in both checks together.
"""

import pytest

from mpbroker import _native
from mpbroker.record.batch_builder import encode_batch
from mpbroker.record.compression import CODEC_NAMES, Decompressor
from mpbroker.record.record_batch import iterate_records
from mpbroker.record.validation import ProduceRules, check_append_records, check_request_records

ONE = encode_batch([(None, b"x" * 100, 1000)])
RULES = ProduceRules()


@pytest.mark.parametrize("size", [100, 1 << 10, 1 << 14, 1 << 20])
def test_crc32c(benchmark, size):
    data = bytes(range(256)) * (size // 256 + 1)
    view = memoryview(data)[:size]
    benchmark.extra_info["GB/s"] = "size / mean"
    assert benchmark(_native.crc32c, view) == _native.crc32c(data[:size])


def test_check_one_record(benchmark):
    decompressor = Decompressor()

    def check():
        first = check_request_records(ONE, 7)
        return check_append_records(memoryview(ONE)[: first.batch_bytes], RULES, 2000, decompressor)

    assert benchmark(check).code == 0


def test_patch_header(benchmark):
    assert len(benchmark(_native.batch_patch_header, ONE, 5, 1)) == 61


@pytest.mark.parametrize("codec", range(5), ids=CODEC_NAMES)
def test_check_16_kib(benchmark, codec):
    batch = encode_batch([(b"key-%d" % i, b"value %d " % i * 10, 1000 + i) for i in range(150)], codec=codec)
    decompressor = Decompressor()
    assert benchmark(check_append_records, batch, RULES, 2000, decompressor).code == 0


def test_read_records(benchmark):
    batch = encode_batch([(b"key-%d" % i, b"value %d " % i * 10, 1000 + i) for i in range(150)])
    assert len(benchmark(lambda: list(iterate_records(batch)))) == 150


def test_encode_one_record(benchmark):
    assert len(benchmark(encode_batch, [(None, b"x" * 100, 1000)])) == len(ONE)
