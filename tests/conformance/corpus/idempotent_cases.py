"""Produce: batches with producer ids and sequences. The ids are made up: Kafka 3.9 asks no one whether they exist."""

from __future__ import annotations

from tests.conformance.corpus.case import Exchange, case
from tests.conformance.corpus.produce_cases import NEWER, NEWEST, VERSIONS, produce
from tests.conformance.corpus.records import changed, good, numbered

LAST = 2**31 - 1


def _each(x: Exchange, version: int, topic: str, *batches: bytes) -> None:
    for records in batches:
        x.ask(produce((topic, [(0, records)]), acks=-1), version)


@case("sequences: in order, twice, with a gap", VERSIONS, NEWER)
def in_order(x: Exchange, version: int) -> None:
    _each(x, version, x.topic(), numbered(0), numbered(1, 3), numbered(4), numbered(1, 3), numbered(0), numbered(6),
          numbered(5), numbered(3), numbered(1, 2), numbered(4, 2), numbered(0, 6))


@case("sequences: the last five are remembered", NEWEST)
def last_five(x: Exchange, version: int) -> None:
    topic = x.topic()
    _each(x, version, topic, *(numbered(2 * n, 2) for n in range(7)))
    _each(x, version, topic, *(numbered(2 * n, 2) for n in range(7)))
    _each(x, version, topic, numbered(14, 2))


@case("sequences: where a producer may begin", NEWEST)
def beginnings(x: Exchange, version: int) -> None:
    for number, start in enumerate((0, 1, 5, LAST, LAST - 1, -1, -2, -2**31)):
        topic = x.topic(f"t{number}")
        _each(x, version, topic, numbered(start), numbered(start), numbered(0))


@case("sequences: epochs", NEWEST)
def epochs(x: Exchange, version: int) -> None:
    _each(x, version, x.topic(), numbered(0), numbered(1, epoch=1), numbered(0, epoch=1), numbered(0, epoch=1),
          numbered(1, epoch=0), numbered(0, epoch=0), numbered(5, epoch=2), numbered(0, epoch=5), numbered(1, epoch=5),
          numbered(2, epoch=4), numbered(2, epoch=-1), numbered(2, epoch=-5), numbered(0, epoch=32767),
          numbered(0, epoch=6))


@case("sequences: wrapping", NEWEST)
def wrapping(x: Exchange, version: int) -> None:
    _each(x, version, x.topic(), numbered(LAST - 2, 2), numbered(LAST, 3), numbered(2), numbered(LAST, 3),
          numbered(LAST - 2, 2), numbered(0), numbered(3))
    _each(x, version, x.topic("u"), numbered(LAST), numbered(0), numbered(1), numbered(LAST))
    _each(x, version, x.topic("w"), numbered(LAST - 1), numbered(0), numbered(LAST), numbered(0))


@case("sequences: odd producers", NEWEST)
def odd_producers(x: Exchange, version: int) -> None:
    one = good()
    _each(x, version, x.topic(), numbered(0, producer=-2), numbered(0, producer=0), numbered(0, producer=2**63 - 1),
          changed(one, sequence=5), changed(one, epoch=5), changed(one, producer=5), changed(one, producer=5, epoch=0),
          changed(one, producer=5, sequence=0), changed(one, producer=-5, epoch=0, sequence=0),
          changed(one, producer=6, epoch=-1, sequence=0), changed(one, producer=6, epoch=0, sequence=-1))


@case("sequences: several producers and partitions", NEWEST)
def several(x: Exchange, version: int) -> None:
    topic = x.topic(partitions=2)
    x.ask(produce((topic, [(0, numbered(0)), (1, numbered(7, producer=72))])), version)
    x.ask(produce((topic, [(0, numbered(1)), (1, numbered(9, producer=72))])), version)
    x.ask(produce((topic, [(0, numbered(1)), (1, numbered(8, producer=72))])), version)
    x.ask(produce((topic, [(1, numbered(1)), (0, numbered(0, producer=72))])), version)
    x.ask(produce((topic, [(0, numbered(2)), (0, numbered(3))])), version)
    x.ask(produce((topic, [(0, numbered(4))]), acks=1), version)
    x.ask(produce((topic, [(0, numbered(99))]), acks=0), version, answered=False)
    x.ask(produce((topic, [(0, numbered(5))]), acks=0), version, answered=False)
    x.ask(produce((topic, [(0, numbered(5))])), version)


@case("sequences: with compression, times and errors", NEWEST)
def with_errors(x: Exchange, version: int) -> None:
    topic = x.topic()
    damaged = numbered(0)[:-1] + b"!"
    _each(x, version, topic, damaged, numbered(0), damaged, numbered(0, codec=1), numbered(1, codec=1),
          numbered(1, codec=1), changed(numbered(2, 3), count=2), numbered(2, 3), numbered(2, 3, at_ms=5))
    stamped = x.topic("stamped", message_timestamp_type="LogAppendTime")
    _each(x, version, stamped, numbered(0), numbered(0), numbered(2), numbered(1))
