"""Fetch 4 to 17: what is asked, and by whom. Sessions: fetch_session_cases.py."""

from __future__ import annotations

import struct

from mpbroker.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic, ReplicaState
from tests.conformance.corpus.case import Exchange, case
from tests.conformance.corpus.produce_cases import produce
from tests.conformance.corpus.records import good

VERSIONS = range(4, 18)
BIG = 1 << 20


def fetching(*topics: tuple[str, list[tuple[int, int]]], partition_bytes: int = BIG, epoch: int = -1,
             log_start: int = -1, **fields: object) -> FetchRequest:
    """(topic, [(partition, offset)]) pairs; `fields` of the request."""
    return FetchRequest(**{"max_wait_ms": 0, "min_bytes": 0, "max_bytes": BIG, "session_epoch": -1} | fields, topics=[
        FetchTopic(topic=name, partitions=[
            FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=partition_bytes,
                           current_leader_epoch=epoch, log_start_offset=log_start) for partition, offset in partitions])
        for name, partitions in topics])


def filled(x: Exchange, name: str = "t", partitions: int = 1, batches: int = 3, **configs: str) -> str:
    """A topic whose partitions hold `batches` batches of two records."""
    topic = x.topic(name, partitions, **configs)
    for number in range(batches):
        x.quietly(produce((topic, [(p, good(b"%d" % number, b"%d" % p)) for p in range(partitions)])), 7)
    return topic


@case("fetch: offsets", VERSIONS)
def offsets(x: Exchange, version: int) -> None:
    topic, empty = filled(x), x.topic("empty")
    for offset in (0, 1, 2, 3, 5, 6, 7, 100, -1, -2, -2**63, 2**63 - 1):
        x.ask(fetching((topic, [(0, offset)])), version)
        x.ask(fetching((empty, [(0, offset)])), version)


@case("fetch: topics and partitions that are not there", VERSIONS)
def unknown(x: Exchange, version: int) -> None:
    topic = filled(x, partitions=2)
    for partition in (2, -1, 2**31 - 1, -2**31):
        x.ask(fetching((topic, [(partition, 0)])), version)
    for name in (x.name("nowhere"), "", "bad name", "x" * 300, "ü"):
        x.ask(fetching((name, [(0, 0)])), version)
    x.ask(fetching((topic, [(0, 0), (7, 0), (1, 4)]), (x.name("nowhere"), [(0, 0)])), version)
    x.ask(fetching(), version)
    x.ask(fetching((topic, [])), version)


@case("fetch: named twice", VERSIONS)
def named_twice(x: Exchange, version: int) -> None:
    topic, other = filled(x, partitions=2), filled(x, "u")
    x.ask(fetching((topic, [(0, 0), (0, 2)])), version)
    x.ask(fetching((topic, [(0, 0)]), (topic, [(0, 4)])), version)
    x.ask(fetching((topic, [(0, 0)]), (other, [(0, 0)]), (topic, [(1, 0)])), version)
    x.ask(fetching((topic, [(9, 0), (9, 0)])), version)
    x.ask(fetching((topic, [(1, 0), (0, 0)])), version)


@case("fetch: isolation levels", VERSIONS)
def isolation(x: Exchange, version: int) -> None:
    topic = filled(x)
    for level in (0, 1, 2, -1, 127, -128):
        x.ask(fetching((topic, [(0, 0)]), isolation_level=level), version)
        for offset in (6, 99):
            x.ask(fetching((topic, [(0, offset), (7, 0)]), isolation_level=level), version)


@case("fetch: replica ids", VERSIONS)
def replicas(x: Exchange, version: int) -> None:
    topic = filled(x)
    for replica_id in (-1, -2, -3, -2**31):
        for offset in (0, 6, 7):
            x.ask(fetching((topic, [(0, offset)]), replica_id=replica_id), version)


@case("fetch: epochs", range(9, 18))
def epochs(x: Exchange, version: int) -> None:
    topic = filled(x)
    for epoch in (-1, 0, 1, -2, 2**31 - 1, -2**31):
        for offset in (0, 6, 99):
            x.ask(fetching((topic, [(0, offset)]), epoch=epoch), version)
    x.ask(fetching((topic, [(5, 0)]), epoch=4), version)


@case("fetch: sessions that nobody has", range(7, 18))
def unknown_sessions(x: Exchange, version: int) -> None:
    topic = filled(x)
    x.ask(fetching((topic, [(0, 0)]), session_id=0, session_epoch=-1), version)
    x.ask(fetching((topic, [(0, 0)]), session_id=12345, session_epoch=-1), version)
    for session_id, epoch in ((12345, 1), (0, 1), (0, 5), (-1, 1), (12345, 2**31 - 1), (12345, -5), (0, -2)):
        x.ask(fetching((topic, [(0, 0)]), session_id=session_id, session_epoch=epoch), version)
        x.ask(fetching(session_id=session_id, session_epoch=epoch), version)
    forgotten = [ForgottenTopic(topic=topic, partitions=[0, 7]), ForgottenTopic(topic="nowhere", partitions=[])]
    x.ask(fetching((topic, [(0, 0)]), forgotten_topics_data=forgotten), version)


@case("fetch: what does not matter", VERSIONS)
def immaterial(x: Exchange, version: int) -> None:
    topic = filled(x)
    for log_start in (0, 5, -9, 2**63 - 1):
        x.ask(fetching((topic, [(0, 0)]), log_start=log_start), version)
    for rack in ("", "RACK1", "elsewhere", "ü"):
        x.ask(fetching((topic, [(0, 0)]), rack_id=rack), version)
    x.ask(fetching((topic, [(0, 2)]), max_wait_ms=-1, min_bytes=1000), version)
    x.ask(fetching((topic, [(0, 2)]), max_wait_ms=-2**31, min_bytes=1 << 30), version)


@case("fetch: malformed", range(4, 12))
def malformed(x: Exchange, version: int) -> None:
    head = struct.pack(">iiiib", -1, 0, 0, BIG, 0) + (struct.pack(">ii", 0, -1) if version >= 7 else b"")
    for body in (head + struct.pack(">i", -1), head + struct.pack(">ih", 1, -1) + struct.pack(">i", 0),
                 head + struct.pack(">ih", 1, 1) + b"a" + struct.pack(">i", -1), head + struct.pack(">i", 1 << 30),
                 head + struct.pack(">i", 0) + struct.pack(">i", -1) + b"\0" * 8,
                 head + struct.pack(">i", 0) + struct.pack(">i", 0) + struct.pack(">h", -1)):
        x.ask_body(1, version, body)


@case("fetch: last fetched epochs", range(12, 18))
def last_fetched(x: Exchange, version: int) -> None:
    topic, empty = filled(x), x.topic("empty")
    for name in (topic, empty):
        for epoch in (-1, 0, 1, -2, 2**31 - 1, -2**31):
            for offset in (0, 2, 6, 99):
                asked = fetching((name, [(0, offset)]))
                asked.topics[0].partitions[0].last_fetched_epoch = epoch
                x.ask(asked, version)


@case("fetch: followers that are none", VERSIONS)
def no_followers(x: Exchange, version: int) -> None:
    topic = filled(x)
    for replica_id in (0, 5):
        state = ReplicaState(replica_id=replica_id) if version >= 15 else None
        x.ask(fetching((topic, [(0, 0)]), replica_id=replica_id, replica_state=state), version)
