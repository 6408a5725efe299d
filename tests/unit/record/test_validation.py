"""The answers of Apache Kafka 3.9.2 to malformed batches, collected from a running broker, are the expected values."""

import struct

import pytest

from mpbroker import _native
from mpbroker.record.compression import Decompressor, compress
from mpbroker.record.record_batch import iterate_records
from mpbroker.record.validation import ProduceRules, check_append_records, check_request_records
from tests.unit.record.raw_batch import NOW_MS, batch, record, varint

GOOD = batch()
PLAIN = ProduceRules()
BOUNDED = ProduceRules(timestamp_before_max_ms=1000, timestamp_after_max_ms=1000)


def code_of(records, rules=PLAIN, version=7):
    check = check_request_records(records, version)
    if check.code:
        return check.code
    return check_append_records(records[: check.batch_bytes], rules, NOW_MS, Decompressor()).code


def cut_to_length_field(length):
    return struct.pack(">qi", 0, length) + GOOD[12 : 12 + max(length, 0)]


FRAMING = {
    "good": (GOOD, 0),
    "none": (b"", 87),
    "5 bytes": (GOOD[:5], 87),
    "13 bytes": (GOOD[:13], 87),
    "16 bytes": (GOOD[:16], 87),
    "truncated": (GOOD[:-1], 87),
    "trailing 5": (GOOD + b"12345", 0),
    "trailing 12 zeros": (GOOD + bytes(12), 2),
    "trailing 17 zeros": (GOOD + bytes(17), 2),
    "two": (GOOD + GOOD, 87),
    "trailing part of a batch": (GOOD + GOOD[:-1], 0),
    "trailing magic 9": (GOOD + GOOD[:16] + b"\x09" + GOOD[17:-1], 2),
    "magic 0": (batch(magic=0), 87),
    "magic 1": (batch(magic=1), 87),
    "magic 3": (batch(magic=3), 2),
    "magic -1": (batch(magic=-1), 2),
    "length -1": (cut_to_length_field(-1), 2),
    "length 13": (cut_to_length_field(13), 2),
    "length 14": (cut_to_length_field(14), -1),
    "length 38": (cut_to_length_field(38), -1),
    "length 39": (cut_to_length_field(39), 2),
    "length 48": (cut_to_length_field(48), 2),
    "length 2^31-1": (struct.pack(">qi", 0, 2**31 - 1) + GOOD[12:], -1),
    "length 2^31-13": (struct.pack(">qi", 0, 2**31 - 13) + GOOD[12:], 87),
}
HEADER = {
    "base offset": (batch(base_offset=5), 87),
    "checksum": (batch(crc=1), 2),
    "both": (batch(base_offset=5, crc=1), 87),
    "codec 5": (batch(attributes=5), -1),
    "codec 5 and checksum": (batch(attributes=5, crc=1), 2),
    "unused attributes": (batch(attributes=0x80), 0),
    "delete horizon": (batch(attributes=0x40), 0),
    "control": (batch(attributes=0x20), 87),
    "producer": (batch(producer=(77, 0, 0)), 0),
    "no sequence": (batch(producer=(0, 0, -1)), 87),
    "producer -2": (batch(producer=(-2, -1, -1)), 0),
    "count 0": (batch(b"", count=0), 87),
    "count 0, delta 0": (batch(b"", count=0, last_delta=0), 87),
    "count -1": (batch(count=-1, last_delta=0), 87),
    "count 2 of 1": (batch(count=2), 87),
    "count 1 of 2": (batch(record() + record(1)), 87),
    "last delta 1": (batch(last_delta=1), 87),
    "last delta -1": (batch(last_delta=-1), 87),
    "leader epoch": (batch(epoch=77), 0),
}
BODY = record()[1:]
RECORDS = {
    "same deltas": (batch(record() + record(), count=2), 0),
    "delta 5": (batch(record(5)), 0),
    "delta -3": (batch(record(-3)), 0),
    "length of 12 bytes": (batch(b"\xff" * 12), -1),
    "length negative": (batch(varint(-1) + BODY), 87),
    "length 0": (batch(b"\0"), 87),
    "length too big": (batch(varint(50) + BODY), 87),
    "length too small": (batch(varint(3) + BODY), 87),
    "no records": (batch(b""), 87),
    "endless number": (batch(varint(20) + b"\0" + b"\xff" * 19), 87),
    "headers -1": (batch(varint(6) + b"\0\0\0\1\1" + varint(-1)), 87),
    "headers 50": (batch(varint(6) + b"\0\0\0\1\1" + varint(50)), 87),
    "key length -2": (batch(varint(6) + b"\0\0\0" + varint(-2) + varint(-2) + b"\0"), 0),
    "header key null": (batch(varint(8) + b"\0\0\0\1\1" + varint(1) + b"\1\1"), 87),
    "header value null": (batch(varint(9) + b"\0\0\0\1\1" + varint(1) + varint(1) + b"h\1"), 0),
    "record attributes": (batch(record()[:1] + b"\x07" + record()[2:]), 0),
}


@pytest.mark.parametrize("name", [*FRAMING, *HEADER, *RECORDS])
def test_malformed_batches_get_kafkas_codes(name):
    records, expected = {**FRAMING, **HEADER, **RECORDS}[name]
    assert code_of(records) == expected


def test_order_of_checks_between_request_and_append():
    assert check_request_records(batch(magic=3), 7).whole_request == 1
    assert check_request_records(batch(attributes=5), 6)[::3] == (-1, 2)
    assert check_request_records(batch(attributes=5), 7).code == 0
    assert check_request_records(batch(attributes=0x15), 6) == (-1, 0, True, 2)
    assert check_request_records(None, 7) == (87, 0, False, 0)
    assert check_request_records(GOOD + b"12345", 7) == (0, len(GOOD), False, 0)


def test_zstd_needs_version_7():
    packed = batch(compress(4, record()), attributes=4)
    assert code_of(packed, version=6) == 76 and code_of(packed * 2, version=6) == 76
    assert code_of(packed, version=7) == 0


def test_size_limit_is_looked_at_before_the_checksum_and_after_the_base_offset():
    small = ProduceRules(max_message_bytes=len(GOOD) - 1)
    assert code_of(batch(crc=1), small) == 10
    assert code_of(batch(base_offset=5), small) == 87
    assert code_of(GOOD, ProduceRules(max_message_bytes=len(GOOD))) == 0


@pytest.mark.parametrize("codec", [0, 1, 2, 3, 4])
def test_compacted_topics_need_keys(codec):
    compacted = ProduceRules(compacted=True)
    assert code_of(batch(compress(codec, record(key=None)), attributes=codec), compacted) == 87
    assert code_of(batch(compress(codec, record(key=b"")), attributes=codec), compacted) == 0


@pytest.mark.parametrize("codec", [0, 1, 2, 3, 4])
def test_timestamps(codec):
    def stamped(**fields):
        return batch(compress(codec, record()), attributes=codec | fields.pop("flag", 0), **fields)

    assert code_of(stamped(), BOUNDED) == 0
    assert code_of(stamped(base_timestamp=NOW_MS - 1001), BOUNDED) == 32
    assert code_of(stamped(base_timestamp=NOW_MS + 1001), BOUNDED) == 32
    assert code_of(stamped(base_timestamp=-1, max_timestamp=-1), BOUNDED) == 0
    assert code_of(stamped(base_timestamp=-2), BOUNDED) == 32
    assert code_of(stamped(flag=8, max_timestamp=NOW_MS), PLAIN) == 0
    assert code_of(stamped(flag=8, max_timestamp=-1), PLAIN) == 32
    assert code_of(stamped(flag=8), ProduceRules(log_append_time=True)) == 32
    assert code_of(stamped(), ProduceRules(log_append_time=True)) == 0


def test_a_bad_timestamp_beats_a_missing_key_and_a_broken_structure_beats_both():
    rules = BOUNDED._replace(compacted=True)
    both = record(0, key=None) + record(1, timestamp_delta=-5000)
    assert code_of(batch(both, count=2), rules) == 32
    assert code_of(batch(both + b"\x50", count=3), rules) == 87


@pytest.mark.parametrize("codec", [1, 2, 3, 4])
@pytest.mark.parametrize(
    ("records", "count", "expected"),
    [
        (record() + record(1), 2, 0),
        (record() + record(1), 1, 87),
        (record(), 2, 87),
        (record() + record(), 2, -1),
        (record(1), 1, -1),
        (b"\x50" + BODY, 1, 0),
        (b"\xff" * 6 + BODY, 1, 87),
        (b"", 1, 87),
    ],
    ids=["good", "too many", "too few", "same deltas", "delta 1", "wrong length", "endless length", "empty"],
)
def test_compressed_records(codec, records, count, expected):
    assert code_of(batch(compress(codec, records), count=count, attributes=codec)) == expected


def test_max_timestamp_comes_from_the_records():
    sent = batch(record(0, timestamp_delta=3) + record(1, timestamp_delta=1), count=2, max_timestamp=5)
    check = check_append_records(sent, PLAIN, NOW_MS, Decompressor())
    assert (check.max_timestamp, check.max_timestamp_delta) == (NOW_MS + 3, 0)
    header = _native.batch_patch_header(sent, 100, 4, -1, check.max_timestamp)
    (first, second) = iterate_records(header + sent[61:])
    assert (first.offset, first.timestamp, second.offset) == (100, NOW_MS + 3, 101)


def test_first_refused_record_is_named():
    sent = batch(record(0) + record(1, key=None), count=2)
    assert check_append_records(sent, ProduceRules(compacted=True), NOW_MS, Decompressor()).bad_record == 1


@pytest.mark.parametrize("source", range(5))
@pytest.mark.parametrize("target", range(5))
def test_target_codec(source, target):
    sent = batch(compress(source, record() + record(1)), count=2, attributes=source, producer=(7, 1, 5))
    check = check_append_records(sent, ProduceRules(target_codec=target), NOW_MS, Decompressor())
    assert check.code == 0 and check.info.codec == target
    assert check.info.producer_id == 7 and check.info.base_sequence == 5
    assert (check.batch is sent) == (source == target)
    assert len(list(iterate_records(check.batch))) == 2


def test_a_batch_that_grows_too_large_when_rewritten():
    sent = batch(compress(1, record(value=bytes(5000))), attributes=1)
    assert code_of(sent, ProduceRules(target_codec=0, max_message_bytes=1000)) == 10


def test_a_bomb_is_too_large():
    sent = batch(compress(4, bytes(80 << 20)), attributes=4)
    assert len(sent) < 10_000
    assert code_of(sent) == 10


@pytest.mark.parametrize(("codec", "level"), [(1, 1), (3, 12), (4, -5)])
def test_a_batch_is_rewritten_at_the_topics_level(codec, level):
    sent = batch(record(value=b" ".join(b"%d %d" % (n * 7919 % 997, n % 13) for n in range(20_000))))
    rules = ProduceRules(target_codec=codec), ProduceRules(target_codec=codec, target_level=level)
    ordinary, asked = (len(check_append_records(sent, each, NOW_MS, Decompressor()).batch) for each in rules)
    assert (asked < ordinary) == (level == 12) and asked != ordinary
