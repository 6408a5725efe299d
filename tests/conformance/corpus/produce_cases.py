"""Produce 3 to 13: the request around the batches."""

from __future__ import annotations

import struct

from mpbroker.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.conformance.corpus.case import Exchange, case
from tests.conformance.corpus.records import changed, good

VERSIONS = range(3, 12)
NEWEST = (7, 11)
NEWER = (12, 13)


def produce(*topics: tuple[str, list[tuple[int, bytes | None]]], acks: int = 1, timeout_ms: int = 10_000,
            transactional_id: str | None = None) -> ProduceRequest:
    """A request of (topic, [(partition, records)]) pairs."""
    return ProduceRequest(acks=acks, timeout_ms=timeout_ms, transactional_id=transactional_id, topic_data=[
        TopicProduceData(name=name, partition_data=[PartitionProduceData(index=i, records=r) for i, r in partitions])
        for name, partitions in topics])


@case("produce: every acks", VERSIONS, NEWER)
def every_acks(x: Exchange, version: int) -> None:
    topic = x.topic()
    for acks in (1, -1, 2, -2, 32767, -32768):
        x.ask(produce((topic, [(0, good(b"a", b"b"))]), acks=acks), version)
    x.ask(produce((topic, [(0, good())]), acks=0), version, answered=False)
    x.ask(produce((topic, [(0, good())])), version)


@case("produce: topics and partitions that are not there", VERSIONS, NEWER)
def unknown(x: Exchange, version: int) -> None:
    topic = x.topic(partitions=2)
    for partition in (2, -1, 2**31 - 1, -2**31):
        x.ask(produce((topic, [(partition, good())])), version)
    for name in (x.name("nowhere"), "", "bad name", ".", "..", "x" * 249, "x" * 250, "x" * 30_000, "ü", "a/b", "\0"):
        x.ask(produce((name, [(0, good())])), version)
    x.ask(produce((topic, [(0, good()), (9, good())]), (x.name("nowhere"), [(0, good())])), version)


@case("produce: what acks=0 does not forgive", VERSIONS, NEWER)
def errors_without_answer(x: Exchange, version: int) -> None:
    topic = x.topic()
    for name, partition, records in ((x.name("nowhere"), 0, good()), (topic, 5, good()), (topic, 0, b""),
                                     (topic, 0, good()[:-1]), (topic, 0, good()[:-1] + b"!"),
                                     (topic, 0, changed(good(), magic=1)), (topic, 0, good(b"x" * 1_100_000))):
        x.ask(produce((name, [(partition, records)]), acks=0), version, answered=False)
    x.ask(produce((topic, [(0, good()), (5, good())]), acks=0), version, answered=False)
    x.ask(produce(acks=0), version, answered=False)
    x.ask(produce((topic, []), acks=0), version, answered=False)
    x.ask(produce((topic, [(0, good())])), version)


@case("produce: nothing in it", VERSIONS, NEWER)
def nothing(x: Exchange, version: int) -> None:
    topic = x.topic()
    x.ask(produce(), version)
    x.ask(produce((topic, [])), version)
    x.ask(produce((x.name("nowhere"), [])), version)
    x.ask(produce((topic, []), (topic, [(0, good())])), version)
    x.ask(produce(acks=7), version)
    x.ask(produce(acks=-1), version)
    x.ask(produce((topic, []), acks=7), version)


@case("produce: named twice", VERSIONS, NEWER)
def named_twice(x: Exchange, version: int) -> None:
    topic, other = x.topic(partitions=2), x.topic("u")
    x.ask(produce((topic, [(0, good(b"a")), (0, good(b"b", b"c"))])), version)
    x.ask(produce((topic, [(0, good(b"a"))]), (topic, [(0, good(b"b"))])), version)
    x.ask(produce((topic, [(0, good(b"a"))]), (other, [(0, good())]), (topic, [(1, good(b"b"))])), version)
    x.ask(produce((topic, [(0, good()[:-1] + b"!"), (0, good(b"b", b"c"))])), version)
    x.ask(produce((topic, [(0, good(b"a")), (0, good(b"a"))]), acks=-1), version)
    x.ask(produce((topic, [(0, good(b"a"))])), version)


@case("produce: timeouts", NEWEST)
def timeouts(x: Exchange, version: int) -> None:
    topic = x.topic()
    for timeout_ms in (0, -1, 1, -2**31, 2**31 - 1):
        for acks in (1, -1):
            x.ask(produce((topic, [(0, good())]), acks=acks, timeout_ms=timeout_ms), version)


@case("produce: more replicas wanted than there are", NEWEST)
def too_few_replicas(x: Exchange, version: int) -> None:
    topic = x.topic(min_insync_replicas="2")
    for acks in (1, -1):
        x.ask(produce((topic, [(0, good())]), acks=acks), version)
    x.ask(produce((topic, [(0, good()[:-1] + b"!")]), acks=-1), version)
    x.ask(produce((topic, [(0, good(b"x" * 1_100_000))]), acks=-1), version)


@case("produce: with a transactional id", VERSIONS)
def transactional_id(x: Exchange, version: int) -> None:
    topic = x.topic()
    for name in ("tx", "", "ü" * 20):
        x.ask(produce((topic, [(0, good())]), transactional_id=name), version)
    x.ask(produce((topic, [(0, good(producer_id=9, producer_epoch=0, base_sequence=0, transactional=True))])), version)
    x.ask(produce((topic, [(0, good())]), (x.name("u"), [(0, good(transactional=True))])), version)
    x.ask(produce((topic, [(0, good())]), (x.name("u"), [(0, b"")])), version)


@case("produce: null where nothing may be null", range(3, 8))
def nulls(x: Exchange, version: int) -> None:
    name = x.name("t").encode()
    counted = struct.pack(">h", len(name)) + name
    head = struct.pack(">hhi", -1, 1, 1000)
    for body in (head + struct.pack(">i", -1), head + struct.pack(">ih", 1, -1) + struct.pack(">i", 0),
                 head + struct.pack(">i", 1) + counted + struct.pack(">i", -1), head + struct.pack(">i", -2),
                 head + struct.pack(">i", 2**31 - 1), head + struct.pack(">i", 1) + counted + struct.pack(">i", 1 << 20),
                 struct.pack(">h", -2) + head[2:] + struct.pack(">i", 0),
                 head + struct.pack(">i", 1) + counted + struct.pack(">iii", 1, 0, -1),
                 head + struct.pack(">i", 1) + counted + struct.pack(">iii", 1, 0, -2),
                 head + struct.pack(">i", 1) + counted + struct.pack(">iii", 1, 0, 1000)):
        x.ask_body(0, version, body)


