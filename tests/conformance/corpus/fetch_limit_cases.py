"""Fetch: how many bytes come back, under every limit, and from topics of every kind."""

from __future__ import annotations

from tests.conformance.corpus.case import Exchange, case
from tests.conformance.corpus.fetch_cases import VERSIONS, fetching, filled
from tests.conformance.corpus.produce_cases import produce
from tests.conformance.corpus.records import good, numbered

LIMITS = (0, 1, -1, 10, 74, 75, 76, 77, 100, 150, 160, 500, 2**31 - 1, -2**31)
NEWEST = (4, 11, 17)


@case("limits: of a partition", VERSIONS)
def of_a_partition(x: Exchange, version: int) -> None:
    topic = filled(x, partitions=2)
    for limit in LIMITS:
        x.ask(fetching((topic, [(0, 0)]), partition_bytes=limit), version)
        x.ask(fetching((topic, [(1, 1), (0, 3)]), partition_bytes=limit), version)


@case("limits: of the request", VERSIONS)
def of_the_request(x: Exchange, version: int) -> None:
    topic, empty = filled(x, partitions=3), x.topic("empty")
    for limit in LIMITS:
        x.ask(fetching((topic, [(0, 0)]), max_bytes=limit), version)
        x.ask(fetching((empty, [(0, 0)]), (topic, [(0, 0), (1, 0), (2, 3)]), max_bytes=limit), version)


@case("limits: both", NEWEST)
def both(x: Exchange, version: int) -> None:
    topic = filled(x, partitions=3, batches=4)
    for request_bytes in (0, 80, 170, 250, 400, 1000):
        for partition_bytes in (0, 80, 170, 250):
            x.ask(fetching((topic, [(0, 0), (1, 2), (2, 5)]), max_bytes=request_bytes, partition_bytes=partition_bytes),
                  version)


@case("limits: least bytes, with nothing to wait for", NEWEST)
def least(x: Exchange, version: int) -> None:
    topic = filled(x)
    for min_bytes in (0, 1, -1, 150, 10_000, 2**31 - 1, -2**31):
        for wait_ms in (0, 30):
            x.ask(fetching((topic, [(0, 0)]), min_bytes=min_bytes, max_wait_ms=wait_ms), version)
            x.ask(fetching((topic, [(0, 6)]), min_bytes=min_bytes, max_wait_ms=wait_ms), version)
            x.ask(fetching((topic, [(0, 6), (4, 0)]), min_bytes=min_bytes, max_wait_ms=wait_ms), version)
            x.ask(fetching((topic, [(0, 60)]), min_bytes=min_bytes, max_wait_ms=wait_ms), version)


@case("limits: large batches", NEWEST)
def large(x: Exchange, version: int) -> None:
    topic = x.topic(partitions=2)
    for size in (200_000, 100, 300_000, 100):
        x.quietly(produce((topic, [(0, good(b"x" * size)), (1, good(b"y" * size))])), 7)
    for limit in (100, 200_000, 200_300, 500_000, 600_000, 1_000_000):
        for offset in (0, 1, 2):
            x.ask(fetching((topic, [(0, offset), (1, 0)]), partition_bytes=limit), version)
            x.ask(fetching((topic, [(0, offset), (1, 0)]), max_bytes=limit), version)


@case("limits: across segments", NEWEST)
def across_segments(x: Exchange, version: int) -> None:
    topic = x.topic(segment_bytes="1000")
    for number in range(6):
        x.quietly(produce((topic, [(0, good(b"x" * 400, b"%d" % number))])), 7)
    for offset in range(13):
        x.ask(fetching((topic, [(0, offset)])), version)


@case("kinds: every codec comes back as it was", NEWEST)
def codecs(x: Exchange, version: int) -> None:
    for kind in ("producer", "uncompressed"):
        topic = x.topic(kind, compression_type=kind)
        for codec in range(5):
            x.quietly(produce((topic, [(0, good(b"a" * 50, b"b" * 50, codec=codec))])), 7)
        x.ask(fetching((topic, [(0, 0)])), version)


@case("kinds: zstd and older versions", VERSIONS)
def zstd(x: Exchange, version: int) -> None:
    topic = x.topic(partitions=2)
    x.quietly(produce((topic, [(0, good(b"plain")), (1, good())])), 7)
    x.quietly(produce((topic, [(0, good(b"z" * 100, codec=4))])), 7)
    for offset in (0, 1):
        x.ask(fetching((topic, [(0, offset), (1, 0)])), version)
    forced = x.topic("forced", compression_type="zstd")
    x.ask(fetching((forced, [(0, 0)])), version)
    x.quietly(produce((forced, [(0, good(b"packed" * 20, codec=4))])), 7)
    x.ask(fetching((forced, [(0, 0)]), (topic, [(1, 0)])), version)
    x.ask(fetching((forced, [(0, 9)])), version)


@case("kinds: stamped, compacted, idempotent", NEWEST)
def kinds(x: Exchange, version: int) -> None:
    stamped = filled(x, "stamped", message_timestamp_type="LogAppendTime")
    compacted = filled(x, "compacted", cleanup_policy="compact")
    topic = x.topic("numbered")
    for sequence in (0, 1, 1, 2, 5):
        x.quietly(produce((topic, [(0, numbered(sequence))])), 7)
    for name in (stamped, compacted, topic):
        x.ask(fetching((name, [(0, 0)])), version)
        x.ask(fetching((name, [(0, 1)]), isolation_level=1), version)
