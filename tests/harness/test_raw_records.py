"""The raw producer and fetcher against a broker that is not ours, and their batches against our record code."""

import pytest

from mpbroker.record.record_batch import iterate_records
from tests.harness.mock_cluster import MockCluster
from tests.harness.raw_records import RawFetcher, RawProducer, batch, create_by_metadata, records_in, zigzag

VALUES = [b"", b"a", b"b" * 200, b"c" * 20_000]


@pytest.fixture(scope="module")
def mock():
    with MockCluster() as cluster:
        yield cluster


def test_what_is_produced_is_fetched(mock):
    create_by_metadata(mock.host, mock.port, "t")
    producer, fetcher = RawProducer(mock.host, mock.port, "t"), RawFetcher(mock.host, mock.port, "t")
    for number in range(3):
        answer = producer.produce(0, [b"first %d" % number, b"second %d" % number])
        assert answer == (0, 2 * number)
    found, offset = [], 1
    while offset < 6:
        answer = fetcher.fetch(0, offset)
        assert (answer.error, answer.high_watermark) == (0, 6)
        found += records_in(answer.records, offset)
        offset = found[-1][0] + 1
    assert found == [(1, b"second 0"), (2, b"first 1"), (3, b"second 1"), (4, b"first 2"), (5, b"second 2")]
    producer.close()
    fetcher.close()


def test_nobody_there_is_no_answer():
    assert RawProducer("127.0.0.1", 1, "t", timeout_s=1).produce(0, [b"x"]) is None


def test_batches_are_what_our_record_code_reads():
    data = batch(VALUES, timestamp_ms=1_700_000_000_000) * 2
    ours = [(record.offset, record.value) for record in iterate_records(data)]
    assert ours == list(records_in(data)) == list(enumerate(VALUES)) * 2


def test_a_batch_cut_anywhere_is_left_out():
    data = batch([b"x"]) + batch([b"y"])
    for size in range(len(data)):
        assert len(list(records_in(data[:size]))) == size // (len(data) // 2)


def test_a_changed_byte_is_no_record():
    data = bytearray(batch([b"x" * 50]))
    data[80] ^= 1
    with pytest.raises(AssertionError, match="damaged batch"):
        list(records_in(bytes(data)))


def test_varints():
    assert [zigzag(number) for number in (0, -1, 1, 63, 64, -65)] == [
        b"\0",
        b"\1",
        b"\2",
        b"\x7e",
        b"\x80\x01",
        b"\x81\x01",
    ]
