"""DeleteRecords 0 to 2, and what Fetch and ListOffsets answer of a log whose beginning was given up."""

from __future__ import annotations

from mpbroker.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from tests.conformance.corpus.case import Exchange, case
from tests.conformance.corpus.fetch_cases import fetching, filled
from tests.conformance.corpus.list_offsets_cases import asking

VERSIONS = range(0, 3)


def deleting(*topics: tuple[str, list[tuple[int, int]]], timeout_ms: int = 15_000) -> DeleteRecordsRequest:
    """(topic, [(partition, offset)]) pairs."""
    return DeleteRecordsRequest(timeout_ms=timeout_ms, topics=[
        DeleteRecordsTopic(name=name, partitions=[
            DeleteRecordsPartition(partition_index=p, offset=offset) for p, offset in partitions])
        for name, partitions in topics])


@case("delete records: up to an offset", VERSIONS)
def offsets(x: Exchange, version: int) -> None:
    topic, empty = filled(x), x.topic("empty")
    for offset in (0, 1, 3, 2, 0, 4, 7, 100, -2, -2**63, 2**63 - 1, 6, 5, -1, 0):
        x.ask(deleting((topic, [(0, offset)])), version)
        x.ask(asking(topic, (0, -2)), 5)
        x.ask(fetching((topic, [(0, 2)])), 7)
    for offset in (0, -1, 1, -2):
        x.ask(deleting((empty, [(0, offset)])), version)


@case("delete records: partitions that are not there, and several", VERSIONS)
def partitions(x: Exchange, version: int) -> None:
    topic, other = filled(x, partitions=3), filled(x, "u")
    for name, number in ((topic, 7), (topic, -1), (x.name("nowhere"), 0), ("", 0), ("bad name", 0)):
        x.ask(deleting((name, [(number, 1)])), version)
    for asked in ([(topic, [(0, 1)]), (other, [(0, 2)])], [(topic, [(0, 100), (1, 2)])], [(topic, [])], [],
                  [(topic, [(2, 2), (2, 3)])], [(topic, [(2, 3)]), (topic, [(2, 4)])],
                  [(topic, [(0, 2), (9, 2)]), (x.name("nowhere"), [(0, 0)])]):
        answer = x.quietly(deleting(*asked), version)
        x.outcomes.append(sorted([t.name.removeprefix(x.prefix), sorted([p.partition_index, p.low_watermark, p.error_code]
                                                                        for p in t.partitions)] for t in answer.topics))


@case("delete records: of topics that keep them", VERSIONS)
def policies(x: Exchange, version: int) -> None:
    for name, policy in (("c", "compact"), ("b", "compact,delete"), ("d", "delete")):
        topic = x.topic(name, cleanup_policy=policy)
        for offset in (0, 1, -1, -5):
            x.ask(deleting((topic, [(0, offset)])), version)


@case("delete records: how long it may take", VERSIONS)
def patience(x: Exchange, version: int) -> None:
    topic = filled(x)
    for number, timeout_ms in enumerate((0, -1, 1000)):
        x.ask(deleting((topic, [(0, number + 1)]), timeout_ms=timeout_ms), version)
