"""Produce: batches of every odd kind. Newest version unless the version makes the difference."""

from __future__ import annotations

import struct

from mpbroker.record import compression
from tests.conformance.corpus.case import Exchange, case
from tests.conformance.corpus.produce_cases import NEWER, NEWEST, VERSIONS, produce
from tests.conformance.corpus.records import TIME_MS, changed, good, of_records, old_message, record

CODECS = {"gzip": compression.GZIP, "snappy": compression.SNAPPY, "lz4": compression.LZ4, "zstd": compression.ZSTD}


def _each(x: Exchange, version: int, topic: str, *batches: bytes | None, acks: int = 1) -> None:
    for records in batches:
        x.ask(produce((topic, [(0, records)]), acks=acks), version)


@case("batches: how many", VERSIONS, NEWER)
def how_many(x: Exchange, version: int) -> None:
    one = good(b"a", b"b")
    _each(x, version, x.topic(), b"", b"\0", one[:11], one[:12], one[:16], one[:17], one[:60], one[:61], one[:-1],
          one + one, one + one[:20], one + b"\0", one + b"\0" * 16, one + b"\0" * 17, one + b"\0" * 61, one)


@case("batches: formats of before", VERSIONS)
def formats(x: Exchange, version: int) -> None:
    one = good()
    _each(x, version, x.topic(), old_message(0), old_message(1), old_message(0) * 2, changed(one, magic=0),
          changed(one, magic=1), changed(one, magic=3), changed(one, magic=-1), changed(one, magic=127),
          one + old_message(1), old_message(1) + one)


@case("batches: every codec", VERSIONS, NEWER)
def codecs(x: Exchange, version: int) -> None:
    topic = x.topic()
    _each(x, version, topic, *(good(b"a" * 500, b"b" * 500, codec=codec) for codec in range(5)),
          *(changed(good(), attributes=attributes) for attributes in (5, 6, 7, 0x80, 0x100, 0x40, -1)))
    for offset in range(5):
        x.quietly(produce((topic, [(0, good(b"%d" % offset))])), 7)


@case("batches: compressed data that is none", NEWEST)
def damaged_codecs(x: Exchange, version: int) -> None:
    topic = x.topic()
    for codec in CODECS.values():
        one = good(b"abc" * 100, b"def" * 100, codec=codec)
        empty = of_records(b"", 1, attributes=codec)
        rubbish = of_records(b"rubbish rubbish rubbish", 1, attributes=codec)
        half = one[61:61 + (len(one) - 61) // 2]
        nothing = of_records(compression.compress(codec, b""), 1, attributes=codec)
        _each(x, version, topic, empty, rubbish, of_records(half, 2, attributes=codec), nothing,
              changed(one, count=3, last_delta=2), changed(one, count=1, last_delta=0), changed(one, max_ms=TIME_MS + 99))


@case("batches: headers that lie", NEWEST)
def lying_headers(x: Exchange, version: int) -> None:
    one = good(b"a", b"b", b"c")
    size = len(one) - 12
    _each(x, version, x.topic(), changed(one, checksum=0), changed(one, length=size - 1), changed(one, length=size + 1),
          changed(one, length=0), changed(one, length=-1), changed(one, length=48), changed(one, length=49),
          changed(one, length=13), changed(one, length=14), changed(one, length=2**31 - 1),
          changed(one, base_offset=77), changed(one, base_offset=-5), changed(one, base_offset=2**63 - 1),
          changed(one, leader_epoch=9), changed(one, leader_epoch=-2**31))


@case("batches: counts that lie", NEWEST)
def lying_counts(x: Exchange, version: int) -> None:
    one = good(b"a", b"b", b"c")
    _each(x, version, x.topic(), changed(one, count=2), changed(one, count=4), changed(one, last_delta=1),
          changed(one, last_delta=3), changed(one, count=2, last_delta=1), changed(one, count=4, last_delta=3),
          changed(one, count=0, last_delta=-1), changed(one, count=0, last_delta=0), changed(one, count=-1),
          changed(one, count=-1, last_delta=-2), changed(one, count=2**31 - 1, last_delta=2**31 - 2),
          changed(one, last_delta=-2**31), of_records(b"", 0), changed(of_records(b"", 0), last_delta=0), one)


@case("batches: times", NEWEST)
def times(x: Exchange, version: int) -> None:
    one = good(b"a", b"b")
    _each(x, version, x.topic(), good(at_ms=-1), good(at_ms=0), good(at_ms=-2), good(at_ms=2**62),
          changed(one, max_ms=0), changed(one, max_ms=TIME_MS + 50), changed(one, max_ms=-1),
          changed(one, first_ms=-1), changed(one, first_ms=-1, max_ms=-1), changed(one, attributes=8),
          of_records(record(after_ms=5) + record(1, after_ms=-7), 2, max_ms=TIME_MS + 5), one)


@case("batches: times out of bounds", NEWEST)
def times_out_of_bounds(x: Exchange, version: int) -> None:
    before = x.topic("before", message_timestamp_before_max_ms="3600000")
    after = x.topic("after", message_timestamp_after_max_ms="3600000")
    far = 40_000_000_000_000
    for topic in (before, after):
        _each(x, version, topic, good(at_ms=far), good(at_ms=0), good(at_ms=-1), good(b"a", b"b", at_ms=far), acks=-1)
        _each(x, version, topic, good(at_ms=far, codec=compression.GZIP))
    difference = x.topic("difference", message_timestamp_difference_max_ms="3600000")
    _each(x, version, difference, good(at_ms=far), good(at_ms=0))


@case("batches: stamped by the broker", VERSIONS)
def log_append_time(x: Exchange, version: int) -> None:
    topic = x.topic(message_timestamp_type="LogAppendTime")
    _each(x, version, topic, good(b"a", b"b"), good(at_ms=-1), good(at_ms=2**62), changed(good(), attributes=8),
          changed(good(b"a", b"b"), max_ms=0), good(codec=compression.GZIP), good(codec=compression.LZ4),
          changed(good(b"a", b"b"), count=3, last_delta=2), good()[:-1] + b"!")


@case("batches: compacted topics want keys", NEWEST)
def compacted(x: Exchange, version: int) -> None:
    for policy in ("compact", "compact,delete"):
        topic = x.topic(policy[-3:], cleanup_policy=policy)
        mixed = of_records(record() + record(1, key=None) + record(2), 3)
        _each(x, version, topic, good(key=None), good(), good(None), good(key=b""), mixed,
              good(key=None, codec=compression.ZSTD), good(codec=compression.ZSTD), good(b"a", b"b", key=None, at_ms=-5))


@case("batches: sizes", NEWEST)
def sizes(x: Exchange, version: int) -> None:
    topic = x.topic(max_message_bytes="300")
    exact = good(b"x" * (300 - len(good(b"")) - 2))
    one = good(b"y" * 2000, codec=compression.GZIP)
    _each(x, version, topic, exact, good(b"x" * 300), good(b"x" * 1000)[:-1] + b"!", changed(good(b"x" * 999), magic=1),
          one, good(b"x" * 10_000, key=None, at_ms=-1))
    for size in (299, 300, 301):
        fitting = good(b"z" * (size - len(good(b"")) - 2))
        _each(x, version, topic, fitting)
    _each(x, version, x.topic("usual"), good(b"x" * 1_048_588), good(b"x" * 1_048_000))
    _each(x, version, x.topic("segment", segment_bytes="1000"), good(b"x" * 1200), good(b"x" * 900), good(b"x" * 900))


@case("batches: rewritten by the topic's compression", NEWEST)
def rewritten(x: Exchange, version: int) -> None:
    for kind in ("uncompressed", "gzip"):
        topic = x.topic(kind, compression_type=kind)
        for codec in range(5):
            _each(x, version, topic, good(b"a" * 50, codec=codec))
        _each(x, version, topic, changed(good(b"a", b"b"), max_ms=TIME_MS + 50), changed(good(b"a", b"b"), max_ms=0),
              changed(good(b"a", b"b"), count=3, last_delta=2), good(b"x" * 1_200_000))


def _varint_max() -> bytes:
    return b"\xfe\xff\xff\xff\x0f"  # 2147483647


@case("batches: records that lie", NEWEST)
def lying_records(x: Exchange, version: int) -> None:
    plain = record()
    shifted = bytes((plain[0] + 2,)) + plain[1:]
    _each(x, version, x.topic(), of_records(plain + plain, 2), of_records(record(1), 1), of_records(record(5), 1),
          of_records(record(-1), 1), of_records(shifted, 1), of_records(shifted + b"\0", 1), of_records(plain + b"\0", 1),
          of_records(b"\x01", 1), of_records(b"\0", 1), of_records(_varint_max(), 1), of_records(b"\xff" * 10, 1),
          of_records(plain[:-1], 1), of_records(b"\x0c\x00\x00\x00\x01\x01\x00", 1), of_records(b"\x0c\x7f\x00\x00\x01\x01\x00", 1),
          of_records(b"\x0c\x00\x00\x00\x03\x01\x00", 1), of_records(b"\x0c\x00\x00\x00\x01\x01\x01", 1),
          of_records(b"\x0c\x00\x00\x00\x01\x01\x02", 1), of_records(b"\x0c\x00\x00\x00\x01\x7f\x00", 1),
          of_records(record(headers=[(b"h", None), (b"", b"")]), 1), of_records(record(headers=[(b"\xff\xfe", b"")]), 1))


@case("batches: control and transactional", VERSIONS)
def control(x: Exchange, version: int) -> None:
    topic = x.topic()
    marker = good(struct.pack(">hi", 0, 0), key=struct.pack(">hh", 0, 1), producer_id=5, producer_epoch=0, control=True,
                  transactional=True)
    _each(x, version, topic, marker, good(control=True), good(control=True, producer_id=5, producer_epoch=0),
          good(transactional=True), changed(good(), attributes=0x30))


@case("batches: good and bad together", VERSIONS, NEWER)
def together(x: Exchange, version: int) -> None:
    topic = x.topic(partitions=4)
    fine, damaged = good(b"a"), good()[:-1] + b"!"
    for parts in ([(0, fine), (1, damaged), (2, fine)], [(0, fine), (1, b"")], [(0, fine), (1, old_message(1))],
                  [(0, fine), (1, fine + fine)], [(0, fine), (1, fine[:30])], [(0, fine), (1, changed(fine, magic=7))],
                  [(0, fine), (1, good(codec=4))], [(0, fine), (1, changed(fine, attributes=5))],
                  [(0, fine), (1, changed(fine, length=3))], [(0, fine), (1, good(control=True)), (9, fine)]):
        x.ask(produce((topic, parts)), version)
    for partition in range(4):
        x.ask(produce((topic, [(partition, fine)])), version)
