"""DeleteTopics 0 to 6 and CreatePartitions 0 to 3."""

from __future__ import annotations

import struct

from mpbroker.protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from mpbroker.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tests.conformance.corpus.case import Exchange, case
from tests.conformance.corpus.fetch_cases import fetching, filled
from tests.conformance.corpus.metadata_cases import about
from tests.conformance.corpus.produce_cases import produce
from tests.conformance.corpus.records import good

DELETE_VERSIONS = range(0, 7)
PARTITIONS_VERSIONS = range(0, 4)


def _deleting(names: list[str], version: int) -> DeleteTopicsRequest:
    if version < 6:
        return DeleteTopicsRequest(topic_names=names, timeout_ms=10_000)
    return DeleteTopicsRequest(topics=[DeleteTopicState(name=name) for name in names], timeout_ms=10_000)


@case("delete: by id", (6,))
def by_id(x: Exchange, version: int) -> None:
    one, two, three = x.topic(), x.topic("u"), x.topic("v")
    ids = {name: x.id_of(name) for name in (one, two, three)}
    unknown = x.id_of(x.name("nowhere"))
    for topics in ([(None, unknown)], [(None, bytes(16))], [(one, ids[one])], [(one, unknown)], [(x.name("nowhere"), ids[one])],
                   [(None, ids[one]), (None, ids[one])], [(None, unknown), (None, unknown)], [(one, bytes(16)), (None, ids[one])],
                   [(one, bytes(16)), (one, bytes(16))], [(None, bytes(16)), (None, bytes(16))], [(None, ids[two])],
                   [(None, ids[two])], [(three, bytes(16)), (None, unknown)], [(None, ids[one]), (x.name("nowhere"), bytes(16))]):
        x.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name=name, topic_id=i) for name, i in topics], timeout_ms=10_000),
              version)
        x.settle()
    x.ask(about(one, two, three), 8)


@case("delete: there and not there", DELETE_VERSIONS)
def delete(x: Exchange, version: int) -> None:
    topic, other = filled(x), x.topic("u")
    for names in ([topic], [topic], [x.name("nowhere")], [""], ["bad name"], ["x" * 300], [],
                  [other, x.name("nowhere"), other], [other, x.name("nowhere"), "bad name"]):
        x.ask(_deleting(names, version), version)
    x.settle()
    x.ask(about(topic, other), 8)
    x.ask(produce((topic, [(0, good())])), 7)
    x.ask(fetching((topic, [(0, 0)])), 11)
    x.topic()
    x.ask(fetching((topic, [(0, 0)])), 11)
    x.ask(produce((topic, [(0, good())])), 7)


@case("delete: malformed", range(0, 4))
def delete_malformed(x: Exchange, version: int) -> None:
    tail = struct.pack(">i", 1000)
    for body in (struct.pack(">i", -1) + tail, struct.pack(">ih", 1, -1) + tail, struct.pack(">i", 1 << 30) + tail, b""):
        x.ask_body(20, version, body)


def growing(name: str, count: int, assignments: list[list[int]] | None = None, validate_only: bool = False,
            timeout_ms: int = 10_000) -> CreatePartitionsRequest:
    return CreatePartitionsRequest(timeout_ms=timeout_ms, validate_only=validate_only, topics=[_one(name, count, assignments)])


def _one(name: str, count: int, assignments: list[list[int]] | None = None) -> CreatePartitionsTopic:
    given = None if assignments is None else [CreatePartitionsAssignment(broker_ids=ids) for ids in assignments]
    return CreatePartitionsTopic(name=name, count=count, assignments=given)


@case("partitions: counts", PARTITIONS_VERSIONS)
def partition_counts(x: Exchange, version: int) -> None:
    topic = filled(x, partitions=2)
    for count in (2, 1, 0, -1, -2**31, 3, 3, 5):
        x.ask(growing(topic, count), version)
    for name in (x.name("nowhere"), "", "bad name", "x" * 300):
        x.ask(growing(name, 5), version)
    x.ask(growing(topic, 8, validate_only=True), version)
    x.ask(growing(topic, 1, validate_only=True), version)
    x.settle()
    x.ask(about(topic), 8)
    x.ask(produce((topic, [(0, good()), (4, good())])), 7)


@case("partitions: assignments", PARTITIONS_VERSIONS)
def partition_assignments(x: Exchange, version: int) -> None:
    topic = x.topic()
    for count, assignments in ((2, [[0]]), (3, [[0], [0]]), (3, []), (3, [[]]), (3, [[1]]), (3, [[0, 0]]), (3, [[-1]]),
                               (3, [[0, 1]]), (2, [[0]]), (1, []), (4, [[0], [0]]), (5, [[0], [0]])):
        x.ask(growing(topic, count, assignments), version)
    x.settle()
    x.ask(about(topic), 8)


@case("partitions: several, some twice", PARTITIONS_VERSIONS)
def several(x: Exchange, version: int) -> None:
    one, two = x.topic(), x.topic("u")
    for topics in ([_one(one, 2), _one(one, 3), _one(two, 2)], [_one(one, 2), _one(two, 1)], [],
                   [_one(x.name("nowhere"), 2), _one(x.name("nowhere"), 2)]):
        x.ask(CreatePartitionsRequest(topics=topics, timeout_ms=10_000), version)
    x.settle()
    x.ask(about(one, two), 8)


@case("partitions: malformed", range(0, 2))
def partitions_malformed(x: Exchange, version: int) -> None:
    tail = struct.pack(">ib", 1000, 0)
    for body in (struct.pack(">i", -1) + tail, struct.pack(">ih", 1, -1) + struct.pack(">ii", 2, -1) + tail,
                 struct.pack(">ih", 1, 1) + b"a" + struct.pack(">iii", 2, 1, -1) + tail, b""):
        x.ask_body(37, version, body)
