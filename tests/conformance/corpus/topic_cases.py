"""CreateTopics 0 to 7: names, counts, assignments, settings."""

from __future__ import annotations

import struct

from mpbroker.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from tests.conformance.corpus.case import Exchange, case
from tests.conformance.corpus.metadata_cases import about

VERSIONS = range(0, 8)
NEWEST = (4, 7)


def creating(*topics: CreatableTopic, timeout_ms: int = 10_000, validate_only: bool = False) -> CreateTopicsRequest:
    return CreateTopicsRequest(topics=list(topics), timeout_ms=timeout_ms, validate_only=validate_only)


def one(name: str, partitions: int = 1, factor: int = 1, assignments: dict[int, list[int]] | None = None,
        configs: list[tuple[str, str | None]] = ()) -> CreatableTopic:
    """A topic as CreateTopics takes it."""
    return CreatableTopic(
        name=name, num_partitions=partitions, replication_factor=factor,
        assignments=[CreatableReplicaAssignment(partition_index=p, broker_ids=b) for p, b in (assignments or {}).items()],
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in configs])


def _alone(x: Exchange, version: int, *topics: CreatableTopic) -> None:
    for topic in topics:
        x.ask(creating(topic), version)


@case("create: names", VERSIONS)
def names(x: Exchange, version: int) -> None:
    _alone(x, version, one(x.name("t")), one(x.name("t")), *(one(name) for name in (
        "", ".", "..", "bad name", "x" * 250, "ü", "a/b", "a\nb", "\0", "a,b", "a:b", "__cluster_metadata")))
    _alone(x, version, one(x.name("a.b")), one(x.name("a_b")), one(x.name("a__b")),
           one(x.name("x" * (249 - len(x.prefix)))))
    x.ask(creating(one(x.name("c.d")), one(x.name("c_d"))), version)
    x.settle()
    x.ask(about(x.name("t"), x.name("a_b"), x.name("c.d"), x.name("c_d")), 8)


@case("create: counts", VERSIONS)
def counts(x: Exchange, version: int) -> None:
    for number, partitions in enumerate((0, -1, -2, 1, 3, -2**31)):
        _alone(x, version, one(x.name(f"p{number}"), partitions))
    for number, factor in enumerate((0, -1, -2, 2, 32767, -32768)):
        _alone(x, version, one(x.name(f"f{number}"), 1, factor))
    _alone(x, version, one(x.name("both"), -1, -1), one(x.name("zero"), 0, 0), one(x.name("bad name"), 0, 0),
           one(x.name("both"), 0, 0))
    x.settle()
    x.ask(about(x.name("both"), x.name("p1"), x.name("p4")), 8)


@case("create: assignments", VERSIONS)
def assignments(x: Exchange, version: int) -> None:
    tries = ({0: [0]}, {0: [0], 1: [0]}, {1: [0]}, {0: [0], 2: [0]}, {0: []}, {0: [1]}, {0: [0, 0]}, {0: [0, 1]},
             {-1: [0]}, {0: [-1]}, {0: [0], 1: []}, {0: [0], -1: [0]}, {1: [0], 0: [0]})
    for number, assignment in enumerate(tries):
        _alone(x, version, one(x.name(f"t{number}"), -1, -1, assignment))
    _alone(x, version, one(x.name("p"), 1, -1, {0: [0]}), one(x.name("f"), -1, 1, {0: [0]}),
           one(x.name("pf"), 1, 1, {0: [0]}), one(x.name("t0"), -1, -1, {0: [1]}))
    twice = one(x.name("twice"), -1, -1, {0: [0]})
    twice.assignments = twice.assignments * 2
    _alone(x, version, twice)


SETTINGS: list[list[tuple[str, str | None]]] = [
    [("retention.ms", "1000")], [("retention.ms", "-1")], [("retention.ms", "-2")], [("retention.ms", "x")],
    [("retention.ms", "")], [("retention.ms", None)], [("retention.ms", "1.5")], [("retention.ms", " 1000 ")],
    [("retention.ms", "9223372036854775808")], [("no.such", "1")], [("", "1")], [("segment.bytes", "13")],
    [("segment.bytes", "14")], [("segment.bytes", "2147483648")], [("cleanup.policy", "compact")],
    [("cleanup.policy", "delete,compact")], [("cleanup.policy", "none")], [("cleanup.policy", "")],
    [("cleanup.policy", "Delete")], [("cleanup.policy", "delete,delete")], [("compression.type", "zstd")],
    [("compression.type", "bzip2")], [("compression.type", "GZIP")], [("min.insync.replicas", "0")],
    [("min.insync.replicas", "2")], [("message.timestamp.type", "LogAppendTime")],
    [("message.timestamp.type", "logappendtime")], [("unclean.leader.election.enable", "true")],
    [("unclean.leader.election.enable", "TRUE")], [("unclean.leader.election.enable", "yes")],
    [("max.message.bytes", "-1")], [("max.message.bytes", "0")], [("index.interval.bytes", "-1")],
    [("segment.index.bytes", "3")], [("segment.index.bytes", "4")], [("segment.jitter.ms", "-1")], [("segment.ms", "0")],
    [("segment.ms", "1")], [("flush.messages", "0")], [("flush.ms", "-1")], [("min.cleanable.dirty.ratio", "1.1")],
    [("min.cleanable.dirty.ratio", "0.5")], [("min.cleanable.dirty.ratio", "x")], [("preallocate", "1")],
    [("message.format.version", "2.0")], [("message.format.version", "banana")],
    [("message.timestamp.difference.max.ms", "5")], [("message.timestamp.before.max.ms", "-1")],
    [("message.timestamp.after.max.ms", "0")], [("leader.replication.throttled.replicas", "*")],
    [("leader.replication.throttled.replicas", "0:0")], [("leader.replication.throttled.replicas", "a")],
    [("follower.replication.throttled.replicas", "0:0,1:0")], [("remote.storage.enable", "false")],
    [("local.retention.ms", "5")], [("local.retention.bytes", "-2")], [("local.retention.ms", "-3")],
    [("retention.bytes", "-1")], [("retention.bytes", "0")], [("delete.retention.ms", "-1")], [("file.delete.delay.ms", "0")],
    [("max.compaction.lag.ms", "0")], [("max.compaction.lag.ms", "1"), ("min.compaction.lag.ms", "2")],
    [("message.downconversion.enable", "false")], [("compression.gzip.level", "0")], [("compression.gzip.level", "1")],
    [("compression.gzip.level", "-1")], [("compression.zstd.level", "23")], [("compression.lz4.level", "18")],
    [("retention.ms", "1"), ("retention.ms", "2")], [("retention.ms", "1"), ("no.such", "2")],
    [("local.retention.ms", "100"), ("retention.ms", "50")], [("segment.bytes", "+1000")], [("segment.bytes", "0x100")],
]


@case("create: settings", (4,))
def settings(x: Exchange, version: int) -> None:
    for number, configs in enumerate(SETTINGS):
        _alone(x, version, one(x.name(f"t{number}"), configs=configs))
    _alone(x, version, one(x.name("bad name"), configs=[("no.such", "1")]),
           one(x.name("t0"), configs=[("no.such", "1")]), one(x.name("counts"), 0, 5, configs=[("no.such", "1")]))


@case("create: several, some twice", VERSIONS)
def several(x: Exchange, version: int) -> None:
    x.topic()
    x.ask(creating(one(x.name("t")), one(x.name("a")), one("bad name"), one(x.name("b"), 0)), version)
    x.ask(creating(one(x.name("c")), one(x.name("c")), one(x.name("d"))), version)
    x.ask(creating(one(x.name("e")), one(x.name("e"), 0)), version)
    x.ask(creating(one("bad name"), one("bad name")), version)
    x.ask(creating(), version)
    x.ask(creating(one(x.name("t")), one(x.name("t"))), version)
    x.settle()
    x.ask(about(*(x.name(name) for name in "abcde")), 8)


@case("create: only to check", range(1, 8))
def only_to_check(x: Exchange, version: int) -> None:
    x.topic()
    for topic in (one(x.name("a")), one(x.name("t")), one("bad name"), one(x.name("b"), 0), one(x.name("c"), 1, 9),
                  one(x.name("d"), configs=[("no.such", "1")])):
        x.ask(creating(topic, validate_only=True), version)
    x.settle()
    x.ask(about(x.name("a")), 8)


@case("create: timeouts", NEWEST)
def timeouts(x: Exchange, version: int) -> None:
    x.ask(creating(one(x.name("long")), timeout_ms=2**31 - 1), version)


@case("create: malformed", range(0, 5))
def malformed(x: Exchange, version: int) -> None:
    tail = struct.pack(">i", 1000) + (b"\0" if version else b"")
    name = x.name("m").encode()
    head = struct.pack(">ih", 1, len(name)) + name + struct.pack(">ih", 1, 1)
    for body in (struct.pack(">i", -1) + tail, struct.pack(">ih", 1, -1) + struct.pack(">ihii", 1, 1, 0, 0) + tail,
                 head + struct.pack(">ii", -1, 0) + tail, head + struct.pack(">ii", 0, -1) + tail,
                 head + struct.pack(">iiii", 1, 0, -1, 0) + tail, head + struct.pack(">iih", 0, 1, -1) + b"\0\0" + tail,
                 struct.pack(">i", 1 << 30) + tail, b""):
        x.ask_body(19, version, body)
    x.settle()
    x.ask(about(x.name("m")), 8)


@case("create: what was made", range(5, 8))
def what_was_made(x: Exchange, version: int) -> None:
    _alone(x, version, one(x.name("a"), 3), one(x.name("b"), -1, -1), one(x.name("c"), -1, -1, {0: [0], 1: [0]}),
           one(x.name("d"), configs=[("retention.ms", "5000"), ("cleanup.policy", "compact")]))
    x.ask(creating(one(x.name("e"), 2, configs=[("segment.bytes", "9999")]), validate_only=True), version)
    x.ask(creating(one(x.name("a")), one(x.name("f")), one("bad name")), version)
    x.settle()
    x.ask(about(*(x.name(name) for name in "abcdef")), 12)
