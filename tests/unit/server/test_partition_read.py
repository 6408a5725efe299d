"""What a fetch says of one partition, by what was found."""

import pytest

from mpbroker.errors import ErrorCode
from mpbroker.server.replica_read import UNKNOWN_OFFSET, PartitionRead

NONE, GONE, ZSTD = ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


def found(**how):
    usual = {"ordinal": 4, "high_watermark": 9, "last_stable_offset": 8, "log_start": 2, "length": 100}
    return PartitionRead(1, **usual | how)


def test_an_error_takes_the_place_of_all_that_was_found():
    read = found(aborted=[(5, 6)])
    read.refuse(GONE)
    said = read.to_message()
    assert (said.partition_index, said.error_code, said.records) == (1, GONE, b"")
    assert (said.high_watermark, said.last_stable_offset, said.log_start_offset) == (UNKNOWN_OFFSET,) * 3
    assert (read.plan, read.length, read.aborted) == (None, 0, [])


def test_what_is_dropped_keeps_its_offsets():
    read = found(aborted=[(5, 6)], committed_only=True)
    read.drop()
    said = read.to_message()
    assert (said.high_watermark, said.last_stable_offset, said.log_start_offset) == (9, 8, 2)
    assert (said.records, said.aborted_transactions) == (b"", [])


@pytest.mark.parametrize(
    "how, aborted, records",
    [
        ({}, None, 100),
        ({"length": 0}, None, b""),
        ({"committed_only": True}, [], 100),
        ({"committed_only": True, "error": GONE}, None, 100),
        ({"ordinal": 0}, None, 100),
        ({"ordinal": -1, "length": 0}, [], b""),
        ({"ordinal": -1, "length": 0, "error": ErrorCode.INCONSISTENT_TOPIC_ID}, None, b""),
        ({"error": ZSTD, "length": 0}, [], None),
    ],
)
def test_kafkas_nulls_and_empty_lists(how, aborted, records):
    said = found(**how).to_message()
    assert (said.aborted_transactions, said.records) == (aborted, records)


@pytest.mark.parametrize(
    "ordinal, error, looked_at",
    [(0, NONE, True), (-1, NONE, False), (-1, GONE, False), (-1, ErrorCode.INCONSISTENT_TOPIC_ID, True)],
)
def test_what_is_not_here_was_not_looked_at(ordinal, error, looked_at):
    assert PartitionRead(0, ordinal, error).was_looked_at is looked_at
