"""Counting records from batch headers alone."""

from mpbroker.analysis.bench.consume_load import count_records
from mpbroker.record.batch_builder import encode_batch


def _batch(base_offset, count):
    return encode_batch([(None, b"v")] * count, base_offset=base_offset)


def test_whole_batches_are_counted():
    data = _batch(5, 3) + _batch(8, 2)
    assert count_records(memoryview(data)) == (5, 10)


def test_a_batch_that_is_cut_off_is_not():
    data = _batch(5, 3) + _batch(8, 2)
    assert count_records(memoryview(data[:-1])) == (3, 8)
    assert count_records(memoryview(b"")) == (0, 0)
    assert count_records(memoryview(bytes(100))) == (0, 0)
