"""Metadata 0 to 13."""

from __future__ import annotations

import struct
import time
from typing import Any

from mpbroker.protocol.messages.delete_topics import DeleteTopicsRequest
from mpbroker.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.conformance.corpus.case import CLIENT_ID, PATIENCE_S, Exchange, case
from tests.harness.raw_client import frame

VERSIONS = range(0, 13)
NEWER = (13,)
PLAIN = range(0, 9)  # without compact lengths: bodies made by hand
MANY = 4  # topics: more than a request of these cases names
WITH_FLAG = range(4, 13)


def about(*names: str, create: bool = False, **fields: bool) -> MetadataRequest:
    """A request for some topics."""
    return MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in names],
                           allow_auto_topic_creation=create, **fields)


@case("metadata: topics that are there", VERSIONS, NEWER)
def there(x: Exchange, version: int) -> None:
    one, two = x.topic(partitions=3), x.topic("u")
    for names in ((one,), (two, one), (one, one), (one, two, one)):
        x.ask(about(*names), version)


@case("metadata: illegal names", VERSIONS, NEWER)
def illegal(x: Exchange, version: int) -> None:
    topic = x.topic()
    for name in ("", ".", "..", "bad name", "x" * 250, "ü", "a/b", "a\nb", "\0", "a,b"):
        x.ask(about(name, create=True), version)
    x.ask(about("bad name", topic, "bad name"), version)


@case("metadata: not there, and not to be made", WITH_FLAG, NEWER)
def not_made(x: Exchange, version: int) -> None:
    topic = x.topic()
    x.ask(about(x.name("nowhere")), version)
    x.ask(about(x.name("nowhere"), topic, x.name("nowhere"), "bad name"), version)


@case("metadata: made because somebody asks", VERSIONS, NEWER)
def made(x: Exchange, version: int) -> None:
    name = x.name("new")
    x.ask(about(name, create=True), version)
    deadline = time.monotonic() + PATIENCE_S
    while x.quietly(about(name), version).topics[0].error_code and time.monotonic() < deadline:
        time.sleep(0.01)
    x.settle()
    x.ask(about(name), version)
    x.ask(about(name, x.name("another"), create=True), version)


@case("metadata: made under a colliding name", (4, 8, 12))
def colliding(x: Exchange, version: int) -> None:
    x.topic("a.b")
    x.ask(about(x.name("a_b"), create=True), version)
    x.settle()
    x.ask(about(x.name("a_b")), version)


@case("metadata: none, all", VERSIONS, NEWER)
def none_or_all(x: Exchange, version: int) -> None:
    topic = x.topic()
    answer = x.quietly(MetadataRequest(topics=[]), version)
    x.outcomes.append(f"[] finds it: {topic in [found.name for found in answer.topics]}")
    if version:
        answer = x.quietly(MetadataRequest(topics=None), version)
        x.outcomes.append(f"null finds it: {topic in [found.name for found in answer.topics]}")
        x.ask(MetadataRequest(topics=[]), version)


@case("metadata: authorized operations", range(8, 13), NEWER)
def operations(x: Exchange, version: int) -> None:
    topic = x.topic()
    for cluster in (False, True):
        for topics in (False, True):
            x.ask(about(topic, x.name("nowhere"), "bad name", include_cluster_authorized_operations=cluster,
                        include_topic_authorized_operations=topics), version)


@case("metadata: a deleted topic", VERSIONS, NEWER)
def deleted(x: Exchange, version: int) -> None:
    topic = x.topic()
    x.quietly(DeleteTopicsRequest(topic_names=[topic], timeout_ms=10_000), 3)
    x.settle()
    if version >= 4:
        x.ask(about(topic), version)
    x.topic(partitions=2)
    x.ask(about(topic), version)


@case("metadata: malformed", PLAIN)
def malformed(x: Exchange, version: int) -> None:
    flags = b"" if version < 4 else b"\0" if version < 8 else b"\0\0\0"
    for body in (struct.pack(">i", 1 << 30) + flags, struct.pack(">ih", 1, -1) + flags,
                 struct.pack(">ih", 1, -2) + flags, struct.pack(">ih", 1, 2) + b"\xc3(" + flags, b""):
        x.ask_body(3, version, body)
    if version >= 4:
        x.ask_body(3, version, struct.pack(">i", 0) + bytes((2,)) * len(flags))
    if version == 0:
        x.ask_body(3, version, struct.pack(">i", -1))


@case("metadata: a name that grows when it is read", PLAIN)
def growing(x: Exchange, version: int) -> None:
    flags = b"" if version < 4 else b"\0" if version < 8 else b"\0\0\0"
    x.ask_body(3, version, struct.pack(">ih", 1, 10_922) + b"\xff" * 10_922 + flags)  # three bytes come back for each


def _identified(*topics: tuple[bytes, str | None]) -> MetadataRequest:
    return MetadataRequest(topics=[MetadataRequestTopic(topic_id=topic_id, name=name) for topic_id, name in topics],
                           allow_auto_topic_creation=True)


@case("metadata: by id", range(10, 13), NEWER)
def by_id(x: Exchange, version: int) -> None:
    topic, other = x.topic(partitions=2), x.topic("u")
    one, two, unknown = x.id_of(topic), x.id_of(other), x.id_of(x.name("nowhere"))
    zero = bytes(16)
    for asked in ([(one, None)], [(unknown, None)], [(zero, None)], [(one, topic)], [(one, other)], [(unknown, topic)],
                  [(one, "")], [(zero, topic)], [(one, None), (two, None)], [(one, None), (one, None)],
                  [(one, None), (unknown, None)], [(zero, None), (zero, topic)], [(one, None), (zero, other)],
                  [(unknown, x.name("made"))], [(unknown, "bad name")], [(zero, "bad name")]):
        x.ask(_identified(*asked), version)


@case("metadata: an id that was deleted", range(10, 13), NEWER)
def deleted_id(x: Exchange, version: int) -> None:
    topic = x.topic()
    topic_id = x.id_of(topic)
    x.quietly(DeleteTopicsRequest(topic_names=[topic], timeout_ms=10_000), 3)
    x.settle()
    x.ask(_identified((topic_id, None)), version)
    x.topic()
    x.settle()
    x.ask(_identified((topic_id, None)), version)


@case("metadata: malformed, flexible", range(9, 13), NEWER)
def malformed_flexible(x: Exchange, version: int) -> None:
    for number in range(MANY):
        x.topic(f"m{number}")
    flags = b"\0\0\0" if version <= 10 else b"\0\0"
    topic_id = bytes(16) if version >= 10 else b""
    for body in (b"\0" + flags + b"\0", b"\0" + flags, b"\1" + flags + b"\0\0", b"\1" + flags + b"\1\0\0",
                 b"\1" + flags + b"\1\7\1\0", b"\1" + flags + b"\1\0\5abc", b"\xff\xff\xff\xff\x0f" + flags + b"\0",
                 b"\xff\xff\xff\xff\x7f" + flags + b"\0", b"\x80\x80\x80\x80\x08" + flags + b"\0",
                 b"\2" + topic_id + b"\1\0" + flags + b"\0", b"\2" + topic_id + b"\0\0" + flags + b"\0",
                 b"\2" + topic_id + b"\3a\0" + flags + b"\0", b"\2" + topic_id + b"\2\xff\0" + flags + b"\0",
                 b"\2" + topic_id + b"\x82\0a\0" + flags + b"\0", b"\2" + topic_id + b"\2 \2\1\1a\7\0" + flags + b"\0",
                 b"\2" + topic_id + b"\2 \2\7\0\1\1a" + flags + b"\0", b"\2" + topic_id + b"\2 \2\1\0\1\0" + flags + b"\0"):
        data = frame(3, version, 7, b"\0" + body, CLIENT_ID.encode())  # the header ends with its tags
        x.outcomes.append(shortened(x.outcome(3, version, data)))


def shortened(outcome: Any) -> Any:
    """An answer about all topics, of all runs, says no more than that."""
    if not isinstance(outcome, dict) or len(outcome.get("topics", ())) < MANY:
        return outcome
    return {name: "many" if name == "topics" else value for name, value in outcome.items()}
