"""ListOffsets 1 to 10."""

from __future__ import annotations

import struct

from mpbroker.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from tests.conformance.corpus.case import Exchange, case
from tests.conformance.corpus.produce_cases import produce
from tests.conformance.corpus.records import TIME_MS, changed, good, of_records, record

VERSIONS = range(1, 10)
NEWER = (10,)
TIMES = (-1, -2, -3, -4, -5, -6, -7, -2**63, 0, 1, TIME_MS - 1, TIME_MS, TIME_MS + 1, TIME_MS + 2, TIME_MS + 3,
         TIME_MS + 10_000, 2**63 - 1)


def asking(topic: str, *partitions: tuple[int, int] | tuple[int, int, int], replica_id: int = -1,
           isolation: int = 0) -> ListOffsetsRequest:
    """(partition, timestamp[, leader epoch]) of one topic."""
    return ListOffsetsRequest(replica_id=replica_id, isolation_level=isolation, topics=[ListOffsetsTopic(
        name=topic, partitions=[ListOffsetsPartition(partition_index=p[0], timestamp=p[1],
                                                     current_leader_epoch=p[2] if len(p) > 2 else -1)
                                for p in partitions])])


@case("offsets: every time, full and empty", VERSIONS, NEWER)
def every_time(x: Exchange, version: int) -> None:
    topic, empty = x.topic(), x.topic("empty")
    for at_ms in (TIME_MS, TIME_MS + 3, TIME_MS + 1):
        x.quietly(produce((topic, [(0, good(b"a", b"b", at_ms=at_ms))])), 7)
    for name in (topic, empty, x.name("nowhere"), "bad name", ""):
        for at_ms in TIMES:
            x.ask(asking(name, (0, at_ms)), version)


@case("offsets: times within batches", VERSIONS, NEWER)
def within_batches(x: Exchange, version: int) -> None:
    topic = x.topic()
    zigzag = of_records(record() + record(1, 9) + record(2, 4) + record(3, 20), 4, max_ms=TIME_MS + 20)
    for records in (zigzag, good(b"a", b"b", b"c", at_ms=TIME_MS + 30, codec=1), good(at_ms=-1),
                    changed(good(b"a", b"b", at_ms=TIME_MS + 90), max_ms=TIME_MS + 999)):
        x.quietly(produce((topic, [(0, records)])), 7)
    for after in (0, 1, 4, 5, 9, 10, 20, 21, 30, 31, 32, 33, 90, 91, 92, 999, 1000):
        x.ask(asking(topic, (0, TIME_MS + after)), version)


@case("offsets: readers and epochs", VERSIONS, NEWER)
def readers(x: Exchange, version: int) -> None:
    topic = x.topic()
    x.quietly(produce((topic, [(0, good(b"a", b"b"))])), 7)
    for replica_id in (-1, -2, -3, 0, 1, 2**31 - 1, -2**31):
        for at_ms in (-1, -2, TIME_MS):
            x.ask(asking(topic, (0, at_ms), replica_id=replica_id), version)
    for isolation in (0, 1, 2, -1, 127):
        for at_ms in (-1, -2, TIME_MS):
            x.ask(asking(topic, (0, at_ms), isolation=isolation), version)
    for epoch in (-1, 0, 1, -2, 2**31 - 1):
        for at_ms in (-1, -2, TIME_MS, TIME_MS + 99):
            x.ask(asking(topic, (0, at_ms, epoch)), version)


@case("offsets: partitions, twice and not there", VERSIONS)  # 4.3 answers a partition named twice once
def partitions(x: Exchange, version: int) -> None:
    topic = x.topic(partitions=2)
    for partition in (2, -1, 2**31 - 1, -2**31):
        for at_ms in (-1, -2, -3, -9, 5):
            x.ask(asking(topic, (partition, at_ms)), version)
    x.ask(asking(topic, (0, -1), (0, -2), (1, -1)), version)
    x.ask(asking(topic, (5, -1), (5, -2), (1, -1)), version)
    twice = asking(topic, (0, -1))
    twice.topics = twice.topics + asking(topic, (0, -2), (1, -1)).topics
    x.ask(twice, version)
    x.ask(asking(topic), version)
    x.ask(ListOffsetsRequest(replica_id=-1, topics=[]), version)
    x.ask(asking(topic, (1, -1), (0, -1), (7, -1)), version)


@case("offsets: malformed", range(1, 6))
def malformed(x: Exchange, version: int) -> None:
    head = struct.pack(">i", -1) + (b"\0" if version >= 2 else b"")
    for body in (head + struct.pack(">i", -1), head + struct.pack(">ih", 1, -1) + struct.pack(">i", 0),
                 head + struct.pack(">ih", 1, 1) + b"a" + struct.pack(">i", -1), head + struct.pack(">i", 1 << 30),
                 head + struct.pack(">ih", 1, 2) + b"\xff\xfe" + struct.pack(">i", 0),
                 head + struct.pack(">i", -2), b""):
        x.ask_body(2, version, body)


@case("offsets: largest timestamp", range(6, 10), NEWER)
def largest(x: Exchange, version: int) -> None:
    zigzag = of_records(record() + record(1, 9) + record(2, 4) + record(3, 9), 4, max_ms=TIME_MS + 9)
    packed = good(b"a", b"b", b"c", at_ms=TIME_MS + 30, codec=1)
    late, early = good(b"a", at_ms=TIME_MS + 90), good(b"a", b"b", at_ms=TIME_MS - 5)
    orders = ((zigzag,), (zigzag, packed), (packed, early), (late, zigzag, late, early), (early, good(at_ms=-1)),
              (good(at_ms=-1),), (changed(good(b"a", b"b"), max_ms=TIME_MS + 999),))
    for number, batches in enumerate(orders):
        topic = x.topic(f"t{number}")
        for records in batches:
            x.quietly(produce((topic, [(0, records)])), 7)
        for isolation in (0, 1):
            x.ask(asking(topic, (0, -3), isolation=isolation), version)
        x.ask(asking(topic, (0, -3, 0)), version)
        x.ask(asking(topic, (7, -3)), version)
        x.ask(asking(topic, (0, -3, 5)), version)


@case("offsets: largest timestamp across segments", (9,))
def largest_across_segments(x: Exchange, version: int) -> None:
    topic = x.topic(segment_bytes="1000")
    for after in (3, 9, 9, 1):
        x.quietly(produce((topic, [(0, good(b"x" * 700, at_ms=TIME_MS + after))])), 7)
        x.ask(asking(topic, (0, -3)), version)
