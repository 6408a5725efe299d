import struct

import pytest

from mpbroker import _native
from mpbroker.record.batch_builder import encode_batch
from mpbroker.record.compression import Decompressor, compress
from mpbroker.record.record_batch import (
    BatchUnreadableError,
    batch_records,
    find_timestamp,
    iterate_batches,
    iterate_records,
    uncompressed_records,
)
from tests.unit.record.raw_batch import batch, record


def stored(first_offset, count, codec=0, **settings):
    rows = [(b"k%d" % i, b"v", 1000 + 10 * i) for i in range(first_offset, first_offset + count)]
    return encode_batch(rows, base_offset=first_offset, codec=codec, **settings)


LOG = stored(0, 3) + stored(3, 2, codec=1) + stored(5, 4, codec=4)


def test_header_fields():
    (info, data), *_ = iterate_batches(
        stored(40, 3, codec=2, producer_id=5, producer_epoch=1, base_sequence=9, leader_epoch=6)
    )
    assert (info.base_offset, info.batch_bytes, info.leader_epoch, info.codec) == (40, len(data), 6, 2)
    assert (info.last_offset_delta, info.record_count, info.base_timestamp, info.max_timestamp) == (2, 3, 1400, 1420)
    assert (info.producer_id, info.producer_epoch, info.base_sequence, info.attributes) == (5, 1, 9, 2)
    assert info.crc == _native.crc32c(data[21:])


def test_batches_and_records_in_order():
    assert [info.base_offset for info, _ in iterate_batches(LOG)] == [0, 3, 5]
    assert [(r.offset, r.key, r.timestamp) for r in iterate_records(LOG)] == [
        (i, b"k%d" % i, 1000 + 10 * i) for i in range(9)
    ]
    assert [r.offset for r in iterate_records(LOG, from_offset=4)] == [4, 5, 6, 7, 8]


def test_a_batch_cut_off_at_the_end_is_left_out_wherever_it_is_cut():
    whole = len(stored(0, 3))
    for cut in range(len(LOG)):
        found = [info.base_offset for info, _ in iterate_batches(LOG[:cut])]
        assert found == [0, 3, 5][: len(found)]
        assert (cut >= whole) == (0 in found)


def test_every_flipped_bit_is_found_or_harmless():
    data = stored(0, 2)
    for bit in range(len(data) * 8):
        broken = bytearray(data)
        broken[bit // 8] ^= 1 << bit % 8
        try:
            rows = list(iterate_records(bytes(broken)))
        except BatchUnreadableError:
            continue
        # Only what the checksum does not cover: base offset, leader epoch, and a length that reaches further.
        assert bit // 8 < 16 and [r.value for r in rows] in ([b"v", b"v"], [])


def test_log_append_time_replaces_the_timestamps():
    data = batch(record(0) + record(1, timestamp_delta=7), count=2, attributes=8, max_timestamp=77)
    assert [r.timestamp for r in iterate_records(data)] == [77, 77]


def test_unreadable_records_name_their_batch():
    for data in (batch(b"\x10" * 8, base_offset=42), batch(b"garbage", attributes=1, base_offset=42)):
        ((info, view),) = iterate_batches(data)
        with pytest.raises(BatchUnreadableError, match="at offset 42"):
            batch_records(view, info, Decompressor())


def test_a_bomb_is_unreadable():
    data = batch(compress(4, bytes(10_000)), attributes=4)
    ((info, view),) = iterate_batches(data)
    with pytest.raises(BatchUnreadableError, match="more than 9999 bytes"):
        uncompressed_records(view, info, Decompressor(), max_bytes=9999)


@pytest.mark.parametrize("codec", range(5))
def test_find_timestamp(codec):
    ((info, view),) = iterate_batches(stored(100, 5, codec))
    decompressor = Decompressor()
    assert find_timestamp(view, info, 0, decompressor) == (100, 2000)
    assert find_timestamp(view, info, 2011, decompressor) == (102, 2020)
    assert find_timestamp(view, info, 2040, decompressor) == (104, 2040)
    assert find_timestamp(view, info, 2041, decompressor) is None


def test_patched_header():
    data = stored(0, 3)
    plain = _native.batch_patch_header(data, 500, 9)
    assert plain[17:] == data[17:61]
    timed = _native.batch_patch_header(data, 500, 9, 123456)
    assert [(r.offset, r.timestamp) for r in iterate_records(timed + data[61:])] == [
        (500 + i, 123456) for i in range(3)
    ]
    with pytest.raises(ValueError, match="61 bytes"):
        _native.batch_patch_header(data[:60], 0, 0)


@pytest.mark.parametrize(
    ("more", "attributes", "max_timestamp"),
    [
        ((), 0, 1020),
        ((-1,), 0, 1020),
        ((-1, None), 0, 1020),
        ((-1, 7777), 0, 7777),
        ((-1, -1), 0, -1),
        ((0,), 8, 0),
        ((123456,), 8, 123456),
        ((123456, None), 8, 123456),
        ((123456, 7777), 8, 123456),  # the log's time is everybody's
    ],
)
def test_what_stands_in_a_patched_header(more, attributes, max_timestamp):
    data = stored(0, 3)
    header = _native.batch_patch_header(data, 500, 9, *more)
    assert struct.unpack_from(">q4xi", header) == (500, 9) and header[8:12] + header[16:17] == data[8:12] + data[16:17]
    crc, found, delta, base, largest = struct.unpack_from(">Ihiqq", header, 17)
    assert (found, delta, base, largest) == (attributes, 2, 1000, max_timestamp)
    assert header[43:] == data[43:61] and crc == _native.crc32c(header[21:] + data[61:])


def test_a_largest_timestamp_that_is_none():
    for wrong in ("7", 1 << 63):
        with pytest.raises((TypeError, OverflowError)):
            _native.batch_patch_header(stored(0, 3), 500, 9, -1, wrong)
