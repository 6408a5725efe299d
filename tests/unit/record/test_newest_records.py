"""The last value of each key out of many plain batches at once; what is not plain is left to the caller."""

import pytest

from mpbroker import _native
from mpbroker.record.batch_builder import control_batch, encode_batch
from mpbroker.record.record_batch import newest_records

PLAIN = [
    encode_batch([(b"a", b"1", 5), (b"b", b"1", 5)], base_offset=0),
    encode_batch([(b"a", b"2", 5), (None, b"no key", 5)], base_offset=2),
    encode_batch([(b"b", None, 5), (b"", b"", 5)], base_offset=4),
]
SPECIAL = {
    "compressed": encode_batch([(b"a", b"9" * 50, 5)], codec=1),
    "transactional": encode_batch([(b"a", b"9", 5)], producer_id=7, producer_epoch=0, transactional=True),
    "control": control_batch(True, 7, 0, 0, 5),
}


def test_the_last_value_of_each_key_counts():
    data = b"".join(PLAIN)
    assert newest_records(data, 0) == ({b"a": b"2", b"b": None, b"": b""}, len(data), 6)


def test_it_begins_where_it_is_told():
    at = len(PLAIN[0])
    newest, end, next_offset = newest_records(b"".join(PLAIN[:2]), at)
    assert (newest, end, next_offset) == ({b"a": b"2"}, at + len(PLAIN[1]), 4)
    assert newest_records(PLAIN[0], len(PLAIN[0])) == ({}, len(PLAIN[0]), -1)


@pytest.mark.parametrize("kind", SPECIAL)
def test_it_ends_before_a_batch_that_is_not_plain(kind):
    data = PLAIN[0] + SPECIAL[kind] + PLAIN[1]
    assert newest_records(data, 0) == ({b"a": b"1", b"b": b"1"}, len(PLAIN[0]), 2)
    assert newest_records(data, len(PLAIN[0])) == ({}, len(PLAIN[0]), -1)


@pytest.mark.parametrize("cut", [1, 30, 61])
def test_it_ends_before_a_batch_that_is_cut_off_or_damaged(cut):
    whole = PLAIN[0] + PLAIN[1]
    end = len(PLAIN[0])
    assert newest_records(whole[:-cut], 0)[1:] == (end, 2)
    damaged = bytearray(whole)
    damaged[-cut] ^= 1
    assert newest_records(damaged, 0)[1:] == (end, 2)


def test_positions_outside_are_the_callers_mistake():
    for position in (-1, len(PLAIN[0]) + 1):
        with pytest.raises(ValueError, match="outside the buffer"):
            _native.records_newest(PLAIN[0], position, {})
    with pytest.raises(TypeError):
        _native.records_newest(PLAIN[0], 0, [])
